"""The extension module ``ronde._extension``, by which calls that repeat avoid ctypes, where this Python can load it.

It is of CPython's limited API of 3.11, so one file serves that version and all later ones. Everywhere else, in Python 3.9 and
3.10, without the interpreter's lock, in other Pythons and sub-interpreters, the same is done by ctypes; so it is with
RONDE_PYTHON_EXTENSION=0.
"""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

_log = logging.getLogger("ronde")


def _load() -> Any:
    if os.environ.get("RONDE_PYTHON_EXTENSION", "1") == "0" or sys.version_info < (3, 11):
        return None
    try:
        from ronde import _extension
    except ModuleNotFoundError:  # built without Python's headers, or a Python that takes no such modules
        return None
    except ImportError as error:
        _log.info("Ronde: calls go by ctypes, since the extension module cannot be loaded: %s", error)
        return None
    return _extension


extension: Any = _load()
"""The module; None where there is none."""
