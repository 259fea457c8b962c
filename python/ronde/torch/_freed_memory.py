"""Memory that a training step frees stays with the process for the next step.

In each step autograd makes every gradient anew and frees it once it has been copied into its bucket. glibc gives what
lies at the end of its heap back to the kernel as soon as that is more than some megabytes, so the next step has each of
these pages cleared and mapped again: a sixth of a step in which there is little to compute. Told to wait until
:data:`MOST_BYTES` are free there, it does not (docs/decisions/0014).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any, Mapping

#: Once more than so much is free at the end of the heap, glibc gives all of it back, unless ``RONDE_KEEP_FREED`` says
#: otherwise.
MOST_BYTES = 1 << 30

#: The numbers of mallopt(3), whose values are ints of C; -1: no bound.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_THAT_FITS, _NO_BOUND = (1 << 31) - 1, -1

#: Blocks from this size on have mappings of their own, and go back to the kernel as ever. What glibc comes to by itself
#: once a block as large was freed, and the most that it takes; to be said, since it adapts nothing any more once one of
#: the two is set.
_LARGE_BYTES = 32 << 20

#: What glibc comes to by itself: twice the above.
_OF_A_FORKED_CHILD = 64 << 20

_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")

_is_done = False


def bytes_to_keep(environment: Mapping[str, str] = os.environ) -> int:
    """0: malloc is to be left alone. Raises ValueError if ``RONDE_KEEP_FREED`` is no number of bytes."""
    text = environment.get("RONDE_KEEP_FREED", "")
    if text:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"RONDE_KEEP_FREED is {text!r}; expected a number of bytes, or 0 to leave malloc as it is")
        return int(text)
    tunables = environment.get("GLIBC_TUNABLES", "")
    is_set_up = "glibc.malloc." in tunables or any(name in environment for name in _OF_THE_USER)
    return 0 if is_set_up else MOST_BYTES


def keep_freed_memory() -> None:
    """For the rest of the process, from any thread; again: does nothing. Leaves malloc as it is where the user has set it
    up (``MALLOC_*_``, ``GLIBC_TUNABLES``) or says ``RONDE_KEEP_FREED=0``, and with a C library other than glibc. Requires:
    :func:`bytes_to_keep` was asked, and did not raise."""
    global _is_done
    if _is_done:
        return
    _is_done = True
    kept = bytes_to_keep()
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if kept > 0 and mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, kept if kept <= _MOST_THAT_FITS else _NO_BOUND)
        # Workers that load data, mostly: what they free is not asked for again so soon.
        os.register_at_fork(after_in_child=lambda: _give_back_in_child(mallopt, min(kept, _OF_A_FORKED_CHILD)))


def _give_back_in_child(mallopt: Any, threshold: int) -> None:
    global _is_done
    _is_done = False  # it may become a rank
    mallopt(_TRIM_THRESHOLD, threshold)
