"""Names for calls of ``torch.distributed``, which has none: the calls of a group pair by their order, see
:mod:`ronde._calls`."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Callable, Optional, TypeVar

import torch

from ronde import _calls
from ronde.exceptions import RondeError

_Method = TypeVar("_Method", bound=Callable[..., Any])


def in_backward_pass() -> bool:
    """Whether autograd is what calls, on this thread."""
    return torch._C._current_graph_task_id() != -1


class Names:
    """The names of one group's calls."""

    def __init__(self, engine: Optional[int], group: int) -> None:
        """``engine``: of ``ronde_engine_create``, None for the process's; ``group``: of its groups."""
        self._engine, self._group = engine, group
        self._barriers = itertools.count()
        self.taken = 0

    def take(self, kind: str) -> str:
        """Of a call that is made now."""
        if kind.startswith(("send", "recv")):
            return _calls.pairwise(kind, self._group)
        if kind == "barrier":
            return f"barrier.noname.{next(self._barriers)}"
        self.taken += 1
        return _calls.unnamed(self._group, self._engine)

    def refuse_next(self, why: str) -> None:
        """A call's arguments are wrong: the ranks that make it are told why."""
        try:
            _calls.refuse(_calls.unnamed(self._group, self._engine), why, self._engine)
        except RondeError:
            pass  # nobody to tell: the job has ended

    def refuse_open(self, why: str) -> None:
        """A call that has a number and has not come to the engine will not be made: the other ranks are told why."""
        _calls.refuse_open(why, self._engine)


def counted(method: _Method) -> _Method:
    """A call of a group that counts even if it is refused before the engine sees it, whatever the error, since the other
    ranks may have made it."""

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **settings: Any) -> Any:
        names = group._names
        taken = names.taken
        try:
            return method(group, *arguments, **settings)
        except Exception as error:
            if names.taken != taken:
                names.refuse_open(str(error))
            elif group._close is not None:
                names.refuse_next(str(error))
            raise

    return call  # type: ignore[return-value] # it has the method's signature
