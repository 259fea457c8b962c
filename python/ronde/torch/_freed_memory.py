"""Memory that a training step frees stays with the process for the next step.

In each step autograd makes every gradient anew and frees it once it has been copied into its bucket. glibc gives what
lies at the end of its heap back to the kernel as soon as that is more than a few megabytes, so the next step has each of
these pages cleared and mapped again: a sixth of a step in which there is little to compute. Told to keep up to
:data:`KEPT_BYTES`, it does not (docs/decisions/0014).
"""

from __future__ import annotations

import ctypes
import os
from typing import Mapping

#: How much freed memory may stay with the process, unless ``RONDE_KEEP_FREED`` says otherwise. Freed blocks of more than
#: 32 MB go back to the kernel as ever.
KEPT_BYTES = 1 << 30

#: The numbers of mallopt(3), whose values are ints of C.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_MOST_BYTES = (1 << 31) - 1

#: Blocks from this size on have mappings of their own. What glibc comes to by itself once a block as large was freed,
#: and the most that it takes; to be said, since it adapts nothing any more once one of the two is set.
_LARGE_BYTES = 32 << 20

_OF_THE_USER = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "MALLOC_MMAP_MAX_", "MALLOC_TOP_PAD_")

_is_done = False


def keep_freed_memory() -> None:
    """For the rest of the process, from any thread; again: does nothing. Leaves malloc as it is where the user has set it
    up (``MALLOC_*_``, ``GLIBC_TUNABLES``) or says ``RONDE_KEEP_FREED=0``, and with a C library other than glibc.

    Raises ValueError if that variable is no number of bytes.
    """
    global _is_done
    if _is_done:
        return
    _is_done = True
    kept = _bytes_to_keep(os.environ)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if kept > 0 and mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _LARGE_BYTES)
        mallopt(_TRIM_THRESHOLD, kept)


def _bytes_to_keep(environment: Mapping[str, str]) -> int:
    """0: malloc is to be left alone."""
    text = environment.get("RONDE_KEEP_FREED", "")
    if text:
        if not text.isascii() or not text.isdigit():
            raise ValueError(f"RONDE_KEEP_FREED is {text!r}; expected a number of bytes, or 0 to leave malloc as it is")
        return min(int(text), _MOST_BYTES)
    tunables = environment.get("GLIBC_TUNABLES", "")
    is_set_up = "glibc.malloc." in tunables or any(name in environment for name in _OF_THE_USER)
    return 0 if is_set_up else KEPT_BYTES
