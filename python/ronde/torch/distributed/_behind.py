"""What is called behind futures, and so when a rank sees that something has ended.

Ranks pair calls by their order, and what runs behind a future comes to its calls at a place among the program's own that
depends on when the future was done on that rank, unless the program waits for it, or Ronde keeps an order
(:mod:`~ronde.torch.distributed._left_futures`). So each such call says where it was: behind which call's future, as how many
calls before it that one is. A call of the program's own says that it is none, in a backward pass and while futures are out. The
engine compares (``ronde_request.tag``): ranks that came to them in different orders get an error, never each other's sums.

A call outside of passes and futures says nothing: a rank without data may make by itself, one after the other, what the
others make behind futures.

To whom a future belongs is known of a work's own, of those that Python's ``then`` and ``collect_all`` make of it, and of one
that something behind such a future fills. What is put behind it belongs to the same work, wherever it runs.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
import zlib
from typing import Any, Callable, Dict, Iterator, NamedTuple, Optional, Sequence, Set, Tuple

import torch

from ronde import _calls
from ronde._native import extension
from ronde.torch._parts import current_pass
from ronde.torch.distributed import _left_futures
from ronde.torch.distributed._names import Names

#: As types/request.h has them.
_OWN_ORDER, _BEHIND_OTHER = 1, 1 << 29


class Origin(NamedTuple):
    """What a future is of."""

    names: Names  #: of its group
    kind: str  #: "call", one without a name; "barrier"; "pair", a send or recv; "all", of several
    number: int  #: among those of its kind in the group, alike on all ranks that make the same calls

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of {self.names.title}"


class _Thread(threading.local):
    origin: Optional[Origin] = None  #: of what runs now; None: the program's own


_thread = _Thread()
_is_following = False

_origins: "weakref.WeakKeyDictionary[Any, Origin]" = weakref.WeakKeyDictionary()  #: of futures
_out: Set[int] = set()  #: futures of works that have not ended, and those behind which something runs; by id

#: What is put behind a future that is done runs at once, in the thread that puts it there; but behind what another thread still
#: runs that was put there before, as on ranks on which the future was not done. So long that one is waited for, in seconds: it
#: may itself wait for this thread.
_BEHIND_OTHERS_S = 60.0
_running: Dict[Origin, Tuple[int, threading.Event]] = {}  #: by whom, and what is set when it has run


def own_tag() -> Optional[int]:
    """Of a call that is about to be made. None: it is behind a future, so :func:`tag_of` has to say."""
    if _thread.origin is not None:
        return None
    return _OWN_ORDER if _out or current_pass() != -1 or _left_futures.is_as_in_a_pass() else 0


def tag_of(call: _calls.Unnamed) -> int:
    """Of a call that is about to be made."""
    tag, origin = own_tag(), _thread.origin
    if tag is not None or origin is None:
        return tag or 0
    number = call.take()
    if origin.kind == "call" and origin.names.is_of(call) and _barriers(number) == _barriers(origin.number):
        return _OWN_ORDER + (number - origin.number) % (_BEHIND_OTHER - _OWN_ORDER)
    return _BEHIND_OTHER + zlib.crc32(str(origin).encode()) % _BEHIND_OTHER


def _barriers(number: int) -> int:
    return number >> _calls.CALL_BITS


def future_of(origin: Origin) -> Any:
    """One that has not ended, for :func:`complete`."""
    trigger: Any = torch.futures.Future()
    trigger.origin = origin
    _out.add(id(trigger))
    return trigger


def belongs(future: Any, origin: Optional[Origin]) -> None:
    """What is put behind that future in Python is the origin's. None: not known."""
    if origin is not None:
        _origins[future] = origin


def complete(trigger: Any) -> None:
    """Ends it, and runs what was put behind it."""
    has_run = threading.Event()
    _running[trigger.origin] = threading.get_ident(), has_run
    try:
        with _within(trigger.origin):
            trigger.set_result(None)
    finally:
        _running.pop(trigger.origin, None)
        has_run.set()
        forget(trigger)


def forget(trigger: Any) -> None:
    """It has ended, or will not."""
    _out.discard(id(trigger))


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


def tell_tags() -> None:
    """From now on all calls without a name say how they come about, since there may be futures: a group is about to be made."""
    if _is_following and _calls.tag_of is None:
        _calls.tag_of = tag_of
        if extension is not None:
            extension.know_tags(own_tag)


def _followed(method: Any) -> Any:
    @functools.wraps(method)
    def put_behind(self: Any, callback: Any) -> Any:
        origin = _origins.get(self)
        if origin is None:
            return method(self, callback)
        _wait_for_those_before(self, origin)
        made = method(self, _Behind(origin, callback))
        if made is not None:
            belongs(made, origin)
        return made

    return put_behind


def _wait_for_those_before(future: Any, origin: Origin) -> None:
    by, has_run = _running.get(origin, (threading.get_ident(), None))
    if has_run is not None and by != threading.get_ident() and current_pass() == -1 and _left_futures.is_done(future):
        has_run.wait(_BEHIND_OTHERS_S)


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
        origins = [origin for origin in map(_origins.get, futures) if origin is not None]
        if origins:
            all_ends = zlib.crc32(" and ".join(map(str, origins)).encode())
            belongs(made, origins[0] if len(origins) == 1 else Origin(origins[0].names, "all", all_ends))
        return made

    return collect_all
