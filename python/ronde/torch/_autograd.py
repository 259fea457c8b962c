"""Operations that gradients flow through. The backward of a rank's call is the collective that carries the other ranks'
gradients to it, and it waits for them; it goes by the forward's name, so that ranks whose graphs order independent calls
otherwise meet in the right ones. It is one of these operations itself where autograd asks for a graph of the backward
pass (``create_graph=True``), so derivatives of any order flow through.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Type

import torch

from ronde import _abi, _names, _process, process_sets
from ronde._names import Name
from ronde.exceptions import InvalidArgumentError
from ronde.torch._arguments import needs_gradient
from ronde.torch._start import (
    start_allgather,
    start_allreduce,
    start_alltoall,
    start_broadcast,
    start_grouped_allgather,
    start_reducescatter,
)


def apply(function: Type[torch.autograd.Function], *arguments: Any) -> Any:
    """Calls a function that has a gradient of its own, and only here."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call] # torch gives it no types


def reduce_one(tensor: torch.Tensor, full_name: str, op: int, prescale: float, postscale: float) -> torch.Tensor:
    """The reduced tensor, as a part of the graph where the tensor is one."""
    if needs_gradient(tensor):
        result: torch.Tensor = apply(Allreduce, tensor, full_name, op, prescale, postscale)
    else:
        result = start_allreduce([tensor], None, full_name, op, prescale, postscale, True, wait=True)
    return result


def reduce_group(
    tensors: Sequence[torch.Tensor], full_name: str, op: int, prescale: float, postscale: float
) -> Sequence[torch.Tensor]:
    """The reduced tensors, as parts of the graph where one of the tensors is."""
    if any(needs_gradient(tensor) for tensor in tensors):
        results: Sequence[torch.Tensor] = apply(GroupedAllreduce, full_name, op, prescale, postscale, *tensors)
    else:
        results = start_allreduce(tensors, None, full_name, op, prescale, postscale, False, wait=True)
    return results


def gather_group(tensors: Sequence[torch.Tensor], full_name: str) -> Sequence[torch.Tensor]:
    """All ranks' rows of each tensor, as parts of the graph where one of the tensors is."""
    if any(needs_gradient(tensor) for tensor in tensors):
        results: Sequence[torch.Tensor] = apply(GroupedAllgather, full_name, *tensors)
    else:
        results = start_grouped_allgather(tensors, full_name, wait=True)
    return results


