"""Futures of a backward pass, which are left to the end of the pass.

There the thread that runs the pass brings their works to their end, in the order in which it has made the calls, and
so runs what the program has put behind them: alike on all ranks, whatever the timing. That matters where what is put
behind a future makes calls itself (PyTorch's PowerSGD does): ranks pair calls by their order.

A program that looks at a future sooner, in a communication hook or behind another future, has it at once: Python's
``wait()`` of any future first brings to its end what this thread has left, ``done()`` what of it has ended. C++ (DDP)
looks at the end, but for DDP's first step with a static graph: what begins and waits for all reductions there says so
(:func:`at_once`).

Where another thread looks, or a callback is to tell somebody, the thread of the pass may be waiting for just that: what
was left is then for the thread of the group, as outside of a pass.
"""

from __future__ import annotations

import collections
import contextlib
import functools
import threading
from typing import TYPE_CHECKING, Any, Callable, Deque, Dict, Iterator

import torch

if TYPE_CHECKING:
    from ronde.torch.distributed._work import Work


class _Left(threading.local):
    """What this thread has left, oldest first."""

    def __init__(self) -> None:
        self.works: Deque[Work] = collections.deque()
        self.is_looked_at = False  # by C++, before the pass ends


_left = _Left()
#: What each thread has left that has left something, by its id.
_left_by: Dict[int, Deque[Work]] = {}
_is_looking = False

#: Whether a future is done; unlike ``done()`` brings nothing to its end.
is_done: Callable[[Any], bool] = torch._C.Future.done


def leave(work: Work) -> bool:
    """Its future was asked for in the pass that this thread runs, which calls :func:`bring_to_end` when it ends. False:
    it cannot be left, since nobody would see who looks at it sooner."""
    if not _is_looking or _left.is_looked_at:
        return False
    _left.works.append(work)
    _left_by[threading.get_ident()] = _left.works
    return True


@contextlib.contextmanager
def at_once() -> Iterator[None]:
    """Within it this thread leaves no future to the end of the pass: C++ waits for them before."""
    before, _left.is_looked_at = _left.is_looked_at, True
    try:
        yield
    finally:
        _left.is_looked_at = before


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


def bring_ended_to_end() -> None:
    """The same of those that have ended, up to the first that has not. Waits for nothing."""
    works = _left.works
    while works and works[0].is_completed():
        _forget_ended(works)


def _forget_ended(works: Deque[Work]) -> None:
    while works and works[0]._is_over:  # what is behind one's future may have brought others to their end
        works.popleft()


def hand_over() -> None:
    """All that any thread has left goes to the threads of the groups, in order. Waits for nothing."""
    for works in list(_left_by.values()):
        for work in list(works):
            work._completer.add(work)


def look_at_waits() -> None:
    """From now on. Again: does nothing."""
    global _is_looking
    if _is_looking:
        return
    kind: Any = torch._C.Future
    kind.wait = _after(bring_to_end, kind.wait)
    kind.done = _after(bring_ended_to_end, kind.done)
    kind.add_done_callback = _after_handing_over(kind.add_done_callback)
    _is_looking = True


def _after(bring: Callable[[], None], method: Any) -> Any:
    @functools.wraps(method)
    def look(self: Any) -> Any:
        if _left_by:
            if _left.works:
                bring()
            elif not is_done(self):
                hand_over()
        return method(self)

    return look


def _after_handing_over(method: Any) -> Any:
    @functools.wraps(method)
    def listen(self: Any, callback: Any) -> Any:
        if _left_by and not is_done(self):
            hand_over()
        return method(self, callback)

    return listen
