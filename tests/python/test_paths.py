"""Every way to start ranks, where the folders for temporary files have names that people give to folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Dict, Iterator, List

import pytest

from launching import PROGRAMS, launcher
from test_distributed_start import free_port

LIMIT_S = 120
DISTRIBUTED = str(PROGRAMS / "distributed_start.py")
#: With a space, of more bytes than characters, and what shells and URLs make something else of.
ODD = "Ordner für Ränge – 層 %20 'a' #1"

# With NumPy, which is loaded in a tenth of PyTorch's time.
HVD = """
import numpy as np, ronde.numpy as hvd
hvd.init()
pair = hvd.add_process_set([0, 1])
assert hvd.allreduce(np.ones(1), op=hvd.Sum).item() == hvd.size() == 3
if pair.included():
    assert hvd.allreduce(np.ones(1), op=hvd.Sum, process_set=pair).item() == 2
hvd.barrier()
print("rank", hvd.rank(), "done", flush=True)
"""

HOROVOD_RUN = """
import horovod
def who(word):
    import numpy as np, ronde.numpy as hvd
    hvd.init()
    assert hvd.allreduce(np.ones(1), op=hvd.Sum).item() == 3
    return f"rank {hvd.rank()} {word}"
print(*horovod.run(who, ("done",), num_proc=3), sep="\\n")
"""


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder of few characters: a socket's address has room for a hundred bytes, beyond which another is taken."""
    with tempfile.TemporaryDirectory(prefix="t", dir="/tmp") as name:
        yield Path(name)


def odd(parent: Path) -> Path:
    folder = parent / ODD
    folder.mkdir(mode=0o700)
    assert len(os.fsencode(folder)) < 80
    return folder


def link(parent: Path) -> Path:
    """With such a name itself; it leads through another to a folder with such a name."""
    (parent / "second").symlink_to(odd(parent), target_is_directory=True)
    (parent / "erste Verknüpfung").symlink_to("second", target_is_directory=True)
    return parent / "erste Verknüpfung"


def long(parent: Path) -> Path:
    """Of 200 characters: no socket's address is as long."""
    missing = 200 - len(str(parent)) - 2
    folder = parent / ("x" * (missing // 2)) / ("ü" * (missing - missing // 2))
    folder.mkdir(parents=True)
    assert len(str(folder)) == 200
    return folder


def commands(folder: Path) -> Dict[str, List[str]]:
    python = sys.executable
    beside = Path(python).with_name("horovodrun")
    return {
        "ronde run": [launcher(), "run", "-n", "3", "--", python, "-c", HVD],
        "horovodrun": [str(beside), "-np", "3", python, "-c", HVD],
        "horovod.run": [python, "-c", HOROVOD_RUN],
        "torch.distributed, ronde run": [launcher(), "run", "-n", "3", "--", python, DISTRIBUTED],
        "torch.distributed, torchrun": [
            *[python, "-m", "torch.distributed.run", "--master-port", str(free_port()), "--nproc-per-node", "3"],
            DISTRIBUTED,
        ],
        "torch.distributed, mp.spawn": [python, DISTRIBUTED, "--spawn", "3", "--port", str(free_port())],
        "torch.distributed, mp.spawn and a file": [python, DISTRIBUTED, "--spawn", "3", "--file", str(folder / "meet")],
    }


STARTS = list(commands(Path("/")))
#: Like another of them.
LONG = {"torch.distributed, torchrun", "torch.distributed, mp.spawn and a file"}


def start(how: str, folder: Path, **environment: str) -> None:
    base = {name: value for name, value in os.environ.items() if name not in ("TMPDIR", "XDG_RUNTIME_DIR")}
    ended = subprocess.run(commands(folder)[how], env={**base, "OMP_NUM_THREADS": "1", **environment}, text=True,
                           stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for rank in range(3):
        assert f"rank {rank} done" in ended.stdout, ended.stdout + ended.stderr
    assert [path for path in folder.rglob("ronde-*") if "table" not in path.name] == []


@pytest.mark.parametrize("folder", [long, pytest.param(link, marks=pytest.mark.long)])
@pytest.mark.parametrize("how", [pytest.param(how, marks=[pytest.mark.long] if how in LONG else []) for how in STARTS])
def test_folder_for_temporary_files(how, folder, short):
    made = folder(short)
    start(how, made, TMPDIR=str(made))


@pytest.mark.parametrize("how", ["ronde run", pytest.param("torch.distributed, ronde run", marks=pytest.mark.long),
                                 pytest.param("torch.distributed, mp.spawn", marks=pytest.mark.long)])
def test_folder_of_the_session(how, short):
    made = odd(short)
    start(how, made, XDG_RUNTIME_DIR=str(made))


@pytest.mark.parametrize("how", ["ronde run", pytest.param("torch.distributed, mp.spawn", marks=pytest.mark.long)])
def test_a_name_that_is_no_text(how, short):
    made = Path(os.fsdecode(os.fsencode(short) + b"/caf\xe9"))
    made.mkdir()
    start(how, made, TMPDIR=str(made))
