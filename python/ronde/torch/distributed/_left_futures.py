"""Futures of a backward pass, which are left to the end of the pass.

There the thread that runs the pass brings their works to their end, in the order in which it has made the calls, and
so runs what the program has put behind them: alike on all ranks, whatever the timing. That matters where what is put
behind a future makes calls itself (PyTorch's PowerSGD does): ranks pair calls by their order.

A program that looks at a future sooner, in a communication hook or behind another future, has it at once: Python's
``wait()`` of any future first brings to its end what this thread has left. So do questions whether something has ended,
``done()`` and ``is_completed()``, with what of it has, once a thread asks the same again and again and leaves nothing
meanwhile: what is behind a future would else run sooner on one rank than on another, by the timing of its works. C++ (DDP)
looks at the end, but for DDP's first step with a static graph: what begins and waits for all reductions there says so
(:func:`at_once`), and each is brought to its end where its future is asked for.

Where another thread looks, or a callback is to tell somebody, the thread of the pass may be waiting for just that, and
nobody knows. So it is watched meanwhile: if it sleeps on a lock for a second, what was left is for the thread of the
group, as outside of a pass.

A pass that an error ends does not call what was queued for its end. Its futures fail then: what is behind them would
run at another time than on other ranks, or in the next pass.
"""

from __future__ import annotations

import _thread
import collections
import contextlib
import functools
import threading
import time
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator, NamedTuple, Tuple

import torch

from ronde.torch.distributed._blocked_threads import LOOKS, BlockedThreads

if TYPE_CHECKING:
    from ronde.torch.distributed._work import Work


#: A thread waits by asking if it has asked so often whether one thing has ended, or some times in so many seconds, and has left
#: nothing meanwhile. One that looks some times, computes in between and goes on must not be taken for it: by the time that it
#: takes, which differs from rank to rank, what is behind the future would run now or at the end of the pass.
_ASKS, _FEW_ASKS, _FEW_ASKS_S = 100, 3, 1.0

#: Between two looks at threads that have left something, in seconds: LOOKS of them are a second.
_LOOK_S = 1.0 / LOOKS


class _Left(threading.local):
    """What this thread has left, oldest first."""

    def __init__(self) -> None:
        self.works: Deque[Work] = collections.deque()
        self.is_looked_at = False  # by C++, before the pass ends
        self.is_as_in_a_pass = False  # without one of autograd's
        self.asked: Dict[int, Tuple[float, int]] = {}  # by id of what: since when, and how often, whether it has ended


class _OfThread(NamedTuple):
    """What a thread has left that has left something."""

    native_id: int
    works: Deque[Work]


_left = _Left()
#: By Python's id of the thread.
_left_by: Dict[int, _OfThread] = {}
_watches = _thread.allocate_lock()  # held while a thread does
_is_looking = False

#: Whether a future is done; unlike ``done()`` brings nothing to its end.
is_done: Callable[[Any], bool] = torch._C.Future.done


def leave(work: Work) -> bool:
    """Its future was asked for in the pass that this thread runs, which calls :func:`bring_to_end` when it ends, or
    :func:`dismiss`. False: it cannot be left, since nobody would see who looks at it sooner."""
    if not _is_looking:
        return False
    if _left.is_looked_at:
        work._bring_to_end()
        return True
    _left.works.append(work)
    _left.asked.clear()
    _left_by[threading.get_ident()] = _OfThread(threading.get_native_id(), _left.works)
    return True


