"""Makes XLA know ``libronde_jax.so``, once, when the first program with a collective is made ready."""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import time
from pathlib import Path
from typing import Any

import jax

try:
    from jax import ffi as ffi
except ImportError:  # before 0.5
    from jax.extend import ffi as ffi

from ronde import _abi, _process
from ronde._lib import library
from ronde.exceptions import InitializationError
from ronde.jax import _endings, _starts
from ronde.jax._numbering import install, programs_shown
from ronde.jax._order import TARGETS

#: How long programs under way are waited for before this rank leaves the job, in seconds: as long as Ronde waits for others.
_LEAVE_LIMIT_S = 10.0

#: How long a rank that joins another job waits for what was under way when it left the last one, in seconds.
_JOIN_LIMIT_S = 60.0

_log = logging.getLogger("ronde")


@functools.lru_cache(maxsize=None)
def _probe() -> Any:
    """A program of nothing: XLA runs it, in each thread, after those that were started before."""
    return jax.jit(lambda x: x + 1).lower(0.0).compile()


def _finish_programs() -> None:
    """JAX returns from a compiled program before it has run. The other ranks count on this one's part in it, so it is run
    to its end before the rank leaves, within a limit."""
    _have_ended(_LEAVE_LIMIT_S)


def _let_programs_end() -> None:
    """Programs that were under way when the rank left its last job make their calls as soon as there is a job. While there is
    none these are refused."""
    if not _have_ended(_JOIN_LIMIT_S):
        raise InitializationError(
            f"a compiled program of JAX that was started in an earlier job is under way since more than {_JOIN_LIMIT_S:.0f} s, "
            "and would make its calls in this one: wait for its results (jax.block_until_ready) before shutdown()",
            _abi.TIMED_OUT,
        )


def _have_ended(limit_s: float) -> bool:
    """Waits for programs under way, up to the limit."""
    try:
        last = [_probe()(0.0), *jax.live_arrays()]
        until = time.monotonic() + limit_s
        while not all(array.is_deleted() or array.is_ready() for array in last):
            if time.monotonic() > until:
                return False
            time.sleep(0.0005)
    except Exception as error:  # the job goes on, whatever state JAX is in
        _log.debug("Ronde: programs of JAX under way were not waited for: %s", error)
    return True


@functools.lru_cache(maxsize=None)
def handlers() -> ctypes.CDLL:
    """``libronde_jax.so``. OSError if it cannot be loaded."""
    library()  # which the other one then finds loaded, from wherever it came
    loaded = ctypes.CDLL(str(Path(__file__).resolve().parents[1] / "libronde_jax.so"))
    loaded.ronde_jax_failure.argtypes = [
        ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.POINTER(ctypes.c_int32), ctypes.c_char_p, ctypes.c_size_t
    ]
    return loaded


@functools.lru_cache(maxsize=None)
def has_handler() -> bool:
    """Whether XLA calls Ronde's library itself. False where ``RONDE_JAX_FFI=0``, on other devices than CPUs, and where
    the runtime refuses the library's version of its interface or JAX does not show what it has written: calls then go through
    Python, one after the other."""
    install()
    _endings.install()
    _starts.install()
    before = programs_shown()
    _probe()  # now: at the process's exit it is late for a compiler
    _process.before_leaving(_finish_programs)
    _process.before_joining(_let_programs_end)
    if os.environ.get("RONDE_JAX_FFI") == "0" or jax.default_backend() != "cpu":
        return False
    if programs_shown() == before:
        _log.warning("Ronde: collectives of compiled JAX programs go through Python, which is slower: this JAX is not known")
        return False
    try:
        for target in TARGETS:
            ffi.register_ffi_target(target, ffi.pycapsule(getattr(handlers(), target)), platform="cpu")
    except Exception as error:  # what runtimes raise for a version that they do not take is not specified
        _log.warning("Ronde: collectives of compiled JAX programs go through Python, which is slower: %s", error)
        return False
    return True
