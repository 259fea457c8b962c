"""Names of requests. Ranks meet by name; calls to which the program gives none meet by their order.

The engine numbers such calls when the program makes them, so the n-th unnamed call of a rank meets the n-th of every
other rank of the process set, whatever each has waited for meanwhile. A barrier or a join begins a new count: ranks of
which one has made a call too many are in step again after it.
"""

from __future__ import annotations

import itertools
from ctypes import byref, c_uint64
from typing import Optional

from ronde import _abi
from ronde._lib import last_error, library

_CALL_BITS = 40
_CALLS = (1 << _CALL_BITS) - 1

#: Sends and recvs concern two ranks, which need not make as many: their names are for messages only.
_pairwise = itertools.count()


class InGroup(str):
    """A name in another process set than that of all ranks, or one that belongs to an unnamed call."""

    __slots__ = ("group", "number")

    group: int  # the process set's id
    number: int  # the unnamed call's; 0: none


class Unnamed(InGroup):
    """What an unnamed call is called, in messages; the library makes the same of the number."""

    __slots__ = ()


def group_of(full_name: str) -> int:
    """The id of the process set whose ranks meet by this name."""
    return full_name.group if isinstance(full_name, InGroup) else 0


def number_of(full_name: str) -> int:
    """Of the unnamed call that the name belongs to; 0: none."""
    return full_name.number if isinstance(full_name, InGroup) else 0


def in_group(group: int, full_name: str, number: int = 0) -> str:
    """The name as one of this process set, of what belongs to the unnamed call of this number."""
    if group == 0 and number == 0:
        return full_name
    made = InGroup(full_name)
    made.group, made.number = group, number
    return made


def unnamed(group: int = 0, engine: Optional[int] = None) -> str:
    """The name of the next call without one. Raises InitializationError before init. ``engine``: as ``ronde_call_number``
    takes it."""
    number = c_uint64()
    status = library().ronde_call_number(engine, group, byref(number))
    if status != _abi.OK:
        raise last_error(status)
    value = number.value
    made = Unnamed(f"noname.{value >> _CALL_BITS}.{value & _CALLS}")
    made.group, made.number = group, value
    return made


def pairwise(kind: str, group: int = 0) -> str:
    """The name of a send or recv without one."""
    return in_group(group, f"{kind}.noname.{next(_pairwise)}")


def refuse(full_name: str, why: str, engine: Optional[int] = None) -> None:
    """If this is an unnamed call: it will not be made, since its arguments are refused; the ranks that make it are told
    why."""
    if type(full_name) is Unnamed:
        text = why.encode()
        library().ronde_refuse_call(engine, full_name.group, full_name.number, text, len(text))