class Allreduce(torch.autograd.Function):
    """``mpi_ops.allreduce``; its gradient is reduced with the same operation and factors."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, full_name: Name, op: int, prescale: float, postscale: float
    ) -> torch.Tensor:
        ctx.call = (_names.name_of_gradient(full_name), op, prescale, postscale)
        result: torch.Tensor = start_allreduce([tensor], None, full_name, op, prescale, postscale, True, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale = ctx.call
        return reduce_one(gradients[0], name, op, prescale, postscale), None, None, None, None


class GroupedAllreduce(torch.autograd.Function):
    """``mpi_ops.grouped_allreduce``; the gradients are reduced as a group with the same operation and factors."""

    @staticmethod
    def forward(
        ctx: Any, full_name: Name, op: int, prescale: float, postscale: float, *tensors: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        ctx.call = (_names.name_of_gradient(full_name), op, prescale, postscale)
        return tuple(start_allreduce(tensors, None, full_name, op, prescale, postscale, False, wait=True))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale = ctx.call
        return (None, None, None, None, *reduce_group(gradients, name, op, prescale, postscale))


class Allgather(torch.autograd.Function):
    """``mpi_ops.allgather``; each rank gets its own rows of the averaged gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, full_name: Name) -> torch.Tensor:
        ctx.call = (_names.name_of_gradient(full_name), tensor.shape[0] if tensor.dim() > 0 else 0)
        result: torch.Tensor = start_allgather(tensor, full_name, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, rows = ctx.call
        all_rows = start_allgather(torch.tensor([rows], device="cpu"), _names.part_of(name, "rows"), wait=True)
        averaged = reduce_one(gradients[0], name, _abi.AVERAGE, 1.0, 1.0)
        first = int(all_rows[: process_sets.rank_in(_names.group_of(name))].sum())
        return averaged.narrow(0, first, rows), None


class GroupedAllgather(torch.autograd.Function):
    """``mpi_ops.grouped_allgather``; each rank gets its own rows of the averaged gradients."""

    @staticmethod
    def forward(ctx: Any, full_name: Name, *tensors: torch.Tensor) -> Tuple[torch.Tensor, ...]:
        ctx.call = (_names.name_of_gradient(full_name), [tensor.shape[0] for tensor in tensors if tensor.dim() > 0])
        return tuple(start_grouped_allgather(tensors, full_name, wait=True))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, rows = ctx.call
        all_rows = start_allgather(torch.tensor([rows], device="cpu"), _names.part_of(name, "rows"), wait=True)
        averaged = reduce_group(gradients, name, _abi.AVERAGE, 1.0, 1.0)
        firsts = all_rows[: process_sets.rank_in(_names.group_of(name))].sum(0).tolist()
        own = [gradient.narrow(0, first, count) for gradient, first, count in zip(averaged, firsts, rows)]
        return (None, *own)


class Alltoall(torch.autograd.Function):
    """``mpi_ops.alltoall``; the gradient goes back the way the rows came."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, splits: Optional[List[int]], full_name: Name
    ) -> Tuple[torch.Tensor, torch.Tensor]:
        if splits is None:
            # Told to the engine all the same, for the received splits, by which the gradient goes back.
            size = process_sets.size_of(_names.group_of(full_name))
            rows, rest = divmod(tensor.shape[0] if tensor.dim() > 0 else 1, size)
            if rest != 0:
                start_alltoall(tensor, None, full_name, wait=True)  # raises what it says of that
            splits = [rows] * size
        result, received = start_alltoall(tensor, splits, full_name, wait=True)
        ctx.call = (_names.name_of_gradient(full_name), received.tolist())
        ctx.mark_non_differentiable(received)
        return result, received

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, received = ctx.call
        if needs_gradient(gradients[0]):
            returned, _ = apply(Alltoall, gradients[0], received, name)
        else:
            returned, _ = start_alltoall(gradients[0], received, name, wait=True)
        return returned, None, None


class Reducescatter(torch.autograd.Function):
    """``mpi_ops.grouped_reducescatter``; each rank gets all ranks' gradients one after the other: those of a sum times
    the number of ranks, as Horovod has it, since what follows averages."""

    @staticmethod
    def forward(
        ctx: Any, full_name: Name, op: int, prescale: float, postscale: float, *tensors: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        ctx.call = (_names.name_of_gradient(full_name), op, prescale * postscale)
        return tuple(start_reducescatter(tensors, full_name, op, prescale, postscale, False, wait=True))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, factor = ctx.call
        factor *= process_sets.size_of(_names.group_of(name)) if op == _abi.SUM else 1
        scaled = [gradient if factor == 1 else gradient * factor for gradient in gradients]
        return (None, None, None, None, *gather_group(scaled, name))


class Broadcast(torch.autograd.Function):
    """``mpi_ops.broadcast``; the root gets the averaged gradient, the others zeros."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, full_name: Name) -> torch.Tensor:
        ctx.call = (root_rank, _names.name_of_gradient(full_name))
        result: torch.Tensor = start_broadcast(tensor, None, root_rank, full_name, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        root_rank, name = ctx.call
        averaged = reduce_one(gradients[0], name, _abi.AVERAGE, 1.0, 1.0)
        if _process.rank() != root_rank:
            # Zeros that are part of the graph: in the backward pass of this one all ranks have to call.
            averaged = averaged.masked_fill(torch.ones((), dtype=torch.bool, device=averaged.device), 0.0)
        return averaged, None, None


def with_value(tensor: torch.Tensor, value: torch.Tensor, why: str) -> torch.Tensor:
    """A part of the tensor's graph with another value, of the same shape, that is of all ranks. Nobody may differentiate it, as
    the graph is this rank's: who does is told ``why`` not, by InvalidArgumentError."""
    with torch.enable_grad():
        result: torch.Tensor = apply(_WithValue, tensor, value, why)
    return result


class _WithValue(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, value: torch.Tensor, why: str) -> torch.Tensor:
        ctx.why = why
        return value.clone()  # what is given could not be written to afterwards

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        raise InvalidArgumentError(ctx.why, 1)
