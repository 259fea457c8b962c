"""How a process group comes to its engine.

The default group begins the job, unless ``ronde.torch`` has, and is a group of all its ranks: its calls are counted apart
from those of ``hvd``, since a program may make either in another order than the other. Every other group is one of the
job's too, which only its members make: PyTorch asks nobody else (docs/decisions/0011). Where the default group is of another
backend, so that there is no job, a group gets an engine of its own.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import select
import socket
import stat
import sys
import time
from datetime import timedelta
from typing import Any, Callable, List, Optional, Tuple

import torch.distributed as dist

from ronde import _abi, _process, process_sets
from ronde import torch as ronde_torch
from ronde._lib import last_error, library
from ronde.exceptions import InitializationError, InvalidArgumentError
from ronde.torch.distributed import _meeting
from ronde.torch.distributed._behind import tell_tags
from ronde.torch.distributed._group import RondeProcessGroup, Within

#: How long to wait for rank 0 to drop PyTorch's store, in seconds.
_STORE_LIMIT_S = 1.0


def create(told: Any, _: Any = None) -> RondeProcessGroup:
    """What ``torch.distributed`` calls on the members of a new group. Collective over them.

    Raises InitializationError (a ValueError) if ranks have not come in time or the job is another than PyTorch says,
    InvalidArgumentError (a ValueError) if another backend is asked for beside it.
    """
    _require_alone(sys._getframe(1).f_locals.get("backend_config"))
    tell_tags()
    rank, size, name = told.group_rank, told.group_size, told.group_id
    timeout = _seconds(told.timeout)
    ranks = list(told.global_ranks_in_group)
    if not ranks:
        return _create_default(told.store, rank, size, name, timeout)
    meeting = f"{name}.{hashlib.sha256(repr(ranks).encode()).hexdigest()[:16]}"
    if _process.is_rank():
        group, end = _make_group(meeting, ranks, timeout)
        return _within_job(RondeProcessGroup(rank, size, name, end, Within(group=group, ranks=ranks)))
    engine = _make_engine(meeting, rank, size, timeout)

    def close() -> None:
        _process.interruptibly("ronde-end-group", lambda: library().ronde_engine_destroy(engine))

    return RondeProcessGroup(rank, size, name, close, Within(engine=engine))


def _create_default(store: dist.Store, rank: int, size: int, name: str, timeout: float) -> RondeProcessGroup:
    """The group of all ranks. What it has begun ends with it."""
    end_job = _join_job(store, rank, size, timeout)
    try:
        group, end = _make_group(f"{name}.default", list(range(size)), timeout)
    except BaseException:
        end_job()
        raise

    def close() -> None:
        try:
            end()
        finally:
            end_job()

    return _within_job(RondeProcessGroup(rank, size, name, close, Within(group=group)))


def _within_job(group: RondeProcessGroup) -> RondeProcessGroup:
    process_sets.follow_job(group)
    return group


def _require_alone(config: Any) -> None:
    """``config``: of the backends that the program has asked for, by device, which PyTorch tells no backend. A group that
    is written in Python serves all devices: PyTorch would drop the others without a word, and look at no name."""
    asked = config.get_device_backend_map() if isinstance(config, dist.distributed_c10d.BackendConfig) else {}
    others = [f"{device}:{backend}" for device, backend in asked.items() if backend != "ronde"]
    if others:
        raise InvalidArgumentError(
            f"backend='{config!r}' asks for {', '.join(others)} beside ronde; a group of ronde serves tensors of every "
            "device by itself, those on accelerators through host memory. Give backend='ronde', and make groups of the "
            "other backend with new_group(backend=...)",
            1,
        )


def _seconds(timeout: Optional[timedelta]) -> float:
    """For ``ronde_options``: 0, the settings' own, where the program has not chosen."""
    if timeout is None or timeout == dist.constants.default_pg_timeout:
        return 0.0
    return timeout.total_seconds()


def _options(rank: int, size: int, timeout: float, place: Optional[_meeting.Place]) -> _abi.Options:
    options = _abi.Options(
        struct_size=ctypes.sizeof(_abi.Options),
        rank=rank,
        size=size,
        local_rank=rank,
        local_size=size,
        cross_rank=0,
        cross_size=1,
        timeout_s=timeout,
    )
    if place is not None:
        address, key = os.fsencode(place.address), place.key.encode()
        options.store, options.store_bytes = address, len(address)
        options.key, options.key_bytes = key, len(key)
    return options


