"""Names of operations. Ranks meet by name, so a name made here must be the same on every rank.

Unnamed operations are numbered per kind: each takes the lowest number that is free, and its number is free again once
the program has *waited* for it. So a loop that does the same each time uses the same names each time, and the engine,
which knows tensors by name, needs no agreement for them. That it is the waiting that counts, not the end of the work,
not ``poll`` and not the garbage collector, matters: of these only the program's own doing is the same on all ranks.

The numbers start again at each barrier, under names of their own: a rank that has run one unnamed operation more than
the others (on an error path, say) is told so by a stall report or a mismatch, and after the next barrier all are in
step again.
"""

from __future__ import annotations

import heapq
import itertools
from typing import Dict, Iterator, List, Optional

_barriers = 0
_generation = 0


class _Numbers:
    """The numbers of one kind. Taking and giving back are one step of the interpreter each: threads and signal handlers
    never draw the same number."""

    __slots__ = ("_free", "_fresh")

    def __init__(self) -> None:
        self._free: List[int] = []
        self._fresh: Iterator[int] = itertools.count()

    def take(self) -> int:
        try:
            return heapq.heappop(self._free)
        except IndexError:
            return next(self._fresh)

    def give_back(self, number: int) -> None:
        heapq.heappush(self._free, number)


class Numbered(str):
    """The name of an unnamed operation, with what is to be given back."""

    __slots__ = ("generation", "kind", "number")

    generation: int
    kind: str
    number: Optional[int]  # None once given back


_numbers: Dict[str, _Numbers] = {}


def name_of(kind: str, name: Optional[str]) -> str:
    """``<kind>.<name>``; for None ``<kind>.noname.<n>``, and ``<kind>.noname.<barriers passed>.<n>`` after a
    barrier."""
    if name is not None:
        return f"{kind}.{name}"
    numbers = _numbers.get(kind)
    if numbers is None:
        numbers = _numbers.setdefault(kind, _Numbers())
    number = numbers.take()
    made = Numbered(f"{kind}.noname.{number}" if _barriers == 0 else f"{kind}.noname.{_barriers}.{number}")
    made.generation, made.kind, made.number = _generation, kind, number
    return made


def name_of_gradient(full_name: str) -> str:
    """Of the operation in the backward pass of a differentiable one. It is taken in the forward pass and given back in
    the backward pass, so that two that wait for their backward pass differ."""
    if type(full_name) is Numbered:
        return name_of(full_name.kind + ".grad", None)
    return full_name + ".grad"


def waited_for(full_name: str) -> None:
    """The program has waited for the operation of this name, or it never began. Again: does nothing."""
    if type(full_name) is not Numbered:
        return
    number, full_name.number = full_name.number, None
    if number is not None and full_name.generation == _generation:
        _numbers[full_name.kind].give_back(number)


def restart() -> None:
    """All ranks have passed a barrier."""
    global _barriers, _generation
    _barriers += 1
    _generation += 1
    _numbers.clear()


def reset() -> None:
    """A new job has begun."""
    global _barriers, _generation
    _barriers = 0
    _generation += 1
    _numbers.clear()
