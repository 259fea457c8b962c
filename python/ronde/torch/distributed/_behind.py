"""What is called behind futures, and so when a rank sees that something has ended.

Ranks pair calls by their order, and what runs behind a future comes to its calls at a place among the program's own that
depends on when the future was done on that rank, unless the program waits for it, or Ronde keeps an order
(:mod:`~ronde.torch.distributed._left_futures`). So each such call says where it was: behind which call's future, as how many
calls before it that one is. A call of the program's own says that it is none, in a backward pass and while futures are out. The
engine compares (``ronde_request.tag``): ranks that came to them in different orders get an error, never each other's sums.

A call outside of passes and futures says nothing: a rank without data may make by itself, one after the other, what the
others make behind futures.

To whom a future belongs is known of a work's own, of those that Python's ``then`` and ``collect_all`` make of it, and of one that
something behind such a future fills. What is put behind it belongs to the same work, wherever it runs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Callable, Iterator, NamedTuple, Optional, Sequence

import torch

from ronde import _calls
from ronde.torch.distributed import _left_futures
from ronde.torch.distributed._names import Names, in_backward_pass

#: As types/request.h has them.
_OWN_ORDER, _BEHIND_OTHER = 1, 1 << 29

_CALL_BITS = _calls.CALL_BITS
_CALLS = (1 << _CALL_BITS) - 1


class Origin(NamedTuple):
    """The call whose future it is."""

    names: Optional[Names]  #: of its group; None: of sends and recvs, of which ranks make different ones
    number: int  #: among the group's calls without a name; 0: it has none
    calls: int  #: how many calls there were in the group, with this one


#: What is behind it may be another call's on another rank.
OF_A_PAIR = Origin(None, 0, 0)


class _Thread(threading.local):
    origin: Optional[Origin] = None  #: of what runs now; None: the program's own


_thread = _Thread()
_is_following = False

_origins: "weakref.WeakKeyDictionary[Any, Origin]" = weakref.WeakKeyDictionary()  #: of futures


def is_behind() -> bool:
    """Whether what this thread runs was put behind a future."""
    return _thread.origin is not None


def tag_of_own(names: Names) -> int:
    """Of a call that is behind no future."""
    return _OWN_ORDER if names.out or in_backward_pass() or _left_futures.is_as_in_a_pass() else 0


def tag_of(names: Names, name: _calls.Name) -> int:
    """Of a call that is about to be made in this group."""
    if type(name) is not _calls.Unnamed:
        return 0
    origin = _thread.origin
    if origin is None:
        return tag_of_own(names)
    if origin.names is None:
        return 0
    if origin.names is names and origin.number:
        return _OWN_ORDER + _distance(origin.number, name.take())
    return _BEHIND_OTHER + (origin.names.calls - origin.calls) % _BEHIND_OTHER


def _distance(earlier: int, later: int) -> int:
    """Calls from one to the other, or, where a barrier was between, a number that says as much. At least 1."""
    barriers = (later >> _CALL_BITS) - (earlier >> _CALL_BITS)
    calls = (later & _CALLS) - (0 if barriers else earlier & _CALLS)
    return max(1, (calls + barriers * 0x10001) % (_BEHIND_OTHER - 1))


def future_of(origin: Origin) -> Any:
    """One that has not ended, for :func:`complete`."""
    trigger: Any = torch.futures.Future()
    trigger.origin = origin
    if origin.names is not None:
        origin.names.out.add(id(trigger))
    return trigger


def belongs(future: Any, origin: Optional[Origin]) -> None:
    """What is put behind that future in Python is the origin's."""
    if origin is not None:
        _origins[future] = origin


def complete(trigger: Any) -> None:
    """Ends it, and runs what was put behind it."""
    origin = trigger.origin
    try:
        with _within(origin):
            trigger.set_result(None)
    finally:
        forget(trigger)


def forget(trigger: Any) -> None:
    """It has ended, or will not."""
    if trigger.origin.names is not None:
        trigger.origin.names.out.discard(id(trigger))


@contextlib.contextmanager
def _within(origin: Origin) -> Iterator[None]:
    before, _thread.origin = _thread.origin, origin
    try:
        yield
    finally:
        _thread.origin = before


class _Behind:
    """What was put behind a future, in whichever thread it runs."""

    def __init__(self, origin: Origin, callback: Callable[[Any], Any]) -> None:
        self._origin, self._callback = origin, callback

    def __call__(self, future: Any) -> Any:
        with _within(self._origin):
            return self._callback(future)


def follow_futures() -> None:
    """From now on. Again: does nothing."""
    global _is_following
    if _is_following:
        return
    _is_following = True
    kind: Any = torch._C.Future
    kind.then = _followed(kind.then)
    kind.add_done_callback = _followed(kind.add_done_callback)
    kind.set_result = _filled(kind.set_result)
    torch._C._collect_all = _collected(torch._C._collect_all)


def _followed(method: Any) -> Any:
    @functools.wraps(method)
    def put_behind(self: Any, callback: Any) -> Any:
        origin = _origins.get(self)
        if origin is None:
            return method(self, callback)
        made = method(self, _Behind(origin, callback))
        if made is not None:
            belongs(made, origin)
        return made

    return put_behind


def _filled(method: Any) -> Any:
    @functools.wraps(method)
    def fill(self: Any, result: Any) -> Any:
        belongs(self, _thread.origin)
        return method(self, result)

    return fill


def _collected(collect: Any) -> Any:
    @functools.wraps(collect)
    def collect_all(futures: Sequence[Any]) -> Any:
        made = collect(futures)
        belongs(made, next((origin for origin in map(_origins.get, futures) if origin is not None), None))
        return made

    return collect_all