def _join_job(store: dist.Store, rank: int, size: int, timeout: float) -> Any:
    """Makes sure that the process's engine runs and is this rank of this job; returns what ends that."""
    if _process.is_rank():
        _check_is(rank, size)
        return lambda: None  # the program's to end, as it began it
    if _meeting.has_launcher() or _meeting.is_on_several_hosts(rank, size):
        options = _abi.Options(struct_size=ctypes.sizeof(_abi.Options), timeout_s=timeout)
        for field in ("rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"):
            setattr(options, field, -1)
    else:
        options = _options(rank, size, timeout, _meeting.open_or_find(store, rank, size) if size > 1 else None)
    ronde_torch._begin(options)
    try:
        _check_is(rank, size)
    except BaseException:
        ronde_torch.shutdown()
        raise

    port = _port_of_rank_0s_store(store, rank)

    def close() -> None:
        connections = [] if port is None else _connections_to(port)
        ronde_torch.shutdown()
        _meeting.close()
        _wait_for_the_end_of(connections)

    return close


def _port_of_rank_0s_store(store: dist.Store, rank: int) -> Optional[int]:
    """Where PyTorch's store listens, if rank 0's process serves it and this is another."""
    while isinstance(store, dist.PrefixStore):
        store = store.underlying_store
    if rank == 0 or not isinstance(store, dist.TCPStore) or os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return None
    return int(store.port)


def _connections_to(port: int) -> List[socket.socket]:
    """Duplicates of this process's connections to a port; PyTorch shows its own to nobody. A connection made for the
    question would not do: it may reach the store that rank 0 opens next, and one that says nothing hangs that."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            if not stat.S_ISSOCK(os.fstat(int(name)).st_mode):
                continue
            one = socket.socket(fileno=os.dup(int(name)))
        except OSError:
            continue  # the descriptor that lists them, or closed meanwhile
        try:
            is_meant = one.family in (socket.AF_INET, socket.AF_INET6) and one.getpeername()[1] == port
        except OSError:
            is_meant = False  # not connected
        if is_meant:
            found.append(one)
        else:
            one.close()
    return found


def _wait_for_the_end_of(connections: List[socket.socket]) -> None:
    """PyTorch's store ends moments after rank 0's part of ``destroy_process_group``. Until then another
    ``init_process_group`` of this process would find the old store, meet nobody there and leave rank 0 alone in the new
    one. Not for long: a program may keep a store of its own."""
    until = time.monotonic() + _STORE_LIMIT_S
    for one in connections:
        poll = select.poll()
        poll.register(one, select.POLLRDHUP)
        poll.poll(max(0.0, until - time.monotonic()) * 1000)
        one.close()


def _check_is(rank: int, size: int) -> None:
    if (rank, size) != (_process.rank(), _process.size()):
        raise InitializationError(
            f"init_process_group says that this is rank {rank} of {size}, but it is rank {_process.rank()} of "
            f"{_process.size()} of its job: give no other rank and world_size than the launcher, and where PyTorch "
            "starts the processes call init_process_group before hvd.init()",
            _abi.INVALID_ARGUMENT,
        )


def _meeting_options(meeting: str, rank: int, size: int, timeout: float) -> _abi.Options:
    options = _options(rank, size, timeout, _meeting.place() if size > 1 else None)
    options.meeting, options.meeting_bytes = meeting.encode(), len(meeting.encode())
    return options


def _made(status: int) -> None:
    if status != _abi.OK:
        cause = last_error(status)
        raise InitializationError(str(cause), status, cause.rank, cause.tensor)


def _make_group(meeting: str, ranks: List[int], timeout: float) -> Tuple[int, Callable[[], None]]:
    """A group within the job: this rank's id for it, and what ends it unless the job has ended before."""
    options = _meeting_options(meeting, _process.rank(), len(ranks), timeout)
    array = (ctypes.c_int32 * len(ranks))(*ranks)
    group = ctypes.c_int32()

    def make() -> None:
        _made(library().ronde_group_make(None, ctypes.byref(options), array, len(ranks), ctypes.byref(group)))

    _process.interruptibly("ronde-new-group", make)
    job = _process.epoch()

    def end() -> None:
        if _process.is_rank() and _process.epoch() == job:  # in another job the id is another group's
            process_sets.destroy_group(group.value)

    return group.value, end


def _make_engine(meeting: str, rank: int, size: int, timeout: float) -> int:
    options = _meeting_options(meeting, rank, size, timeout)
    engine = ctypes.c_void_p()

    def make() -> None:
        _made(library().ronde_engine_create(ctypes.byref(options), ctypes.byref(engine)))

    _process.interruptibly("ronde-new-group", make)
    assert engine.value is not None
    return engine.value
