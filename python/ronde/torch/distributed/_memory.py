"""Between the tensors of a call and the memory of its request."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, Iterable, List, Sequence, Tuple

import torch

from ronde._operation import Operation
from ronde.torch._staging import bring, staged_together, wait_for_kernels
from ronde.torch._tensors import TORCH_DTYPES, check, check_target, copies_back, fill

#: Fills the results of an operation that has succeeded. It may be interrupted, and is called again then.
Finish = Callable[[Operation], Any]


def flat(parts: Sequence[torch.Tensor]) -> torch.Tensor:
    """The elements of all, one after the other, in host memory; outside autograd."""
    for part in parts:
        check(part, "parts")
    return torch.cat([part.detach().reshape(-1) for part in staged_together(parts)])


def nothing(_: Operation) -> None:
    """There is nothing to fill."""


def filled(copies: Iterable[Tuple[torch.Tensor, torch.Tensor]], waits: bool = True) -> Finish:
    """For results that the engine has written where they belong, or for ``(tensor, staged copy)`` beside it. Without ``waits``
    those on a GPU are there when the current stream has come so far: where the thread that has made the call finishes it."""
    copies = copies_back(copies, "tensor")
    if not copies:
        return nothing

    def finish(_: Operation) -> None:
        bring(copies, waits)

    return finish


def put(outputs: Sequence[Any]) -> Finish:
    """Copies each of the ticket's outputs to where it belongs: a tensor, or a list of them, one after the other. Raises
    InvalidArgumentError (a ValueError), before anything is communicated, where that cannot be."""
    for output in outputs:
        targets = output if isinstance(output, list) else [output]
        for target in targets:
            check_target(target, "output")
        wait_for_kernels(targets)

    def finish(operation: Operation) -> None:
        for index, output in enumerate(outputs):
            _put_one(operation, index, output)

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
        fill(target, values[at : at + target.numel()].view(target.shape))
        at += target.numel()
