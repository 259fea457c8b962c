"""Where PyTorch's ranks meet under `ronde run`: in the job's folder, unless somebody has chosen otherwise."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any, Iterator

import pytest
import torch.distributed as dist

from ronde.exceptions import InitializationError
from ronde.torch.distributed import _rendezvous

LIMIT = timedelta(seconds=30)


def pytorchs(url: str, **more: Any) -> Iterator[tuple[str, str]]:
    """Stands for PyTorch's own handler."""
    yield "PyTorch's", url


def meet(url: str = "env://", timeout: timedelta = LIMIT) -> Any:
    return next(_rendezvous._meet(pytorchs, url, timeout=timeout))


def signs() -> list[str]:
    folder = Path(os.environ["RONDE_STORE"][len("unix:") :]).parent
    return sorted(path.name for path in folder.iterdir() if path.is_symlink())


@pytest.mark.ranks(1, 2, 3)
def test_each_meeting_has_a_file_of_its_own(hvd, rank, world, monkeypatch):
    monkeypatch.setattr(_rendezvous, "_meetings", 0)
    stores = []
    for number in range(3):
        store, its_rank, its_size = meet()
        assert (its_rank, its_size) == (rank, world) and store.timeout == LIMIT
        store.set(f"number-{rank}", str(number))
        for other in range(world):
            assert store.get(f"number-{other}") == str(number).encode()
        stores.append(store)
    assert len({store.path for store in stores}) == 3
    for store in stores:
        about = os.lstat(os.path.dirname(store.path))
        assert about.st_uid == os.geteuid() and about.st_mode & 0o777 == 0o700
    hvd.barrier()
    assert signs() == []


@pytest.mark.ranks(2)
def test_another_program_of_the_job_does_not_meet_the_last_ones_store(hvd, rank, monkeypatch):
    """As with `ronde run -- sh -c "python one.py; python two.py"` where the first ends without leaving its group."""
    stores = []
    for program in ("one", "two"):
        monkeypatch.setattr(_rendezvous, "_meetings", 0)
        assert signs() == []
        hvd.barrier()
        store, _, _ = meet()
        store.set(f"program-{rank}", program)
        assert store.get(f"program-{1 - rank}") == program.encode()
        stores.append(store)
        hvd.barrier()
    assert stores[0].path != stores[1].path and os.path.exists(stores[0].path)


@pytest.mark.ranks(2)
def test_a_sign_of_a_meeting_that_failed_is_replaced(hvd, rank, monkeypatch):
    monkeypatch.setattr(_rendezvous, "_meetings", 0)
    if rank == 0:
        folder = Path(os.environ["RONDE_STORE"][len("unix:") :]).parent
        os.symlink(folder / "torch-1-left", folder / "torch-1")
        store, _, _ = meet()
    hvd.barrier()
    if rank == 1:
        store, _, _ = meet()
    store.set(str(rank), "here")
    assert store.get(str(1 - rank)) == b"here" and not store.path.endswith("left")
    hvd.barrier()
    assert signs() == []


def test_only_its_own_sign_is_taken_down(tmp_path):
    sign, file = str(tmp_path / "torch-1"), str(tmp_path / "torch-1-ours")
    _rendezvous._take_down(sign, file, os.getpid())  # gone already
    os.symlink(tmp_path / "torch-1-another", sign)
    _rendezvous._take_down(sign, file, os.getpid())
    assert os.path.islink(sign)
    os.unlink(sign)
    os.symlink(file, sign)
    _rendezvous._take_down(sign, file, os.getpid() + 1)  # a forked child ends
    assert os.path.islink(sign)
    _rendezvous._take_down(sign, file, os.getpid())
    assert not os.path.islink(sign)


