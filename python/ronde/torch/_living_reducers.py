"""The reducers of all optimizers of this process, which does something with all of them at times."""

from __future__ import annotations

import itertools
import os
import weakref
from typing import Dict, Protocol

from ronde import _operation


class _Reducer(Protocol):
    @property
    def name(self) -> str:
        """The same on all ranks; empty while it reduces nothing."""

    @property
    def touched(self) -> bool:
        """Whether a backward pass has reached it since the end of its last step."""

    def say_early(self) -> None:
        """Tells other ranks how this one stands, if they may wait for that."""

    def leave_job(self) -> None:
        """This is a forked child now."""


#: With the order in which they were made.
_living: "weakref.WeakKeyDictionary[_Reducer, int]" = weakref.WeakKeyDictionary()
_numbers = itertools.count()


def enter(reducer: _Reducer) -> None:
    """From now on until it goes."""
    _living[reducer] = next(_numbers)


def is_any_touched() -> bool:
    """Whether an optimizer is in the middle of a step."""
    return any(reducer.touched for reducer in list(_living))


def say_early() -> None:
    """This thread waits for other ranks, which may wait for it in an optimizer that it will come to."""
    newest: Dict[str, _Reducer] = {}  # an optimizer that is no more, or should be, does not speak for its successor
    for reducer, _ in sorted(_living.items(), key=lambda item: item[1]):
        newest[reducer.name] = reducer
    for reducer in newest.values():
        reducer.say_early()


def _leave_job() -> None:
    for reducer in list(_living):
        reducer.leave_job()


_operation.while_waiting.append(say_early)
os.register_at_fork(after_in_child=_leave_job)
