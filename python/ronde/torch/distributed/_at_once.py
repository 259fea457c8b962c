"""The shortest way of an all-reduce of one plain tensor: by the extension module, without what the profiler, a coalesced call
or a copy needs."""

from __future__ import annotations

import functools
from typing import Any, Callable, List, TypeVar, cast

import torch
import torch.distributed as dist
from torch.autograd import profiler

from ronde._native import extension
from ronde._operation import Operation
from ronde.torch._parts import HAVE_EXTENSION
from ronde.torch.distributed._memory import nothing
from ronde.torch.distributed._reductions import SIMPLE
from ronde.torch.distributed._work import Done, Work

_Method = TypeVar("_Method", bound=Callable[..., Any])

#: By the number of PyTorch's constant: looking one up by itself takes as long as the rest.
_CODES: List[int] = [code for _, code in sorted((int(op), code) for op, code in SIMPLE.items())]
assert sorted(map(int, SIMPLE)) == list(range(len(_CODES)))


def at_once(method: _Method) -> _Method:
    """Gives ``allreduce`` that way. It does nothing, and ``method`` all, where the call is another."""
    if not HAVE_EXTENSION:
        return method
    allreduce = extension.allreduce_in_group

    @functools.wraps(method)
    def call(group: Any, *arguments: Any, **named: Any) -> Any:
        if len(arguments) == 2 and not named and type(arguments[1]) is dist.AllreduceOptions:
            tensors, opts = arguments
            op = opts.reduceOp
            # PREMUL_SUM comes behind these: it has a factor.
            number = int(getattr(op, "op", op))
            is_plain = type(tensors) is list and len(tensors) == 1 and number < len(_CODES) and group._over is None
            if is_plain and not profiler._is_profiler_enabled and group._batch.works is None:
                within, waits = group._within, not opts.asyncOp
                made = allreduce(tensors[0], _CODES[number], group._limit_of(opts), within.engine, within.group, waits)
                if made is not None:
                    group._calls += 1
                    return _done(tensors) if waits else _work(made, tensors, group)
        return method(group, *arguments, **named)

    return cast(_Method, call)


def _done(tensors: List[torch.Tensor]) -> dist.Work:
    work = Done()
    work._results = tensors
    return work


def _work(operation: Operation, tensors: List[torch.Tensor], group: Any) -> dist.Work:
    try:
        return Work(operation, operation, group._completer, tensors, nothing)
    except BaseException:  # a signal handler's
        operation.cancel()
        operation.abandon()
        raise