def test_the_sign_of_a_meeting_that_failed_goes_with_its_program(tmp_path):
    """`python one.py || python two.py`: whoever comes first to the second meeting must not follow the first one's."""
    place = {"RANK": "0", "WORLD_SIZE": "2", "RONDE_RANK": "0", "RONDE_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": "4711", "RONDE_MASTER": "127.0.0.1:4711", "RONDE_STORE": f"unix:{tmp_path}/store"}
    code = ("from datetime import timedelta; from ronde.torch.distributed import _rendezvous as r;"
            "next(r._meet(None, 'env://', timeout=timedelta(seconds=30)));"
            "import glob, os; print([os.path.islink(each) for each in glob.glob(os.path.dirname(os.environ['RONDE_STORE']"
            "[5:]) + '/torch-1')])")
    program = subprocess.run([sys.executable, "-c", code], env={**os.environ, **place}, capture_output=True, text=True,
                             check=True)
    assert program.stdout.strip() == "[True]"
    assert not any(path.is_symlink() for path in tmp_path.iterdir())


@pytest.mark.ranks(2)
def test_a_rank_0_that_does_not_come_is_named(hvd, rank):
    if rank == 1:
        before = _rendezvous._meetings
        with pytest.raises(InitializationError, match=r"rank 0 has not called init_process_group within 0\.05 s"):
            meet(timeout=timedelta(seconds=0.05))
        _rendezvous._meetings = before
    hvd.barrier()


@pytest.fixture
def launched(monkeypatch, tmp_path) -> Path:
    """This process as the only rank of a job of `ronde run`; its folder."""
    place = {"RANK": "0", "WORLD_SIZE": "1", "RONDE_RANK": "0", "RONDE_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
             "MASTER_PORT": "4711", "RONDE_MASTER": "127.0.0.1:4711", "RONDE_STORE": f"unix:{tmp_path}/store"}
    for name, value in place.items():
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("RONDE_TORCH_STORE", raising=False)
    tmp_path.chmod(0o700)
    return tmp_path


@pytest.mark.parametrize("name, value", [
    ("RONDE_TORCH_STORE", "tcp"),
    ("MASTER_PORT", "29500"),
    ("MASTER_ADDR", "node7"),
    ("WORLD_SIZE", "2"),
    ("RONDE_MASTER", None),
])
def test_who_chooses_pytorchs_way_gets_it(launched, monkeypatch, name, value):
    assert isinstance(meet()[0], dist.FileStore)
    if value is None:
        monkeypatch.delenv(name)
    else:
        monkeypatch.setenv(name, value)
    assert meet() == ("PyTorch's", "env://")


@pytest.mark.parametrize("url, is_ours", [
    ("env://?rank=0&world_size=1", True),
    ("env://?rank=1&world_size=2", False),
    ("env://?rank=0&world_size=2", False),
])
def test_other_ranks_than_the_launchers_are_pytorchs(launched, url, is_ours):
    assert isinstance(meet(url)[0], dist.FileStore) == is_ours


def test_a_choice_that_cannot_be_understood_is_named(launched, monkeypatch):
    monkeypatch.setenv("RONDE_TORCH_STORE", "redis")
    with pytest.raises(InitializationError, match="RONDE_TORCH_STORE is 'redis': expected file"):
        meet()


def test_a_folder_that_is_open_to_others_is_refused(launched):
    launched.chmod(0o750)
    with pytest.raises(InitializationError, match="open to others"):
        meet()
    launched.chmod(0o700)


def test_a_folder_that_is_not_there_is_named(launched, monkeypatch):
    monkeypatch.setenv("RONDE_STORE", f"unix:{launched}/gone/store")
    with pytest.raises(InitializationError, match="cannot see"):
        meet()


def test_pytorchs_handler_is_replaced_only_under_the_launcher(monkeypatch):
    import importlib

    table = {"env": pytorchs}
    module = importlib.import_module("torch.distributed.rendezvous")
    monkeypatch.setattr(module, "_rendezvous_handlers", table)
    monkeypatch.delenv("RONDE_SIZE", raising=False)
    _rendezvous.replace_env()
    assert table == {"env": pytorchs}
    monkeypatch.setenv("RONDE_SIZE", "1")
    _rendezvous.replace_env()
    assert table["env"].func is _rendezvous._meet and table["env"].args == (pytorchs,)
    monkeypatch.delattr(module, "_rendezvous_handlers")
    _rendezvous.replace_env()  # a PyTorch that keeps them elsewhere
