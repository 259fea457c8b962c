"""Between the tensors of a call and the memory of its request."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, Iterable, List, Sequence, Tuple

import torch

from ronde._operation import Operation
from ronde.torch._tensors import TORCH_DTYPES, check, staged

Finish = Callable[[Operation], Any]


def flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all, one after the other, in host memory; outside autograd."""
    for part in parts:
        check(part, "parts")
    return torch.cat([staged(part).detach().reshape(-1) for part in parts])


def rows_of(tensor: torch.Tensor) -> torch.Tensor:
    """With two dimensions, of which the first is kept."""
    rows = tensor.shape[0] if tensor.dim() else 1
    return tensor.reshape(rows, math.prod(tensor.shape[1:]))


def filled(copies: Iterable[Tuple[torch.Tensor, torch.Tensor]]) -> Finish:
    """For results that the engine has written where they belong, or for ``(tensor, staged copy)`` beside it."""
    copies = [(target, source) for target, source in copies if target is not source]

    def finish(operation: Operation) -> None:
        operation.release()
        for target, source in copies:
            target.detach().copy_(source)

    return finish


def put(outputs: Sequence[Any]) -> Finish:
    """Copies each of the ticket's outputs to where it belongs: a tensor, or a list of them, one after the other."""

    def finish(operation: Operation) -> None:
        try:
            for index, output in enumerate(outputs):
                _put_one(operation, index, output)
        finally:
            operation.release()

    return finish


def _put_one(operation: Operation, index: int, output: Any) -> None:
    made = operation.output(index)
    count = math.prod(made.shape)
    if count == 0:
        return
    dtype = TORCH_DTYPES[made.dtype]
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(made.address)
    values = torch.frombuffer(memory, dtype=dtype)
    targets: List[torch.Tensor] = output if isinstance(output, list) else [output]
    at = 0
    for target in targets:
        target.detach().copy_(values[at : at + target.numel()].view(target.shape))
        at += target.numel()
