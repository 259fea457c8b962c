"""The shortest way of an all-reduce of one plain tensor: by the extension module, without what the profiler, a coalesced call
or a copy needs."""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Callable, Dict, List, Optional, TypeVar, cast

import torch
import torch.distributed as dist
from torch.autograd import profiler

from ronde._native import extension
from ronde.torch._parts import HAVE_EXTENSION
from ronde.torch.distributed._reductions import SIMPLE
from ronde.torch.distributed._work import Done, Work

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: By the hash of PyTorch's constant, which is its number: to look at it in any other way takes ten times as long. That with a
#: factor, PREMUL_SUM, is none of them.
_CODES: Dict[int, int] = {hash(dist.ReduceOp(op)): code for op, code in SIMPLE.items()}
assert len(_CODES) == len(SIMPLE) and hash(dist.ReduceOp.PREMUL_SUM) not in _CODES


def at_once(method: _Method) -> _Method:
    """Gives ``allreduce`` that way. It does nothing, and ``method`` all, where the call is another."""
    if not HAVE_EXTENSION:
        return method
    allreduce = extension.allreduce_in_group
    options, code_of = dist.AllreduceOptions, _CODES.get

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 2 and not named and type(arguments[1]) is options:
            tensors, opts = arguments
            code = code_of(hash(opts.reduceOp))
            is_plain = type(tensors) is list and len(tensors) == 1 and code is not None and group._over is None
            if is_plain and not profiler._is_profiler_enabled and group._batch.works is None:
                within, work = group._within, Work.blank() if opts.asyncOp else None
                begin, last = (None, None) if work is None else (work.begin, group)
                try:
                    limit = group._limit_of(opts)
                    has_begun = allreduce(tensors[0], code, limit, within.engine, within.group, begin, tensors, last)
                except BaseException:  # a signal handler may have raised on the way back
                    if work is not None:
                        work.give_up()
                    raise
                if has_begun is not None:
                    group._names.calls += 1
                    return _DoneAtOnce(tensors) if work is None else work
            return method(group, tensors, opts)  # behind a call by stars Python would look for signals
        return method(group, *arguments, **named)

    return cast(_Method, call)


class _DoneAtOnce:
    """In place of a :class:`Done`, which PyTorch makes in a microsecond or two, until more is asked of it than to wait."""

    __slots__ = ("_tensors",)

    def __init__(self, tensors: List[torch.Tensor]) -> None:
        self._tensors = tensors

    def wait(self, timeout: Optional[timedelta] = None) -> bool:
        """True."""
        return True

    def __getattr__(self, name: str) -> Any:
        work = Done()
        work._results = self._tensors
        return getattr(work, name)
