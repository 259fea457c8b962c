"""Names for calls of ``torch.distributed``, which has none: the calls of a group pair by their order, see
:mod:`ronde._calls`."""

from __future__ import annotations

import functools
import itertools
import threading
from typing import Any, Callable, List, Optional, TypeVar

from ronde import _calls, _operation
from ronde.torch._parts import current_pass

_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_backward_pass() -> bool:
    """Whether autograd is what calls, on this thread."""
    return current_pass() != -1


class _Thread(threading.local):
    call: Optional[_calls.Unnamed] = None  #: the last one that this thread has made


_thread = _Thread()


class Names:
    """The names of one group's calls."""

    def __init__(self, engine: Optional[int], group: int, title: str) -> None:
        """``engine``: of ``ronde_engine_create``, None for the process's; ``group``: of its groups; ``title``: the same on all
        ranks of the group."""
        self._engine, self._group = engine, group
        self.title = title
        self._barriers = itertools.count()
        self._unused_barriers: List[int] = []  # numbers
        self.calls = 0  #: that concern all ranks, however named
        self.pairs = 0  #: sends and recvs that were made

    def count(self, is_pairwise: bool) -> None:
        """A call is made."""
        if is_pairwise:
            self.pairs += 1
        else:
            self.calls += 1

    def is_of(self, call: _calls.Unnamed) -> bool:
        """Whether the call is one of the group."""
        return call.group == self._group and call.engine == self._engine

    def take(self, kind: str, is_pairwise: bool) -> _calls.Name:
        """Of a call that is made now."""
        if is_pairwise:
            return _calls.pairwise(kind, self._group)
        if kind == "barrier":
            try:
                number = self._unused_barriers.pop()
            except IndexError:
                number = next(self._barriers)
            name = _calls.Barrier(f"barrier.noname.{number}")
            name.is_told = False
            return name
        call = _thread.call = _calls.unnamed(self._group, self._engine)
        return call

    def give_back(self, name: _calls.Name) -> None:
        """If this is a barrier's that has not come to the engine: the next one has its number, as the other ranks expect."""
        if isinstance(name, _calls.Barrier) and not name.is_told:
            self._unused_barriers.append(int(name.rpartition(".")[2]))

    def refuse_next(self, why: object) -> None:
        """A call's arguments are wrong: it counts, and the ranks that make it are told why."""
        _calls.refuse(_calls.unnamed(self._group, self._engine), why)


def counted(method: _Method) -> _Method:
    """A call of a group that counts even if it is refused before the engine sees it, whatever the error, since the other
    ranks may have made it."""

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **settings: Any) -> Any:
        before = _thread.call
        try:
            return method(group, *arguments, **settings)
        except BaseException as error:
            last = _thread.call
            if last is not before and last is not None:
                _operation.cancel_call(last)  # a signal handler may have raised on the way back
                _calls.refuse(last, error)
            elif group._over is None:
                group._names.refuse_next(error)
            raise

    return call  # type: ignore[return-value] # it has the method's signature
