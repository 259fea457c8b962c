"""This process as a rank of its job: joining, leaving, who am I. Shared by all frameworks."""

from __future__ import annotations

import atexit
import ctypes
import os
import threading
from typing import Callable, List, Optional, TypeVar

from ronde import _abi, _operation
from ronde._lib import check, last_error, library
from ronde.exceptions import InitializationError, RondeError

_T = TypeVar("_T")

#: How often a wait in C comes back so that Python can answer a signal, in seconds.
_LOOK_EVERY_S = 0.05

#: Longer than a shutdown takes at most, in seconds.
_SHUTDOWN_LIMIT_S = 12.0

#: Who this process was when it joined, for its forked children; None when it is in no job.
_as_joined: Optional[_abi.Topology] = None

#: Called by the rank before it leaves its job, by :func:`shutdown` or at exit; each has a limit of its own.
_before_leaving: List[Callable[[], None]] = []

#: Called by the rank before it joins a job.
_before_joining: List[Callable[[], None]] = []

#: The thread of an init or shutdown that Ctrl-C has cut short; it goes on to the call's own limit.
_cut_short: Optional[threading.Thread] = None


def interruptibly(what: str, call: Callable[[], _T]) -> _T:
    """Runs ``call``, which may block in C for long, so that Ctrl-C is answered meanwhile.

    Only the main thread answers signals, so only there the call goes to a thread of its own.
    """
    global _cut_short
    if threading.current_thread() is not threading.main_thread():
        return call()
    outcome: list[_T] = []
    failure: list[BaseException] = []

    def run() -> None:
        try:
            outcome.append(call())
        except BaseException as error:  # raised again below
            failure.append(error)

    thread = threading.Thread(target=run, name=what, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # the interpreter is exiting: no thread can be started any more
        return call()
    _cut_short = thread
    while thread.is_alive():
        thread.join(_LOOK_EVERY_S)
    _cut_short = None
    if failure:
        raise failure[0]
    return outcome[0]


def init(options: Optional[_abi.Options] = None) -> None:
    """Joins the job that the options describe, and where they say nothing the environment (``RONDE_*``, set by
    ``ronde run``); alone without one.

    Collective: returns when every rank has come. Does nothing if already initialised. The process leaves the job by
    itself when the interpreter exits.

    Raises InitializationError (a ValueError) if ranks have not come in time, naming them, or cannot be reached, and in a
    forked child of a rank.
    """
    if is_rank():
        if _as_joined is None:  # Ctrl-C had cut the other call short, which went on
            _note_join()
        return
    for each in _before_joining:
        each()
    call = library().ronde_init

    def join() -> None:
        status = call(None if options is None else ctypes.byref(options))
        if status != _abi.OK:
            cause = last_error(status)
            raise InitializationError(str(cause), status, cause.rank, cause.tensor)

    interruptibly("ronde-init", join)
    _note_join()


def _note_join() -> None:
    global _as_joined
    _as_joined = _topology()
    atexit.unregister(_leave_at_exit)
    atexit.register(_leave_at_exit)


def shutdown() -> None:
    """Leaves the job; ``init()`` may be called again. Does nothing if not initialised.

    Collective with a limit of 10 s: operations that all ranks have submitted are finished, others fail. A rank that has
    not come by then is no error: this one has left. Raises ForkedError in a forked child.
    """
    global _as_joined
    if is_rank():
        for each in _before_leaving:
            each()
    call = library().ronde_shutdown

    def leave() -> int:
        return int(call())

    status = interruptibly("ronde-shutdown", leave)
    _operation.release_finished()
    if status not in (_abi.OK, _abi.TIMED_OUT):
        check(status)
    _as_joined = None


def _leave_at_exit() -> None:
    """Ends in order what is still under way. No thread may be started any more, so it is called here and now."""
    if _cut_short is not None and _cut_short.is_alive():
        if _cut_short.name == "ronde-shutdown":
            _cut_short.join(_SHUTDOWN_LIMIT_S)
        return
    if is_rank():
        for each in _before_leaving:
            each()
        library().ronde_shutdown()
        _operation.release_finished()


def before_leaving(call: Callable[[], None]) -> None:
    """``call`` is made before this process leaves a job, in the thread that leaves; it raises nothing. For frameworks that
    run what the program asked for later: the other ranks count on it."""
    _before_leaving.append(call)


def before_joining(call: Callable[[], None]) -> None:
    """``call`` is made before this process joins a job, in the thread that joins. It raises InitializationError where what was
    asked for in an earlier job may yet come, and would take part in this one."""
    _before_joining.append(call)


def is_initialized() -> bool:
    """True between a successful ``init()`` and ``shutdown()``. In a forked child, a worker of a DataLoader for instance,
    as it was when it was forked; so are ``rank()``, ``size()`` and the like, while only the parent can communicate.
    Raises ImportError if Ronde's library cannot be loaded."""
    return is_rank() or (_operation.in_forked_child() and _as_joined is not None)


def is_rank() -> bool:
    """Whether this very process is in a job: :func:`is_initialized`, but False in a forked child."""
    return bool(library().ronde_is_initialized())


def _topology() -> _abi.Topology:
    if _as_joined is not None and _operation.in_forked_child():
        return _as_joined
    topology = _abi.Topology(struct_size=ctypes.sizeof(_abi.Topology))
    check(library().ronde_get_topology(None, ctypes.byref(topology)))
    return topology


def rank() -> int:
    """This process's rank, 0 to ``size() - 1``. Raises NotInitializedError (a ValueError) before ``init()``."""
    return int(_topology().rank)


def size() -> int:
    """How many ranks the job has. Raises NotInitializedError (a ValueError) before ``init()``."""
    return int(_topology().size)


def local_rank() -> int:
    """This process's rank among those of its host. Raises NotInitializedError (a ValueError) before ``init()``."""
    return int(_topology().local_rank)


def local_size() -> int:
    """How many ranks of the job this host has. Raises NotInitializedError (a ValueError) before ``init()``."""
    return int(_topology().local_size)


def cross_rank() -> int:
    """This host's place among the hosts that have a rank of this ``local_rank()``. Raises NotInitializedError (a
    ValueError) before ``init()``."""
    return int(_topology().cross_rank)


def cross_size() -> int:
    """How many hosts have a rank of this ``local_rank()``. Raises NotInitializedError (a ValueError) before ``init()``.
    """
    return int(_topology().cross_size)


def epoch() -> int:
    """How often this process has initialised, 1 the first time. Raises NotInitializedError before ``init()``."""
    return int(_topology().epoch)


def counters() -> dict[str, int]:
    """What this rank has done since ``init()``: numbers by the names of ``ronde_counters`` in ``ronde/ronde.h``; ``"strangers"``
    counts since the process began. Raises NotInitializedError (a ValueError) before ``init()``."""
    values = _abi.Counters(struct_size=ctypes.sizeof(_abi.Counters))
    check(library().ronde_get_counters(None, ctypes.byref(values)))
    return {name: int(getattr(values, name)) for name, *_ in _abi.Counters._fields_[1:]}


def backend() -> tuple[str, bool]:
    """By what the job's data moves: ``"shm"``, ``"messages"``, ``"mpi"`` or ``"oneccl"``; and whether that is MPI, which any
    thread may call. Raises NotInitializedError (a ValueError) before ``init()``."""
    name, threads = ctypes.c_char_p(), ctypes.c_int32()
    check(library().ronde_get_backend(None, ctypes.byref(name), ctypes.byref(threads)))
    return (name.value or b"").decode(), threads.value != 0


def start_timeline(file_path: str | os.PathLike[str], mark_cycles: bool = False) -> None:
    """From now on writes what happens to every tensor of this rank as a Chrome trace, a JSON file for Perfetto.

    Not collective. The file is ``file_path`` on rank 0 and ``file_path.R`` on any other rank R; one that exists is
    emptied. ``ronde trace merge`` makes one file of all ranks'. The file is valid JSON whenever it is opened.

    Args:
        file_path: where to write.
        mark_cycles: also write an event ``CYCLE_START`` for each batch of agreed operations.

    Raises:
        NotInitializedError: (a ValueError) before ``init()``.
        InvalidArgumentError: (a ValueError) while a timeline is written already.
        RondeError: the file cannot be written; the text names it.
    """
    path = os.fsencode(file_path)
    check(library().ronde_start_timeline(None, path, len(path), int(bool(mark_cycles))))


def stop_timeline() -> None:
    """Ends the timeline of this rank; its file is complete then. ``shutdown()`` does the same.

    Raises NotInitializedError before ``init()`` and InvalidArgumentError where none is written; both are ValueErrors.
    """
    check(library().ronde_stop_timeline(None))


__all__ = [
    "RondeError",
    "counters",
    "cross_rank",
    "cross_size",
    "epoch",
    "init",
    "is_initialized",
    "is_rank",
    "local_rank",
    "local_size",
    "rank",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
