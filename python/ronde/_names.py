"""Names of operations on tensors: Horovod's where the program gives one, else those of :mod:`ronde._calls`."""

from __future__ import annotations

from hashlib import blake2b
from typing import Optional, overload

from ronde import _calls
from ronde._calls import Name as Name
from ronde._calls import group_of as group_of
from ronde._calls import in_group as in_group
from ronde._calls import refuse as refuse


@overload
def name_of(kind: str, name: str, group: int = 0) -> str: ...


@overload
def name_of(kind: str, name: Optional[str], group: int = 0) -> Name: ...


def name_of(kind: str, name: Optional[str], group: int = 0) -> Name:
    """``<kind>.<name>``; for None the next unnamed call's. ``group``: the process set's id."""
    if name is None:
        return _calls.unnamed(group)
    return in_group(group, f"{kind}.{name}")


def name_of_pair(kind: str, name: Optional[str], group: int = 0) -> str:
    """The same of a send or recv."""
    return _calls.pairwise(kind, group) if name is None else in_group(group, f"{kind}.{name}")


def name_of_gradient(full_name: Name) -> str:
    """Of the operation in the backward pass of a differentiable one. It belongs to its forward, so ranks need not run
    their graphs in the same order."""
    return part_of(full_name, "grad")


def part_of(full_name: Name, part: str) -> str:
    """Of a request that belongs to the one of this name. No program can give it, since it begins with no kind."""
    return in_group(group_of(full_name), f"{part} of {full_name}", _calls.number_of(full_name))


def hash_of(name: str) -> int:
    """The same on every rank, of 60 bits: ranks whose names differ have the same by a chance of one in 2^60."""
    return int.from_bytes(blake2b(name.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little") >> 4
