"""Names of operations. Ranks meet by name, so a name made here must be the same on every rank.

A name belongs to a process set, whose ranks meet by it, and carries its id along to the request: the same text in two
sets is two names.

Unnamed operations are numbered per process set and kind: each takes the lowest number that is free, and its number is free again once
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
from typing import Dict, Iterator, List, Optional, Tuple

#: By process set.
_barriers: Dict[int, int] = {}
_jobs = 0


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


class InGroup(str):
    """A name in another process set than that of all ranks."""

    __slots__ = ("group",)

    group: int  # its id


class Numbered(InGroup):
    """The name of an unnamed operation, with what is to be given back."""

    __slots__ = ("generation", "kind", "number")

    generation: int
    kind: str
    number: Optional[int]  # None once given back


_numbers: Dict[Tuple[int, str], _Numbers] = {}


def group_of(full_name: str) -> int:
    """The id of the process set whose ranks meet by this name."""
    return full_name.group if isinstance(full_name, InGroup) else 0


def in_group(group: int, full_name: str) -> str:
    """The name as one of this process set."""
    if group == 0:
        return full_name
    made = InGroup(full_name)
    made.group = group
    return made


def name_of(kind: str, name: Optional[str], group: int = 0) -> str:
    """``<kind>.<name>``; for None ``<kind>.noname.<n>``, and ``<kind>.noname.<barriers passed>.<n>`` after a
    barrier. ``group``: the process set's id."""
    if name is not None:
        return in_group(group, f"{kind}.{name}")
    key = (group, kind)
    numbers = _numbers.get(key)
    if numbers is None:
        numbers = _numbers.setdefault(key, _Numbers())
    number = numbers.take()
    passed = _barriers.get(group, 0)
    made = Numbered(f"{kind}.noname.{number}" if passed == 0 else f"{kind}.noname.{passed}.{number}")
    made.group, made.generation, made.kind, made.number = group, _generation(group), kind, number
    return made


def name_of_gradient(full_name: str) -> str:
    """Of the operation in the backward pass of a differentiable one. It is taken in the forward pass and given back in
    the backward pass, so that two that wait for their backward pass differ."""
    if type(full_name) is Numbered:
        return name_of(full_name.kind + ".grad", None, full_name.group)
    return in_group(group_of(full_name), full_name + ".grad")


def part_of(full_name: str, part: str) -> str:
    """Of a request that belongs to the one of this name."""
    return in_group(group_of(full_name), f"{full_name}.{part}")


def waited_for(full_name: str) -> None:
    """The program has waited for the operation of this name, or it never began. Again: does nothing."""
    if type(full_name) is not Numbered:
        return
    number, full_name.number = full_name.number, None
    if number is not None and full_name.generation == _generation(full_name.group):
        _numbers[full_name.group, full_name.kind].give_back(number)


def _generation(group: int) -> int:
    """Names taken before the last barrier of the set, or in an earlier job, are not those taken now."""
    return _jobs + _barriers.get(group, 0)


def restart(group: int = 0) -> None:
    """All ranks of the process set have passed a barrier."""
    _barriers[group] = _barriers.get(group, 0) + 1
    for key in [key for key in list(_numbers) if key[0] == group]:
        _numbers.pop(key, None)


def reset() -> None:
    """A new job has begun."""
    global _jobs
    _jobs += max(_barriers.values(), default=0) + 1
    _barriers.clear()
    _numbers.clear()