def dismiss(work: Work) -> bool:
    """An error has ended the pass in which its future was asked for. False: somebody has looked at it before, and ends it."""
    for left in list(_left_by.values()):
        if work in left.works:
            left.works.remove(work)
            return True
    return False


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Within it this thread leaves no future to the end of the pass: C++ waits for them before."""
    before, _left.is_looked_at = _left.is_looked_at, True
    try:
        yield
    finally:
        _left.is_looked_at = before


@contextlib.contextmanager
def as_in_a_pass() -> Iterator[None]:
    """What this thread makes within it, without a backward pass, is left to the end of the block. Where an error ends that, the
    futures fail."""
    before, _left.is_as_in_a_pass = _left.is_as_in_a_pass, True
    try:
        yield
        bring_to_end()
    finally:
        _left.is_as_in_a_pass = before
        for work in list(_left.works):
            if dismiss(work):
                work._fail_future()


def is_as_in_a_pass() -> bool:
    """Whether this thread is in such a block."""
    return _left.is_as_in_a_pass


def bring_to_end() -> None:
    """All that this thread has left, in order, also where an error has ended the pass before. Raises what a signal handler
    raises meanwhile; errors of the works are for who looks at their futures."""
    works = _left.works
    while works:
        try:
            works[0]._bring_to_end()
        finally:
            _forget_ended(works)
    _left_by.pop(threading.get_ident(), None)


def _bring_ended_to_end() -> None:
    """The same of those that have ended, up to the first that has not. Waits for nothing."""
    works = _left.works
    while works and works[0]._is_completed():
        _forget_ended(works)


def _waits_for(what: object) -> bool:
    """Whether this thread, which asks whether that has ended, waits for it so."""
    now = time.monotonic()
    since, count = _left.asked.get(id(what), (now, 0))
    _left.asked[id(what)] = since, count + 1
    return count + 1 >= _ASKS or (count + 1 >= _FEW_ASKS and now - since >= _FEW_ASKS_S)


def _answer(future: object) -> None:
    """The program asks whether the future is done."""
    if _waits_for(future):
        _bring_ended_to_end()


def keeps(work: Work) -> bool:
    """Whether the work, which the program asks whether it has ended, stays left to the end of the pass all the same: this
    thread has left it, and does not wait for it."""
    works = _left.works
    return bool(works) and work in works and not _waits_for(work)


def _forget_ended(works: Deque[Work]) -> None:
    while works and works[0]._is_over:  # what is behind one's future may have brought others to their end
        works.popleft()


def watch() -> None:
    """Until nothing is left any more: what a blocked thread has left goes to the threads of the groups, in order. Waits for
    nothing."""
    if _watches.acquire(blocking=False):
        try:
            _thread.start_new_thread(_watch, ())
        except RuntimeError:  # no thread can be started now
            _watches.release()


def _is_anything_left() -> bool:
    return any(left.works for left in list(_left_by.values()))


def _watch() -> None:
    while True:
        try:
            blocked = BlockedThreads()
            while _is_anything_left():
                time.sleep(_LOOK_S)
                _hand_over_of(blocked)
        finally:
            _watches.release()
        # Whoever left something meanwhile has not started another thread.
        if not _is_anything_left() or not _watches.acquire(blocking=False):
            return


def _hand_over_of(blocked: BlockedThreads) -> None:
    for ident, left in list(_left_by.items()):
        if left.works and blocked.look(ident, left.native_id):
            _left_by.pop(ident, None)
            for work in list(left.works):
                work._completer.add(work)


def look_at_waits() -> None:
    """From now on. Again: does nothing."""
    global _is_looking
    if _is_looking:
        return
    kind: Any = torch._C.Future
    kind.wait = _after(lambda _: bring_to_end(), kind.wait)
    kind.done = _after(_answer, kind.done)
    kind.add_done_callback = _watched(kind.add_done_callback)
    _is_looking = True


def _after(bring: Callable[[Any], None], method: Any) -> Any:
    @functools.wraps(method)
    def look(self: Any) -> Any:
        if _left_by:
            if _left.works:
                bring(self)
            elif not is_done(self):
                watch()
        return method(self)

    return look


def _watched(method: Any) -> Any:
    @functools.wraps(method)
    def listen(self: Any, callback: Any) -> Any:
        if _left_by and not is_done(self):
            watch()
        return method(self, callback)

    return listen
