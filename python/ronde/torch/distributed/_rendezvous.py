"""Where PyTorch's ranks meet under ``ronde run``: in a file of the job's private folder, for every backend.

PyTorch's own way with ``env://`` is a server of rank 0 on MASTER_PORT, which everyone who reaches the host can read and
write, and which a second ``init_process_group`` of a process may find still open from the first
(docs/decisions/0012-file-store-under-ronde-run.md).

Each meeting has a file of its own. Rank 0 chooses its name, which nobody has used before, and puts up a sign to it: a
symbolic link named by the count of meetings in this process. The last rank to come takes the sign down, or rank 0 at its
end if not all came, so that who comes next, be it another program in the same job, finds no old one.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import importlib
import os
import secrets
import stat
import time
from datetime import timedelta
from typing import Any, Callable, Iterator, Optional, Tuple
from urllib.parse import parse_qsl, urlsplit

import torch.distributed as dist
from torch.distributed.constants import default_pg_timeout

from ronde import _abi
from ronde.exceptions import InitializationError
from ronde.torch.distributed import _meeting

#: How often a rank looks for rank 0's sign, in seconds. PyTorch's FileStore looks as often for a key.
_LOOK_EVERY_S = 0.01

_Meeting = Tuple[dist.Store, int, int]

_meetings = 0


def replace_env() -> None:
    """From now on ``env://`` means the file, where nobody has chosen otherwise. Does nothing without our launcher, or
    where PyTorch keeps its handlers elsewhere: a second one for the same name cannot be registered."""
    if not _meeting.has_launcher():
        return
    # Not dist.rendezvous: that name is the function of the module.
    handlers = getattr(importlib.import_module("torch.distributed.rendezvous"), "_rendezvous_handlers", None)
    if isinstance(handlers, dict) and callable(handlers.get("env")):
        handlers["env"] = functools.partial(_meet, handlers["env"])


def _meet(
    pytorchs: Callable[..., Iterator[_Meeting]], url: str, timeout: timedelta = default_pg_timeout, **more: Any
) -> Iterator[_Meeting]:
    """A rendezvous handler of PyTorch's: yields once."""
    told = dict(parse_qsl(urlsplit(url).query))
    if _is_for_pytorch(told):
        yield from pytorchs(url, timeout=timeout, **more)
        return
    rank, size = int(os.environ["RONDE_RANK"]), int(os.environ["RONDE_SIZE"])
    yield _open(_private_folder(), rank, size, timeout), rank, size
    raise RuntimeError("env:// under ronde run: ranks meet once for each init_process_group")


def _is_for_pytorch(told: dict[str, str]) -> bool:
    """Whether the user has chosen PyTorch's store, another place for it, or other ranks than the job's."""
    choice = os.environ.get("RONDE_TORCH_STORE", "")
    if choice not in ("", "file", "tcp"):
        raise InitializationError(
            f"RONDE_TORCH_STORE is '{choice}': expected file, the default, or tcp for PyTorch's own store at "
            "MASTER_ADDR and MASTER_PORT",
            _abi.INVALID_ARGUMENT,
        )
    place = f"{os.environ.get('MASTER_ADDR', '')}:{os.environ.get('MASTER_PORT', '')}"
    rank = told.get("rank", os.environ.get("RANK"))
    size = told.get("world_size", os.environ.get("WORLD_SIZE"))
    return (
        choice == "tcp"
        or place != os.environ.get("RONDE_MASTER")
        or (rank, size) != (os.environ.get("RONDE_RANK"), os.environ.get("RONDE_SIZE"))
        or not os.environ.get("RONDE_STORE", "").startswith("unix:/")
        # Hosts have no file in common, and PyTorch counts its groups in a store that all reach. Ronde trusts nothing
        # from it (SECURITY.md).
        or os.environ.get("RONDE_LOCAL_SIZE", os.environ.get("RONDE_SIZE")) != os.environ.get("RONDE_SIZE")
    )


def _private_folder() -> str:
    """The launcher's, which goes with the job. Raises InitializationError if others can enter it or it is not there."""
    folder = os.path.dirname(os.environ["RONDE_STORE"][len("unix:") :])
    try:
        about = os.lstat(folder)
    except OSError as error:
        raise InitializationError(
            f"RONDE_STORE names the job's folder {folder}, which this process cannot see ({error.strerror}): a rank "
            "must run on the launcher's host and see its files",
            _abi.INVALID_ARGUMENT,
        ) from error
    if not stat.S_ISDIR(about.st_mode) or not _meeting.is_private(about):
        raise InitializationError(
            f"RONDE_STORE names the job's folder {folder}, which belongs to another user or is open to others; "
            "expected a folder of this user's of mode 0700. Let ronde run set RONDE_STORE",
            _abi.INVALID_ARGUMENT,
        )
    return folder


def _open(folder: str, rank: int, size: int, timeout: timedelta) -> dist.Store:
    global _meetings
    _meetings += 1
    sign = os.path.join(folder, f"torch-{_meetings}")
    if rank == 0:
        file = f"{sign}-{secrets.token_hex(8)}"
        os.symlink(file, f"{file}.sign")
        os.replace(f"{file}.sign", sign)  # over one that a rank 0 which was killed has left
        atexit.register(_take_down, sign, file, os.getpid())
    else:
        file = _wait_for(sign, timeout)
    store = dist.FileStore(file, size)
    store.set_timeout(timeout)
    if store.add("ronde/come", 1) == size:
        _take_down(sign, file, os.getpid())
    return store


def _take_down(sign: str, file: str, process: int) -> None:
    """Unless it leads elsewhere by now, or this is a forked child of the process that put it up."""
    if os.getpid() == process and _read(sign) == file:
        with contextlib.suppress(OSError):
            os.unlink(sign)


def _wait_for(sign: str, timeout: timedelta) -> str:
    until = time.monotonic() + timeout.total_seconds()
    while True:
        file = _read(sign)
        if file is not None:
            return file
        if time.monotonic() >= until:
            raise InitializationError(
                f"rank 0 has not called init_process_group within {timeout.total_seconds():g} s: all ranks must",
                _abi.TIMED_OUT,
                0,
            )
        time.sleep(_LOOK_EVERY_S)


def _read(sign: str) -> Optional[str]:
    try:
        return os.readlink(sign)
    except OSError:  # there is none yet, or with the job's folder none any more
        return None
