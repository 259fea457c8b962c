"""Names of requests. Ranks meet by name; calls to which the program gives none meet by their order.

The engine numbers such calls when the program makes them, so the n-th unnamed call of a rank meets the n-th of every
other rank of the process set, whatever each has waited for meanwhile. A barrier or a join begins a new count: ranks of
which one has made a call too many are in step again after it.
"""

from __future__ import annotations

import functools
import itertools
import threading
from ctypes import byref, c_int32, c_uint64, c_void_p
from typing import Any, Callable, List, Optional, Tuple, TypeVar

from ronde import _abi
from ronde._lib import direct, last_error, library

_Function = TypeVar("_Function", bound=Callable[..., Any])

_CALL_BITS = 40
_CALLS = (1 << _CALL_BITS) - 1
_JOB = c_int32(0)
#: Where the library writes a number, and a pointer to it: those not in use, so that threads and signal handlers each have
#: their own.
_boxes: List[Tuple[c_uint64, Any]] = []

#: Sends and recvs concern two ranks, which need not make as many: their names are for messages only.
_pairwise = itertools.count()


class InGroup(str):
    """A name in another process set than that of all ranks, or one that belongs to an unnamed call."""

    __slots__ = ("group", "number")

    group: int  # the process set's id
    number: int  # the unnamed call's; 0: none


class Unnamed(InGroup):
    """What an unnamed call is called, in messages; the library makes the same of the number."""

    __slots__ = ("is_told",)

    is_told: bool  # the engine knows what has become of the call


class _Thread(threading.local):
    taken: Optional[Unnamed] = None  #: the last number that this thread has taken


_thread = _Thread()


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
    try:
        number, at = _boxes.pop()
    except IndexError:
        number = c_uint64()
        at = byref(number)
    of = None if engine is None else c_void_p(engine)
    status = direct("ronde_call_number")(of, c_int32(group) if group else _JOB, at)
    value = number.value
    _boxes.append((number, at))
    if status != _abi.OK:
        raise last_error(status)
    made = Unnamed(f"noname.0.{value}" if value <= _CALLS else f"noname.{value >> _CALL_BITS}.{value & _CALLS}")
    made.group, made.number = group, value
    made.is_told = False
    _thread.taken = made
    return made


def pairwise(kind: str, group: int = 0) -> str:
    """The name of a send or recv without one."""
    return in_group(group, f"{kind}.noname.{next(_pairwise)}")


def is_unnamed(full_name: str) -> bool:
    """Whether it is an unnamed call's."""
    return type(full_name) is Unnamed


def say_told(full_name: str) -> None:
    """If this is an unnamed call: the engine has it, maybe in parts of other names."""
    if type(full_name) is Unnamed:
        full_name.is_told = True


def refuse(full_name: str, why: str, engine: Optional[int] = None) -> None:
    """If this is an unnamed call: it will not be made, since its arguments are refused; the ranks that make it are told
    why."""
    if type(full_name) is Unnamed:
        full_name.is_told = True
        text = why.encode(errors="replace")
        library().ronde_refuse_call(engine, full_name.group, full_name.number, text, len(text))


def refuse_open(why: str, engine: Optional[int] = None) -> None:
    """If this thread has taken a number for a call that has not come to the engine: it will not be made."""
    name = _thread.taken
    if name is not None and not name.is_told:
        refuse(name, why, engine)


def counted(function: _Function) -> _Function:
    """Of a function that takes a number for an unnamed call before it looks at anything: the call counts whatever then
    refuses it, since the other ranks may have made it. These are told of it."""

    @functools.wraps(function)
    def call(*arguments: Any, **settings: Any) -> Any:
        try:
            return function(*arguments, **settings)
        except Exception as error:
            refuse_open(str(error))
            raise

    return call  # type: ignore[return-value] # it has the function's signature
