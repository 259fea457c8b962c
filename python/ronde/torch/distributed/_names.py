"""Names for calls that have none: ``torch.distributed`` pairs the calls of a group by their order.

Ranks of Ronde meet by name, and what comes back under its name needs no agreement. So a call is named by its kind, its
element type and the lowest number that is free, and a number is free again when the *program* has waited for the call:
that is the same on all ranks, while the moment at which the work ends is not. A loop that does the same each time uses
the same names each time. Calls in a backward pass are numbered apart: else the mean of a loss, say, would take turns
with a bucket of gradients under one name, which then means another thing each time and is agreed on by messages. The
size is no part of the name, so that ranks whose sizes differ meet, and are told so.

All that holds where the ranks run the same program. Where some make calls in the stead of others (_join.py) a name is
the call's number in that block, never used again and so never replayed. Calls between two ranks are named as ever: not
all ranks make them.

A future is waited for where nobody sees it (DDP does so in C++). One that was asked for during a backward pass counts
as waited for when that pass ends. Other futures keep their numbers, the oldest of many gives its own to a new call.
"""

from __future__ import annotations

import collections
import heapq
from typing import Callable, Deque, Dict, List, Optional, Tuple

import torch

#: So many calls of a kind and type may have futures out that nobody is known to have waited for.
_MOST_FUTURES = 64


class Name(str):
    """A name in use."""

    __slots__ = ("kind", "number")

    kind: str
    number: Optional[int]  # None once given back


#: Returns when an earlier call has ended.
_UntilDone = Callable[[], None]


def _is_done() -> None:
    """Of a call that has been waited for."""


def _in_backward_pass() -> bool:
    """Whether autograd is what calls, on this thread."""
    return torch._C._current_graph_task_id() != -1


class _Numbers:
    """Those of one kind and type."""

    __slots__ = ("free", "fresh", "futures")

    def __init__(self) -> None:
        self.free: List[Tuple[int, _UntilDone]] = []  # a heap
        self.fresh = 0
        self.futures: Deque[Tuple[Name, _UntilDone]] = collections.deque()


class Names:
    """The names of one group. The calls of a group are made one after the other, as ``torch.distributed`` demands."""

    def __init__(self) -> None:
        self._numbers: Dict[str, _Numbers] = {}
        self._depth = 0  # of ordered blocks
        self._blocks = 0  # that were entered
        self._calls_in_block = 0

    def begin_ordered(self) -> None:
        """Until as many :meth:`end_ordered`, calls are named by their order alone. On all ranks between the same calls."""
        if self._depth == 0:
            self._blocks += 1
            self._calls_in_block = 0
        self._depth += 1

    def end_ordered(self) -> None:
        """See :meth:`begin_ordered`."""
        self._depth -= 1

    def take(self, kind: str) -> Name:
        """The name of a new call. May wait for the end of the one that had it before, if its future is out."""
        if self._depth > 0 and not kind.startswith(("send", "recv")):
            name = Name(f"dist.join.{self._blocks}.{self._calls_in_block}")
            name.kind, name.number = kind, None
            self._calls_in_block += 1
            return name
        if _in_backward_pass():
            kind = f"backward.{kind}"
        numbers = self._numbers.setdefault(kind, _Numbers())
        while not numbers.free and len(numbers.futures) >= _MOST_FUTURES:
            self._give_back(*numbers.futures.popleft())
        if numbers.free:
            number, until_done = heapq.heappop(numbers.free)
            until_done()
        else:
            number = numbers.fresh
            numbers.fresh += 1
        name = Name(f"dist.{kind}.{number}")
        name.kind, name.number = kind, number
        return name

    def has_future(self, name: Name, until_done: _UntilDone) -> bool:
        """A future was made for the call. Whether it was in a backward pass: then ``until_done`` is called when that
        ends, on the thread that runs it."""
        if not _in_backward_pass():
            if name.number is not None:
                self._numbers[name.kind].futures.append((name, until_done))
            return False

        def at_end_of_pass() -> None:
            until_done()
            self._give_back(name, _is_done)

        torch.autograd.Variable._execution_engine.queue_callback(at_end_of_pass)
        return True

    def waited_for(self, name: Name) -> None:
        """The program has waited for the call, or it never began. Again: does nothing."""
        self._give_back(name, _is_done)

    def _give_back(self, name: Name, until_done: _UntilDone) -> None:
        number, name.number = name.number, None
        if number is not None:
            heapq.heappush(self._numbers[name.kind].free, (number, until_done))
