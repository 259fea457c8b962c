"""Operations that gradients flow through. The backward of a rank's call is the collective that carries the other ranks'
gradients to it; it goes by the forward's name, so ranks need not run their graphs in the same order."""

from __future__ import annotations

from typing import Any, Tuple, Type

import torch

from ronde import _abi, _process
from ronde.torch import _names
from ronde.torch._start import start_allgather, start_allreduce, start_broadcast


def apply(function: Type[torch.autograd.Function], *arguments: Any) -> Any:
    """Calls one of the classes below: ``Function.apply`` has no types."""
    return function.apply(*arguments)  # type: ignore[no-untyped-call]


class Allreduce(torch.autograd.Function):
    """``mpi_ops.allreduce``; its gradient is reduced with the same operation and factors."""

    @staticmethod
    def forward(
        ctx: Any, tensor: torch.Tensor, full_name: str, op: int, prescale: float, postscale: float
    ) -> torch.Tensor:
        ctx.call = (_names.name_of_gradient(full_name), op, prescale, postscale)
        result: torch.Tensor = start_allreduce([tensor], None, full_name, op, prescale, postscale, True, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale = ctx.call
        reduced = start_allreduce(gradients, None, name, op, prescale, postscale, True, wait=True)
        return reduced, None, None, None, None


class GroupedAllreduce(torch.autograd.Function):
    """``mpi_ops.grouped_allreduce``; the gradients are reduced as a group with the same operation and factors."""

    @staticmethod
    def forward(
        ctx: Any, full_name: str, op: int, prescale: float, postscale: float, *tensors: torch.Tensor
    ) -> Tuple[torch.Tensor, ...]:
        ctx.call = (_names.name_of_gradient(full_name), op, prescale, postscale)
        return tuple(start_allreduce(tensors, None, full_name, op, prescale, postscale, False, wait=True))

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, op, prescale, postscale = ctx.call
        reduced = start_allreduce(gradients, None, name, op, prescale, postscale, False, wait=True)
        return (None, None, None, None, *reduced)


class Allgather(torch.autograd.Function):
    """``mpi_ops.allgather``; each rank gets its own rows of the averaged gradient."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, full_name: str) -> torch.Tensor:
        ctx.call = (_names.name_of_gradient(full_name), tensor.shape[0] if tensor.dim() > 0 else 0)
        result: torch.Tensor = start_allgather(tensor, full_name, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        name, rows = ctx.call
        all_rows = start_allgather(torch.tensor([rows]), name + ".rows", wait=True)
        averaged = start_allreduce(gradients, None, name, _abi.AVERAGE, 1.0, 1.0, True, wait=True)
        first = int(all_rows[: _process.rank()].sum())
        return averaged.narrow(0, first, rows), None


class Broadcast(torch.autograd.Function):
    """``mpi_ops.broadcast``; the root gets the averaged gradient, the others zeros."""

    @staticmethod
    def forward(ctx: Any, tensor: torch.Tensor, root_rank: int, full_name: str) -> torch.Tensor:
        ctx.call = (root_rank, _names.name_of_gradient(full_name))
        result: torch.Tensor = start_broadcast(tensor, None, root_rank, full_name, wait=True)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Tuple[Any, ...]:
        root_rank, name = ctx.call
        averaged = start_allreduce(gradients, None, name, _abi.AVERAGE, 1.0, 1.0, True, wait=True)
        return (averaged if _process.rank() == root_rank else torch.zeros_like(averaged)), None, None
