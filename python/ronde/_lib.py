"""Finds and loads ``libronde.so``, once, and checks that it speaks this package's version of the C interface."""

from __future__ import annotations

import ctypes
import functools
import os
from pathlib import Path
from typing import Callable

from ronde import _abi
from ronde._native import extension
from ronde.exceptions import RondeError, error_of


def _path() -> Path:
    """Beside this file, where the wheel puts it; RONDE_LIBRARY names another, for work on Ronde itself."""
    override = os.environ.get("RONDE_LIBRARY")
    return Path(override) if override else Path(__file__).resolve().parent / "libronde.so"


@functools.lru_cache(maxsize=None)
def library() -> ctypes.CDLL:
    """The loaded library, its functions typed. Every call through it lets other Python threads run.

    Raises ImportError if it cannot be loaded or is of another version of the interface.
    """
    path = _path()
    try:
        loaded = ctypes.CDLL(str(path))
    except OSError as error:
        raise ImportError(
            f"Ronde's library cannot be loaded ({error}). Install the package `ronde`, or set RONDE_LIBRARY to the "
            "path of a libronde.so."
        ) from error
    version = int(loaded.ronde_abi_version())
    if version // 1000 != _abi.ABI_VERSION // 1000 or version < _abi.ABI_VERSION:
        raise ImportError(
            f"{path} speaks version {version} of Ronde's C interface, this Python package needs {_abi.ABI_VERSION}: "
            "install library and package of one release."
        )
    _abi.declare(loaded)
    if extension is not None:
        extension.attach(loaded._handle)
    return loaded


@functools.lru_cache(maxsize=None)
def direct(function: str) -> Callable[..., int]:
    """A function of the library that returns a status, for calls so frequent that ctypes' conversion of arguments counts
    (0.2 us a call). Each argument must be None or a ctypes object of the declared type: an int would be cut to 32 bits.
    """
    found: Callable[..., int] = library()[function]  # unlike an attribute a new object, without declared types
    return found


@functools.lru_cache(maxsize=None)
def alone(function: str) -> Callable[..., int]:
    """As :func:`direct`, of one that never blocks: other Python threads stand still from the reading of the arguments to
    the return, so that none of them frees a ticket under the call that looks at it."""
    library()  # has checked it
    found: Callable[..., int] = ctypes.PyDLL(str(_path()))[function]
    return found


def new_error_info() -> _abi.ErrorInfo:
    """An empty one, for the library to fill."""
    return _abi.ErrorInfo(struct_size=ctypes.sizeof(_abi.ErrorInfo))


def error_from(info: _abi.ErrorInfo, tensor: str = "") -> RondeError:
    """The exception for what the library has said; ``tensor`` names one where the library does not."""
    named = (info.tensor or b"").decode("utf-8", "replace")
    return error_of(info.status, (info.message or b"").decode("utf-8", "replace"), info.failed_rank, named or tensor)


def last_error(status: int, tensor: str = "") -> RondeError:
    """The exception for a call of this thread that has just returned this status."""
    info = new_error_info()
    if library().ronde_last_error_info(ctypes.byref(info)) != _abi.OK or info.status != status:
        return error_of(status, f"Ronde's library has answered {status}", tensor=tensor)
    return error_from(info, tensor)


def check(status: int) -> None:
    """Raises what a call that returns at once has reported; must be called by the thread that made the call."""
    if status != _abi.OK:
        raise last_error(status)
