"""The guard: a process between a task and its rank. All that the rank has started ends with the guard, and the guard with the
rank or with the task, whichever ends first.

Spark kills the Python of a task at any time, and the parent-death signal of a rank follows the rank alone: children of the
rank, and children in sessions of their own, would live on. The guard is their subreaper: every orphan becomes a child of the
guard.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import struct
import time
from pathlib import Path
from typing import List, NoReturn, Optional, Tuple

__all__ = ["become_guarded", "told_by_guard"]

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36

#: What the guard tells: the number of the rank's process, and as soon as it has ended, how.
_NUMBER = struct.Struct("<q")

#: How long the end of killed processes may take, in seconds.
_SWEEP_LIMIT_S = 8.0


def become_guarded(parent: int, told: int) -> None:
    """Makes this process the guard. Returns in a child of the guard, which is to be the rank and leads a session of its own;
    the guard itself exits from here.

    Requires: this process has one thread, and no other child.

    Args:
        parent: the process whose child this one is; the rank ends with it.
        told: a descriptor that the guard writes to; :func:`told_by_guard` reads what comes.
    """
    woken, wakes = os.pipe()
    os.set_blocking(wakes, False)
    for each in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(each, lambda number, frame: None)  # the number goes through the pipe
    signal.set_wakeup_fd(wakes)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)  # it has ended before the kernel was asked to tell
    guard = os.getpid()
    rank = os.fork()
    if rank != 0:
        _guard(rank, woken, told)
    signal.set_wakeup_fd(-1)
    for each in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(each, signal.SIG_DFL)
    for descriptor in (woken, wakes, told):
        os.close(descriptor)
    os.setsid()  # a signal that the function sends to its own group does not reach the guard
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != guard:
        os._exit(1)


def told_by_guard(data: bytes) -> Tuple[Optional[int], Optional[int]]:
    """The number of the rank's process, and how it has ended: its exit code, or the number of the signal that has killed it,
    negative. None for what the guard did not come to tell."""
    numbers: List[Optional[int]] = [each for (each,) in _NUMBER.iter_unpack(data[: len(data) // _NUMBER.size * _NUMBER.size])]
    pid, status = (numbers + [None, None])[:2]
    return pid, status


def _guard(rank: int, woken: int, told: int) -> NoReturn:
    """Until the rank has ended, or SIGTERM has come: by the parent's end, or from the parent."""
    status = None
    try:
        os.write(told, _NUMBER.pack(rank))
        # A function may take days: a signal ends the wait.
        while status is None and signal.SIGTERM not in os.read(woken, 64):
            status = _reap(rank)
        if status is not None:
            os.write(told, _NUMBER.pack(status))
    except BrokenPipeError:  # the parent has ended
        pass
    finally:
        _sweep(woken)
        if status is None:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        os._exit(0)


def _reap(rank: int) -> Optional[int]:
    """Takes note of all children that have ended. How the rank has, if it is one of them."""
    status = None
    while True:
        try:
            pid, code = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return status
        if pid == 0:
            return status
        if pid == rank:
            status = os.waitstatus_to_exitcode(code)


def _sweep(woken: int) -> None:
    """Kills the children of this process until none is left: what a killed one had started becomes a child of this process."""
    deadline = time.monotonic() + _SWEEP_LIMIT_S
    os.set_blocking(woken, False)
    while time.monotonic() < deadline:
        for pid in _children():
            os.kill(pid, signal.SIGKILL)  # nobody else can have the number before this process has reaped it
        _reap(-1)
        try:
            os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return
        select.select([woken], [], [], 0.1)  # the end of a child wakes; what it leaves is looked for at the latest then
        _drain(woken)


def _drain(descriptor: int) -> None:
    try:
        while os.read(descriptor, 64):
            pass
    except BlockingIOError:
        pass


def _children() -> List[int]:
    own = str(os.getpid())
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(") ")[2].split()
        except OSError:  # it has ended meanwhile
            continue
        if fields[1] == own and fields[0] not in "ZX":
            found.append(int(entry.name))
    return found


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option}, {value})")
