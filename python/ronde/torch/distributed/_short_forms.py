"""The short forms of a process group's methods, which PyTorch's own have beside the long ones: ``allreduce(tensor, op)``
for ``allreduce([tensor], options)``. DDP calls one of them, and so do older programs.

Each function here takes the arguments of a short form and returns those of the long one.
"""

from __future__ import annotations

import functools
import inspect
from datetime import timedelta
from typing import Any, Callable, List, Optional, Sequence, Tuple, TypeVar, cast

import torch
import torch.distributed as dist

Tensor = torch.Tensor
Method = TypeVar("Method", bound=Callable[..., Any])

_SUM = dist.ReduceOp.SUM

#: What only the short forms take by position.
_OF_SHORT_FORMS = (torch.Tensor, dist.ReduceOp, dist.ReduceOp.RedOpType)


def also(short: Callable[..., Tuple[Any, ...]]) -> Callable[[Method], Method]:
    """Gives a method its short form."""
    names = set(inspect.signature(short).parameters)

    def decorate(method: Method) -> Method:
        only_short = names.difference(inspect.signature(method).parameters)

        @functools.wraps(method)
        def either(self: Any, *arguments: Any, **named: Any) -> Any:
            for each in arguments:
                if isinstance(each, _OF_SHORT_FORMS):
                    break
            else:
                if not named or only_short.isdisjoint(named):
                    return method(self, *arguments, **named)
            return method(self, *short(*arguments, **named))

        return cast(Method, either)

    return decorate


def _options(kind: Any, **settings: Any) -> Any:
    options = kind()
    for name, value in settings.items():
        if value is not None:
            setattr(options, name, value)
    return options


def allreduce(
    tensor: Optional[Tensor] = None,
    op: Any = _SUM,
    timeout: Optional[timedelta] = None,
    tensors: Optional[Sequence[Tensor]] = None,
) -> Tuple[Any, ...]:
    """``tensor`` may be a list, as with PyTorch's."""
    given: Any = tensor if tensors is None else tensors
    listed: List[Tensor] = [given] if isinstance(given, Tensor) else list(given)
    return listed, _options(dist.AllreduceOptions, reduceOp=op, timeout=timeout)


def broadcast(tensor: Tensor, root: int, timeout: Optional[timedelta] = None) -> Tuple[Any, ...]:
    """From the rank ``root`` of the group."""
    return [tensor], _options(dist.BroadcastOptions, rootRank=root, timeout=timeout)


def reduce(tensor: Tensor, root: int, op: Any = _SUM, timeout: Optional[timedelta] = None) -> Tuple[Any, ...]:
    """To the rank ``root`` of the group."""
    return [tensor], _options(dist.ReduceOptions, rootRank=root, reduceOp=op, timeout=timeout)


def allgather(
    output_tensors: Sequence[Tensor], input_tensor: Tensor, timeout: Optional[timedelta] = None
) -> Tuple[Any, ...]:
    """Into one list."""
    return [output_tensors], [input_tensor]


def gather(
    output_tensors: Sequence[Tensor], input_tensor: Tensor, root: int, timeout: Optional[timedelta] = None
) -> Tuple[Any, ...]:
    """Into the list of the rank ``root`` of the group."""
    return [output_tensors], [input_tensor], _options(dist.GatherOptions, rootRank=root, timeout=timeout)


def scatter(
    output_tensor: Tensor, input_tensors: Sequence[Tensor], root: int, timeout: Optional[timedelta] = None
) -> Tuple[Any, ...]:
    """Of the list of the rank ``root`` of the group."""
    return [output_tensor], [input_tensors], _options(dist.ScatterOptions, rootRank=root, timeout=timeout)


def reduce_scatter(
    output_tensors: Tensor, input_tensor: Sequence[Tensor], op: Any = _SUM, timeout: Optional[timedelta] = None
) -> Tuple[Any, ...]:
    """Of one list; the output is this rank's part. PyTorch calls the one tensor ``output_tensors``, and the list not."""
    return [output_tensors], [input_tensor], _options(dist.ReduceScatterOptions, reduceOp=op, timeout=timeout)
