"""One program uses every name that Horovod's users know; the list of names is in compat_names.py."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Set

import pytest
from compat_names import NAMES
from launching import PROGRAMS

LIMIT_S = 120

EVERY = {f"{module}.{name}" for module, names in NAMES.items() for name in names}
#: What only rank 0 uses, since it starts jobs of its own.
STARTING = {f"{module}.{name}" for module in NAMES if module.startswith("horovod.run") for name in NAMES[module]}
STARTING.add("horovod.run")


@pytest.fixture(scope="module", autouse=True)
def programs_are_modules():
    sys.path.insert(0, str(PROGRAMS))
    yield
    sys.path.remove(str(PROGRAMS))


def test_two_ranks_under_horovodrun(tmp_path):
    from all_of_horovod_launching import command_line

    words = ["-np", "2", "-H", "localhost:2", "--output-filename", str(tmp_path / "logs"), *command_line(tmp_path)]
    program = [sys.executable, str(PROGRAMS / "all_of_horovod.py"), str(tmp_path), "flags"]
    ended = subprocess.run([str(Path(sys.executable).with_name("horovodrun")), *words, *program], env=os.environ,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    used = [used_by(tmp_path, rank) for rank in range(2)]
    assert used[0] == EVERY
    assert used[1] == EVERY - STARTING
    assert (tmp_path / "logs/rank.1/stderr").exists()


def used_by(folder: Path, rank: int) -> Set[str]:
    return set(json.loads((folder / f"used.{rank}").read_bytes()))


@pytest.mark.ranks(1, 3, 4, 8, fresh=True, long=(4, 8))
def test_other_numbers_of_ranks(hvd, rank):
    """As in a job of its own, but that PyTorch is loaded already."""
    from all_of_horovod import check_job, used

    folder = hvd.broadcast_object(tempfile.mkdtemp() if rank == 0 else None, 0)
    check_job(Path(folder))
    assert used == EVERY - STARTING
    if rank == 0:
        shutil.rmtree(folder)
