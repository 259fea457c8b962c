"""The shortest way of an all-reduce of one plain tensor: by the extension module, without what the profiler, a coalesced call
or a copy needs."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, Optional, TypeVar, cast

import torch
import torch.distributed as dist
from torch.autograd import profiler

from ronde._native import extension
from ronde.torch._parts import HAVE_EXTENSION
from ronde.torch.distributed._memory import nothing
from ronde.torch.distributed._reductions import SIMPLE
from ronde.torch.distributed._work import Done, Work

_Method = TypeVar("_Method", bound=Callable[..., Any])


def at_once(method: _Method) -> _Method:
    """Gives ``allreduce`` that way. It does nothing, and ``method`` all, where the call is another."""
    if not HAVE_EXTENSION:
        return method

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 2 and not named and type(arguments[1]) is dist.AllreduceOptions:
            work = _work_of(group, *arguments)
            if work is not None:
                return work
        return method(group, *arguments, **named)

    return cast(_Method, call)


def _work_of(group: Any, tensors: List[torch.Tensor], opts: Any) -> Optional[dist.Work]:
    if type(tensors) is not list or len(tensors) != 1 or profiler._is_profiler_enabled:
        return None
    op = opts.reduceOp
    code = SIMPLE.get(getattr(op, "op", op))
    if code is None or group._over is not None or group._batch.works is not None:
        return None
    is_waited_for, within = not opts.asyncOp, group._within
    made = extension.allreduce_in_group(
        tensors[0], code, group._limit_of(opts), within.engine, within.group, is_waited_for
    )
    if made is None:
        return None
    group._calls += 1
    if is_waited_for:
        return Done(tensors)
    try:
        return Work(made, made.name, group._completer, tensors, nothing)
    except BaseException:  # a signal handler's
        made.cancel()
        made.abandon()
        raise
