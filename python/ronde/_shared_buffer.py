"""Shared buffers: memory that every rank of the host maps, so that an all-reduce of what lies in it copies nothing.

A buffer is given back when nobody refers to it any more, also long after ``shutdown()``; until then it is ordinary
memory of this process. A forked child does not have it: touching it there ends the child (see :func:`holds`).
"""

from __future__ import annotations

import ctypes
import weakref
from ctypes import byref, c_void_p
from typing import Any, Dict, Optional

from ronde import _operation
from ronde._lib import check, library

#: Address -> bytes of the buffers that are alive.
_alive: Dict[int, int] = {}


def allocate(name: str, n_bytes: int, engine: Optional[int] = None) -> Any:
    """``n_bytes`` > 0 of zeroed memory at a multiple of 4096, as a ctypes array: whoever keeps that keeps the buffer.

    Local; ranks that allocate the same sizes in the same order get memory that all-reduces need not copy. Raises
    RondeError with the code RONDE_OUT_OF_MEMORY where there is no room: use private memory then. ``name`` is for
    messages, ``engine`` of ``ronde_engine_create``, None for the process's. NotInitializedError (a ValueError) before
    ``init()``.
    """
    data = c_void_p()
    encoded = name.encode()
    check(library().ronde_alloc_shared(engine, encoded, len(encoded), n_bytes, byref(data)))
    address = data.value or 0
    memory = (ctypes.c_char * n_bytes).from_address(address)
    _alive[address] = n_bytes
    # Not at exit: what then still refers to it may still read it.
    weakref.finalize(memory, _free, address).atexit = False
    return memory


def _free(address: int) -> None:
    _alive.pop(address, None)
    if not _operation.in_forked_child():
        library().ronde_free_shared(address)


def holds(address: int) -> bool:
    """Whether the address is in a buffer that is alive."""
    return any(first <= address < first + n_bytes for first, n_bytes in list(_alive.items()))
