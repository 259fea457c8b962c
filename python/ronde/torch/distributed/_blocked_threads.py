"""Whether a thread sleeps until another one does something: what it has left to itself cannot wait for it then.

Seen from outside. A thread that computes, or waits for other ranks in a call of Ronde or for a time to pass, is not blocked. One
that waits for another thread sleeps in the kernel on a lock, and it is not Ronde that waits: the innermost frame in Python, but
for those of what Python itself waits with, is none of Ronde's.
"""

from __future__ import annotations

import platform
import sys
from types import FrameType
from typing import Dict, Optional, Tuple

#: Modules with which Python waits, for whoever calls them.
_WAITS_WITH = ("threading", "queue", "concurrent.", "multiprocessing.", "asyncio.", "selectors", "contextlib")

#: The number of the system call futex, on which locks sleep.
_FUTEX = {"x86_64": "202", "aarch64": "98"}.get(platform.machine())

#: As often in a row a thread must be seen asleep with the same processor time.
LOOKS = 20


class BlockedThreads:
    """What is known of threads by looks at them that follow each other. Of one thread at a time."""

    def __init__(self) -> None:
        self._seen: Dict[int, Tuple[str, int]] = {}  # by thread: its processor time, and for how many looks it has slept

    def look(self, ident: int, native_id: int) -> bool:
        """Whether the thread has been blocked for LOOKS looks. ``ident``: as Python has it; ``native_id``: the kernel's."""
        spent = _sleeps_on_a_lock(ident, native_id)
        before, looks = self._seen.get(ident, ("", 0))
        looks = looks + 1 if spent is not None and spent == before else 0
        self._seen[ident] = (spent or "", looks)
        return looks >= LOOKS


def _sleeps_on_a_lock(ident: int, native_id: int) -> Optional[str]:
    """The processor time that the thread has spent, in text, if it sleeps on a lock outside of Ronde; else None."""
    frame = sys._current_frames().get(ident)
    if frame is None or _is_in_ronde(frame):
        return None
    folder = f"/proc/self/task/{native_id}"
    try:
        with open(f"{folder}/stat", encoding="ascii", errors="replace") as file:
            words = file.read().rpartition(")")[2].split()
        with open(f"{folder}/syscall", encoding="ascii") as file:
            call = file.read().split(" ", 1)[0]
    except OSError:  # it has ended, or the kernel does not tell
        return None
    is_asleep = words[0] == "S" and (_FUTEX is None or call == _FUTEX)
    return f"{words[11]} {words[12]}" if is_asleep else None


def _is_in_ronde(innermost: FrameType) -> bool:
    frame: Optional[FrameType] = innermost
    while frame is not None and _module_of(frame).startswith(_WAITS_WITH):
        frame = frame.f_back
    return frame is not None and _module_of(frame).partition(".")[0] == "ronde"


def _module_of(frame: FrameType) -> str:
    name = frame.f_globals.get("__name__")
    return name if isinstance(name, str) else ""
