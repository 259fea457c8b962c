"""Names of requests. Ranks meet by name; calls to which the program gives none meet by their order.

The engine numbers such calls when the program makes them, so the n-th unnamed call of a rank meets the n-th of every
other rank of the process set, whatever each has waited for meanwhile. A barrier or a join begins a new count: ranks of
which one has made a call too many are in step again after it.

Most calls are numbered by their submit, which costs no call of the library. What is refused before that takes its
number then, so that it counts all the same: the other ranks may have made it.
"""

from __future__ import annotations

import itertools
from ctypes import byref, c_uint64
from typing import Callable, Optional, Union

from ronde import _abi
from ronde._lib import last_error, library
from ronde.exceptions import RondeError, raise_if_the_programs

CALL_BITS = 40  #: of a number, those that count calls; those above count barriers
_CALLS = (1 << CALL_BITS) - 1

#: Sends and recvs concern two ranks, which need not make as many: their names are for messages only.
_pairwise = itertools.count()


class InGroup(str):
    """A name in another process set than that of all ranks, or one that belongs to an unnamed call."""

    __slots__ = ("group", "number")

    group: int  # the process set's id
    number: int  # the unnamed call's; 0: none


class Barrier(str):
    """The name of a barrier that the program has given none, by its number."""

    __slots__ = ("is_told",)

    is_told: bool  # the engine has it; else its number is still to be used


class Unnamed:
    """A call without a name. As a text it is its number, as the library writes it; who asks for that before the submit
    has the number taken."""

    group = 0  #: the process set's id
    engine: Optional[int] = None  #: of ``ronde_engine_create``; None: the process's
    number = 0  #: 0: not taken yet
    is_told = False  #: the engine knows what has become of the call, or will be asked next

    def take(self) -> int:
        """Its number, from now on if it had none. Raises InitializationError before init."""
        if self.number == 0 and not self.is_told:
            number = c_uint64()
            status = library().ronde_call_number(self.engine, self.group, byref(number))
            if status != _abi.OK:
                raise last_error(status)
            self.number = number.value
        return self.number

    def __str__(self) -> str:
        number = self.take()
        return f"noname.{number >> CALL_BITS}.{number & _CALLS}" if number else "noname"


#: Of a call that is about to be made: ``ronde_request.tag``. None: nobody knows how calls come about.
tag_of: Optional[Callable[[Unnamed], int]] = None

#: By what ranks meet.
Name = Union[str, Unnamed]


def group_of(full_name: Name) -> int:
    """The id of the process set whose ranks meet by this name."""
    return full_name.group if isinstance(full_name, (Unnamed, InGroup)) else 0


def number_of(full_name: Name) -> int:
    """Of the unnamed call that the name belongs to; 0: none."""
    if type(full_name) is Unnamed:
        return full_name.take()
    return full_name.number if isinstance(full_name, InGroup) else 0


def in_group(group: int, full_name: str, number: int = 0) -> str:
    """The name as one of this process set, of what belongs to the unnamed call of this number."""
    if group == 0 and number == 0:
        return full_name
    made = InGroup(full_name)
    made.group, made.number = group, number
    return made


def unnamed(group: int = 0, engine: Optional[int] = None) -> Unnamed:
    """The next call without a name. ``engine``: as ``ronde_call_number`` takes it."""
    made = Unnamed()
    if group:
        made.group = group
    if engine is not None:
        made.engine = engine
    return made


def pairwise(kind: str, group: int = 0) -> str:
    """The name of a send or recv without one."""
    return in_group(group, f"{kind}.noname.{next(_pairwise)}")


def say_told(full_name: Name) -> None:
    """If this is an unnamed call: the engine has it, maybe in parts of other names."""
    if type(full_name) is Unnamed:
        full_name.is_told = True


def refuse(full_name: Name, why: object) -> None:
    """If this is an unnamed call that has not come to the engine: it will not be made. It counts, and the ranks that
    make it are told why. Where there is no engine to tell it does nothing."""
    if type(full_name) is Unnamed and not full_name.is_told:
        try:
            number = full_name.take()
        except RondeError as error:
            raise_if_the_programs(error)
            return
        full_name.is_told = True
        text = str(why).encode(errors="replace")
        library().ronde_refuse_call(full_name.engine, full_name.group, number, text, len(text))
