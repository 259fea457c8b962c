"""Runs the programs of this folder as jobs whose ranks share one GPU (README.md)."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest
import torch

FOLDER = Path(__file__).resolve().parent
LIMIT_S = 240

IS_TRIED_ON_CPU = os.environ.get("RONDE_TEST_DEVICE") == "cpu"
pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() and not IS_TRIED_ON_CPU,
    reason=f"PyTorch {torch.__version__} sees no GPU here; RONDE_TEST_DEVICE=cpu tries the programs without one",
)


def job(launcher: str, ranks: int, program: str, **environment: str) -> str:
    """What the ranks print. Fails unless all end well."""
    python = [sys.executable, str(FOLDER / program)]
    if launcher == "ronde":
        own = Path(sysconfig.get_path("scripts")) / "ronde"
        command = [str(own) if own.exists() else "ronde", "run", "-n", str(ranks), "--", *python]
    else:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), python[1]]
    ended = subprocess.run(
        command, env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT_S
    )
    assert ended.returncode == 0, ended.stdout[-6000:]
    return ended.stdout


@pytest.mark.parametrize("program", ["collectives.py", "training.py"])
@pytest.mark.parametrize("launcher, ranks", [("ronde", 2), ("torchrun", 4)])
def test_torch_distributed(program, launcher, ranks):
    backend = "ronde" if ranks == 2 else "cpu:ronde,cuda:ronde"
    assert job(launcher, ranks, program, RONDE_TEST_BACKEND=backend).count(" checked, 0 failed") == ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_horovods_names(ranks):
    assert job("ronde", ranks, "horovod_names.py").count(" checked, 0 failed") == ranks


@pytest.mark.parametrize("ranks", [2, 4])
def test_jax(ranks):
    if importlib.util.find_spec("jax") is None:
        pytest.skip("JAX is not installed here")
    assert job("ronde", ranks, "arrays_of_jax.py").count(": as expected") == 3 * ranks
