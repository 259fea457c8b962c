"""Names of operations. Ranks meet by name, so a name made here must be the same on every rank.

Unnamed operations are counted per kind, and the count starts again at each barrier: a rank that has run one unnamed
operation more than the others (on an error path, say) is told so by a stall report or a mismatch, and after the next
barrier all are in step again. A single count of everything, as Horovod keeps, would never match again.
"""

from __future__ import annotations

import itertools
from typing import Dict, Iterator, Optional

_barriers = 0
_counts: Dict[str, Iterator[int]] = {}


def name_of(kind: str, name: Optional[str]) -> str:
    """``<kind>.<name>``; for None ``<kind>.noname.<n>``, and ``<kind>.noname.<barriers passed>.<n>`` after a
    barrier."""
    if name is not None:
        return f"{kind}.{name}"
    count = _counts.get(kind)
    if count is None:
        count = _counts.setdefault(kind, itertools.count())
    # next() on a count is one step of the interpreter: threads never draw the same number.
    if _barriers == 0:
        return f"{kind}.noname.{next(count)}"
    return f"{kind}.noname.{_barriers}.{next(count)}"


def restart() -> None:
    """All ranks have passed a barrier."""
    global _barriers
    _barriers += 1
    _counts.clear()


def reset() -> None:
    """A new job has begun."""
    global _barriers
    _barriers = 0
    _counts.clear()
