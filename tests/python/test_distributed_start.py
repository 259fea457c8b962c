"""How ranks of torch.distributed find each other: under `ronde run`, torchrun and mp.spawn, and what they distrust."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Dict

import pytest
import torch.distributed as dist

from launching import PROGRAMS, launcher

import ronde.torch  # noqa: F401
from ronde.exceptions import InitializationError
from ronde.torch.distributed import _meeting

PROGRAM = str(PROGRAMS / "distributed_start.py")


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def run(command: list[str], folder: Path) -> str:
    """Its output; what it leaves in a folder of its own for temporary files is a failure."""
    environment: Dict[str, str] = {**os.environ, "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    environment.pop("XDG_RUNTIME_DIR", None)
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=180, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert [path for path in folder.rglob("ronde-*")] == []
    return ended.stdout


@pytest.mark.parametrize("start", ["ronde run", "mp.spawn", pytest.param("torchrun", marks=pytest.mark.long)])
def test_starts(start, tmp_path):
    command = {
        "ronde run": [launcher(), "run", "-n", "3", "--", sys.executable, PROGRAM, "--without-ports", "20"],
        "torchrun": [
            *[sys.executable, "-m", "torch.distributed.run", "--master-port", str(free_port())],
            *["--nproc-per-node", "3", PROGRAM],
        ],
        "mp.spawn": [sys.executable, PROGRAM, "--spawn", "3", "--port", str(free_port())],
    }[start]
    output = run(command, tmp_path)
    for rank in range(3):
        assert f"rank {rank} done" in output, output


def test_the_job_must_be_the_one_that_pytorch_means():
    store = dist.HashStore()
    dist.init_process_group("ronde", store=store, rank=0, world_size=1)
    try:
        with pytest.raises(InitializationError, match="rank 1 of 2, but it is rank 0 of 1"):
            from ronde.torch.distributed import _creation

            _creation._join_job(store, 1, 2, 0.0)
    finally:
        dist.destroy_process_group()
    assert not ronde.torch.is_initialized(), "what the group began it has ended"


@pytest.fixture
def hint(tmp_path, monkeypatch):
    """What rank 0 has put into PyTorch's store, which another process of this user may trust."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    store = dist.HashStore()
    made = _meeting.open_or_find(store, 0, 2)
    said = bytes(store.get(f"ronde/meeting/{_meeting._jobs}"))
    assert made.key.encode() not in said
    assert _meeting._find(said, 2) == made
    yield said
    _meeting.close()
    assert list(tmp_path.iterdir()) == []


#: Opens a store for the others and puts the key beside it, as _meeting does; waits for its end.
RANK_0 = """
import ctypes, pathlib, signal
from ronde._lib import check, library
store, address, key = ctypes.c_void_p(), ctypes.c_char_p(), ctypes.c_char_p()
check(library().ronde_store_open(ctypes.byref(store), ctypes.byref(address), ctypes.byref(key)))
pathlib.Path(address.value.decode().removeprefix("unix:")).with_name("key").write_bytes(key.value)
print("ready", flush=True)
signal.pause()
"""


def test_what_a_killed_rank_0_leaves_goes_with_the_next_start(tmp_path, monkeypatch):
    """The folder with the socket and the key, where no launcher of ours and no other rank is left to remove it."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    rank_0 = subprocess.Popen([sys.executable, "-c", RANK_0], stdout=subprocess.PIPE, text=True)
    assert rank_0.stdout is not None and rank_0.stdout.readline() == "ready\n"
    [folder] = tmp_path.iterdir()
    another_job = _meeting._Store()
    another_job.close()
    assert [folder] == list(tmp_path.iterdir()) and (folder / "key").exists(), "a living job's folder is left alone"
    rank_0.kill()
    rank_0.communicate(timeout=180)
    assert [folder] == list(tmp_path.iterdir())
    another_job = _meeting._Store()
    assert not folder.exists() and len(list(tmp_path.iterdir())) == 1
    another_job.close()
    assert list(tmp_path.iterdir()) == []


def folder_in(said: bytes) -> Path:
    return Path(said.decode().split("\n")[0])


def test_a_hint_that_somebody_else_has_written_is_refused(hint, tmp_path):
    folder, nonce, proof = hint.decode().split("\n")
    (tmp_path / "elsewhere").mkdir()
    forged = [
        "",
        "x" * 600,
        "\xff",
        f"{folder}\n{nonce}",
        f"{folder}\n{'0' * 64}\n{proof}",
        f"{folder}\n{nonce}\n{'0' * 64}",
        f"{tmp_path}/elsewhere\n{nonce}\n{proof}",
        f"{folder}/../{Path(folder).name}\n{nonce}\n{proof}",
    ]
    for said in forged:
        with pytest.raises(InitializationError, match="cannot be trusted"):
            _meeting._find(said.encode("latin-1"), 2)
    with pytest.raises(InitializationError, match="not made with the key"):
        _meeting._find(hint, 3)
    with pytest.raises(InitializationError, match="cannot enter"):
        _meeting._find(f"/nowhere/ronde-abcdef\n{nonce}\n{proof}".encode(), 2)
    os.rmdir(tmp_path / "elsewhere")


def test_a_folder_or_key_that_others_can_read_is_refused(hint):
    folder = folder_in(hint)
    folder.chmod(0o755)
    with pytest.raises(InitializationError, match="open to others"):
        _meeting._find(hint, 2)
    folder.chmod(0o700)
    (folder / "key").chmod(0o644)
    with pytest.raises(InitializationError, match="open to others"):
        _meeting._find(hint, 2)
    (folder / "key").unlink()
    (folder / "key").symlink_to("/dev/zero")
    with pytest.raises(InitializationError, match="there is no key"):
        _meeting._find(hint, 2)
