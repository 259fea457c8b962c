"""Executions that end in an error, perhaps before their first call.

XLA begins nothing of a program of which an argument holds an error, and no more of it once a callback of Python's has raised.
Other ranks may have begun calls in that execution, which are not to meet those of this rank's next one. So before a thread
starts a program with calls it looks how those ended that it has started before, and tells of the errors: the library, which
knows in which of them calls were made (``bindings/jax/executions.h``), or ``_through_python.py``.

The two differ in what other ranks have done: those whose callback has raised are in the program, and those whose argument holds
an error may be before it. A program without callbacks has errors of arguments only. Where a program has some its arguments are
waited for before it starts, as XLA would do then, since afterwards nothing tells the one from the other.

JAX gives a token for each execution of a program with effects, which a call is one of, and the token has the execution's error.
To look is to wait for the execution: but that does the next program of the thread too, since XLA executes one after the other.
Executions that several threads start are not ordered among each other, and neither is what a thread is told of another's.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import threading
from typing import Any, List, NamedTuple, Optional, Sequence

import numpy as np

_log = logging.getLogger("ronde")


class Program:
    """A compiled program with calls."""

    has_callbacks = True  # it may call functions of Python's

    def now(self) -> int:
        """A point in time, for :meth:`failed`."""
        raise NotImplementedError

    def failed(self, started: int, error: BaseException, is_of_argument: bool) -> None:
        """An execution that was started then has ended in the error, on this rank. ``is_of_argument``: an argument may have
        held it."""
        raise NotImplementedError


class ProgramOfLibrary(Program):
    """Where XLA calls the library."""

    def __init__(self, places: List[int], given: List[int]) -> None:
        """``places``: four numbers for each group in which it makes calls: the group, the family that the program belongs to
        there, the program's number, and whether each execution makes a call in the group. ``given``: numbers of the names
        that the caller has given."""
        self.places = places
        self.given = given

    def now(self) -> int:
        return int(_library().ronde_jax_now())

    def failed(self, started: int, error: BaseException, is_of_argument: bool) -> None:
        places = (ctypes.c_int64 * len(self.places))(*self.places)
        given = (ctypes.c_int64 * len(self.given))(*self.given)
        text = str(error).encode(errors="replace")
        if not _library().ronde_jax_ended_in_error(
            places, len(places) // 4, given, len(given), is_of_argument, started, text
        ):
            raise MemoryError("Ronde has no memory to note an error of a compiled program")


@functools.lru_cache(maxsize=None)
def _library() -> ctypes.CDLL:
    from ronde.jax._library import handlers  # which imports this module

    loaded = handlers()
    loaded.ronde_jax_now.restype = ctypes.c_int64
    loaded.ronde_jax_ended_in_error.restype = ctypes.c_bool
    numbers = ctypes.POINTER(ctypes.c_int64)
    loaded.ronde_jax_ended_in_error.argtypes = [
        numbers, ctypes.c_size_t, numbers, ctypes.c_size_t, ctypes.c_bool, ctypes.c_int64, ctypes.c_char_p
    ]
    return loaded


class _Started(NamedTuple):
    """An execution."""

    program: Program
    at: int  # the program's :meth:`Program.now`
    is_of_argument: bool  # an error that it ends in, as :meth:`Program.failed` has it
    token: Any


class _Executions(threading.local):
    """Those that the thread has started and not looked at since."""

    def __init__(self) -> None:
        self.started: List[_Started] = []


_executions = _Executions()


def mark(written: Any, program: Program) -> None:
    """Has what executes the program that JAX has written know it, as one of the objects that it keeps alive, as callbacks
    are."""
    if isinstance(program, ProgramOfLibrary):
        program.has_callbacks = bool(written.keepalive) or bool(getattr(written, "host_callbacks", True))
    written.keepalive.append(program)


@functools.lru_cache(maxsize=None)
def install() -> None:
    """Has all executions that JAX starts looked at. JAX has no public way."""
    try:
        from jax._src import dispatch
        from jax._src.interpreters import pxla

        execute = pxla.ExecuteReplicated.__call__
        tokens = dispatch.runtime_tokens
    except (ImportError, AttributeError):
        _log.warning("Ronde: after an error in a compiled program end the job: in this JAX executions that fail are not known")
        return

    @functools.wraps(execute)
    def execute_and_look(self: Any, *arguments: Any) -> Any:
        program = program_of(self)
        if program is None:
            return execute(self, *arguments)
        _look()
        at = program.now()
        is_of_argument = not program.has_callbacks or _hold_an_error(self, arguments)
        try:
            results = execute(self, *arguments)
        except BaseException as error:
            program.failed(at, error, is_of_argument)
            raise
        device, *_ = self.xla_executable.local_devices()
        _executions.started.append(_Started(program, at, is_of_argument, tokens.output_runtime_tokens.get(device)))
        return results

    pxla.ExecuteReplicated.__call__ = execute_and_look


def program_of(executable: Any) -> Optional[Program]:
    """None where it makes no calls."""
    for kept in executable.keepalive or ():
        if isinstance(kept, Program):
            return kept
    return None


def _hold_an_error(executable: Any, arguments: Sequence[Any]) -> bool:
    """Waits for the arguments that the program uses, and for what is behind references, be they arguments or closed over."""
    used = executable.kept_var_idx
    taken = [each for index, each in enumerate(arguments) if index in used]
    taken += getattr(getattr(executable, "mut", None), "in_mut", None) or ()
    try:
        for each in taken:
            array = getattr(getattr(each, "_refs", each), "_buf", each)  # behind a reference, as JAX keeps it
            if hasattr(array, "block_until_ready"):
                array.block_until_ready()
            elif not isinstance(array, (np.ndarray, np.generic, bool, int, float, complex)):
                return True  # nobody knows
    except Exception:  # which the execution will end in, too
        return True
    return False


def _look() -> None:
    """Waits for what the thread has started, and tells of errors."""
    started = _executions.started
    while started:
        program, at, is_of_argument, token = started[0]
        try:
            if token is not None:
                token.block_until_ready()
        except Exception as error:  # the execution's, which its results hold too
            program.failed(at, error, is_of_argument)
        del started[0]
