"""Where in the user's program a request is made: what an error says when ranks disagree.

Looking takes about a microsecond, so each request may carry it: a place is turned into text once and is a number from then
on (``ronde_call_site``).
"""

from __future__ import annotations

import os
import sys
import threading
from ctypes import byref, c_int32
from types import CodeType, FrameType
from typing import Dict, Tuple

from ronde._lib import library
from ronde._native import extension

#: Packages that stand between the program and the engine. What calls them is the place that a reader looks for.
_BETWEEN = ("ronde", "torch", "horovod", "tensorflow", "keras", "tf_keras", "jax", "optax")
#: So begin the names of files that TensorFlow makes of functions while it traces them.
_GENERATED = "__autograph_generated_file"
#: Programs that make code as they go must not fill the memory.
_MOST_PLACES = 65536

#: By file, whether it is one of those packages'.
_is_between: Dict[str, bool] = {}
#: By code object (its id; the object, so that the id stays its own) and instruction.
_numbers: Dict[Tuple[int, int], Tuple[CodeType, int]] = {}


def call_site() -> int:
    """The number of the place, for ``ronde_request.call_site``; 0 in a thread of ours. Any thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        between = _is_between.get(file)
        if _look(file) if between is None else between:
            if extension is not None:
                extension.know_place(frame.f_code, -1, 0)
            frame = frame.f_back
            continue
        known = _numbers.get((id(frame.f_code), frame.f_lasti))
        number = known[1] if known is not None else _register(frame)
        if extension is not None:  # it looks by itself the next time
            extension.know_place(frame.f_code, frame.f_lasti, number)
        return number
    return 0


def call_site_text() -> str:
    """The place as a text, for what asks later and from elsewhere; "" in a thread of ours. Any thread."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and _look(frame.f_code.co_filename):
        frame = frame.f_back
    return "" if frame is None else f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}"


def _look(file: str) -> bool:
    folders = [os.path.dirname(found) for name in _BETWEEN if (found := getattr(sys.modules.get(name), "__file__", None))]
    between = file == threading.__file__ or any(file.startswith(folder + os.sep) for folder in folders)
    between = between or os.path.basename(file).startswith(_GENERATED)
    if len(_is_between) >= _MOST_PLACES:
        _is_between.clear()
    _is_between[file] = between
    return between


def _register(frame: FrameType) -> int:
    text = f"{_shown(frame.f_code.co_filename)}:{frame.f_lineno}".encode(errors="replace")
    number = c_int32()
    library().ronde_call_site(text, len(text), byref(number))  # without it there is less to say, no more
    if len(_numbers) >= _MOST_PLACES:
        _numbers.clear()
    _numbers[id(frame.f_code), frame.f_lasti] = (frame.f_code, number.value)
    return number.value


def _shown(file: str) -> str:
    """As it was called, if it lies in the folder that one works in."""
    try:
        here = os.getcwd() + os.sep
    except OSError:
        return file
    return file[len(here) :] if file.startswith(here) else file
