"""What is called behind futures, and so when a rank sees that something has ended.

Ranks pair calls by their order, and what runs behind a future comes to its calls at a place among the program's own that
depends on when the future was done on that rank, unless the program waits for it, or Ronde keeps an order
(:mod:`~ronde.torch.distributed._left_futures`). So each such call says where it was: behind which call's future, as how many
calls before it that one is. A call of the program's own says that it is none, in a backward pass and while futures are out, or
may still get something behind them. The engine compares (``ronde_request.tag``): ranks that came to them in different orders
get an error, never each other's sums.

A call outside of passes and futures says nothing: a rank without data may make by itself, one after the other, what the
others make behind futures.

To whom a future belongs is known of a work's own, of those that Python's ``then`` and ``collect_all`` make of it, and of one
that something behind such a future fills. What is put behind it belongs to the same work, wherever it runs. A call
says behind which of those that have come of one end it is, too (:mod:`~ronde.torch.distributed._lineage`).
"""

from __future__ import annotations

import contextlib
import functools
import threading
import weakref
from typing import Any, Callable, Dict, Iterator, Optional, Sequence, Set, Tuple

import torch

from ronde import _calls
from ronde._native import extension
from ronde.torch._parts import current_pass
from ronde.torch.distributed import _left_futures
from ronde.torch.distributed._lineage import Lineage, Origin, hash_of

#: As types/request.h has them.
_OWN_ORDER, _BEHIND_OTHER, _BEHIND_CHAIN = 1, 1 << 29, 1 << 30


class _Thread(threading.local):
    lineage: Optional[Lineage] = None  #: of the future that what runs now is behind; None: the program's own


_thread = _Thread()
_is_following = False

_lineages: "weakref.WeakKeyDictionary[Any, Lineage]" = weakref.WeakKeyDictionary()  #: of futures
_out: Set[int] = set()  #: futures of works that have not ended, and those behind which something runs; by id
#: Those of works, and of several of these, behind which nothing was put yet since the last barrier, so that it may still be: on
#: another rank perhaps before the call that this one is about to make. By id. Not those that ``then`` makes: a program may keep
#: them, and make calls for others by itself later.
_open: "Dict[int, weakref.ref[Any]]" = {}

#: What is put behind a future that is done runs at once, in the thread that puts it there; but behind what another thread still
#: runs that was put there before, as on ranks on which the future was not done. So long that one is waited for, in seconds: it
#: may itself wait for this thread.
_BEHIND_OTHERS_S = 60.0
_running: Dict[Origin, Tuple[int, threading.Event]] = {}  #: by whom, and what is set when it has run


def own_tag() -> Optional[int]:
    """Of a call that is about to be made. None: it is behind a future, so :func:`tag_of` has to say."""
    if _thread.lineage is not None:
        return None
    return _OWN_ORDER if _out or _open or current_pass() != -1 or _left_futures.is_as_in_a_pass() else 0


def tag_of(call: _calls.Unnamed) -> int:
    """Of a call that is about to be made."""
    tag, lineage = own_tag(), _thread.lineage
    step = lineage.step() if lineage is not None else None
    if tag is not None or step is None:
        return tag or 0
    number, origin, which = call.take(), step.origin, step.which
    if origin.kind != "call" or not origin.names.is_of(call) or _barriers(number) != _barriers(origin.number):
        return _BEHIND_OTHER + hash_of(f"{origin}, {which}") % _BEHIND_OTHER
    if which:
        return _BEHIND_CHAIN + hash_of(f"{number - origin.number}, {which}") % _BEHIND_CHAIN
    return _OWN_ORDER + (number - origin.number) % (_BEHIND_OTHER - _OWN_ORDER)


def _barriers(number: int) -> int:
    return number >> _calls.CALL_BITS


def future_of(origin: Origin) -> Any:
    """One that has not ended, for :func:`complete`."""
    trigger: Any = torch.futures.Future()
    trigger.origin = origin
    trigger.lineage = Lineage.of_end(origin)
    _out.add(id(trigger))
    return trigger


def belongs(future: Any, trigger: Any) -> None:
    """What is put behind that future in Python is behind the trigger's end."""
    _lineages[future] = trigger.lineage
    _leave_open(future)


def _leave_open(future: Any) -> None:
    key = id(future)
    _open[key] = weakref.ref(future, lambda _: _open.pop(key, None))


def close_open() -> None:
    """The program makes a barrier, or leaves a group."""
    _open.clear()


def complete(trigger: Any) -> None:
    """Ends it, and runs what was put behind it."""
    has_run = threading.Event()
    _running[trigger.origin] = threading.get_ident(), has_run
    try:
        with _within(trigger.lineage):
            _fill(trigger, None)
    finally:
        _running.pop(trigger.origin, None)
        has_run.set()
        forget(trigger)


def forget(trigger: Any) -> None:
    """It has ended, or will not."""
    _out.discard(id(trigger))


@contextlib.contextmanager
def _within(lineage: Optional[Lineage]) -> Iterator[None]:
    before, _thread.lineage = _thread.lineage, lineage
    try:
        yield
    finally:
        _thread.lineage = before


class _Behind:
    """What was put behind a future, in whichever thread it runs."""

    def __init__(self, lineage: Lineage, callback: Callable[[Any], Any]) -> None:
        self._lineage, self._callback = lineage, callback

    def __call__(self, future: Any) -> Any:
        with _within(self._lineage if self._lineage.step() is not None else _thread.lineage):
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


#: PyTorch's own, which knows nothing of places.
_fill: Callable[[Any, Any], None] = torch._C.Future.set_result


def _followed(method: Any) -> Any:
    @functools.wraps(method)
    def put_behind(self: Any, callback: Any) -> Any:
        lineage = _lineage_of(self)
        lineage.ask()
        _open.pop(id(self), None)
        step = lineage.step()
        if step is not None:
            _wait_for_those_before(self, step.origin)
        made = method(self, _Behind(lineage, callback))
        if made is not None:
            _lineages[made] = lineage.child()
        return made

    return put_behind


def _lineage_of(future: Any) -> Lineage:
    found = _lineages.get(future)
    return _lineages.setdefault(future, Lineage()) if found is None else found


def _wait_for_those_before(future: Any, origin: Origin) -> None:
    by, has_run = _running.get(origin, (threading.get_ident(), None))
    if has_run is not None and by != threading.get_ident() and current_pass() == -1 and _left_futures.is_done(future):
        has_run.wait(_BEHIND_OTHERS_S)


def _filled(method: Any) -> Any:
    @functools.wraps(method)
    def fill(self: Any, result: Any) -> Any:
        if _thread.lineage is not None:
            _lineage_of(self).fill(_thread.lineage)
        return method(self, result)

    return fill


def _collected(collect: Any) -> Any:
    @functools.wraps(collect)
    def collect_all(futures: Sequence[Any]) -> Any:
        made = collect(futures)
        _lineages[made] = Lineage.of_all([_lineage_of(future) for future in futures])
        for future in futures:
            _open.pop(id(future), None)
        _leave_open(made)
        return made

    return collect_all
