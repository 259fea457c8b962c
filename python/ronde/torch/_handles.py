"""What operations on PyTorch's tensors make of a request that has succeeded: their results."""

from __future__ import annotations

import ctypes
import math
from typing import Any, List, Optional, Sequence, Tuple

import torch

from ronde._handle import Take
from ronde._operation import Operation, Output
from ronde.torch._staging import bring
from ronde.torch._tensors import TORCH_DTYPES

_MOST_INT32 = (1 << 31) - 1

#: From here on a result is not copied out of the ticket's memory but is that memory. In bytes.
_WRAP_FROM_BYTES = 64 * 1024


def into(outputs: List[torch.Tensor], copy_back: List[Tuple[torch.Tensor, torch.Tensor]], single: bool) -> Take[Any]:
    """The results are these tensors, after the copies ``(target, staged)``; ``single``: the one, not a list."""

    def take(operation: Operation) -> Any:
        operation.release()
        bring(copy_back, waits=False)
        return outputs[0] if single else outputs

    return take


def made_by_ticket(operation: Operation) -> torch.Tensor:
    """The result is the ticket's only output."""
    return _ticket_tensors(operation, 1)[0]


def all_made_by_ticket(count: int) -> Take[List[torch.Tensor]]:
    """The results are the ticket's outputs, a list."""
    return lambda operation: _ticket_tensors(operation, count)


def made_with_splits(operation: Operation) -> Tuple[torch.Tensor, torch.Tensor]:
    """The ticket's only output, and how many rows of it came from each rank (int32, as with Horovod; int64 where that
    would not hold them)."""
    rows = operation.received_splits()
    dtype = torch.int32 if max(rows, default=0) <= _MOST_INT32 else torch.int64
    return made_by_ticket(operation), torch.tensor(rows, dtype=dtype, device="cpu")


def on(tensors: Sequence[torch.Tensor], take: Take[Any]) -> Take[Any]:
    """What ``take`` makes, each on its tensor's device: a tensor, a list of as many, or a tensor with its splits, which
    stay."""
    for tensor in tensors:
        if not tensor.is_cpu:
            break
    else:
        return take
    devices = [tensor.device for tensor in tensors]

    def move(operation: Operation) -> Any:
        made = take(operation)
        if isinstance(made, list):
            return [tensor.to(device) for tensor, device in zip(made, devices)]
        if isinstance(made, tuple):
            return made[0].to(devices[0]), made[1]
        return made.to(devices[0])

    return move


def made_at_root(is_root: bool) -> Take[Optional[torch.Tensor]]:
    """The ticket's only output on the root, None elsewhere."""

    def take(operation: Operation) -> Optional[torch.Tensor]:
        if is_root:
            return made_by_ticket(operation)
        operation.release()
        return None

    return take


def source_after(copy_back: List[Tuple[torch.Tensor, torch.Tensor]]) -> Take[int]:
    """The rank that sent, after the copies ``(target, staged)``."""

    def take(operation: Operation) -> int:
        source = operation.source()
        operation.release()
        bring(copy_back, waits=False)
        return source

    return take


class _TicketMemory:
    """Releases the ticket when the last tensor over its memory has gone."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def __del__(self) -> None:
        self._operation.release()


def _ticket_tensors(operation: Operation, count: int) -> List[torch.Tensor]:
    """The ticket's outputs as tensors: small ones as copies, others over the ticket's own memory."""
    memory: Optional[_TicketMemory] = None
    tensors = []
    for index in range(count):
        output: Output = operation.output(index)
        dtype = TORCH_DTYPES[output.dtype]
        n_bytes = math.prod(output.shape) * dtype.itemsize
        if n_bytes < _WRAP_FROM_BYTES:
            tensor = torch.empty(output.shape, dtype=dtype, device="cpu")
            ctypes.memmove(tensor.data_ptr(), output.address, n_bytes)
        else:
            memory = memory or _TicketMemory(operation)
            array = (ctypes.c_char * n_bytes).from_address(output.address)
            # The array owns the ticket, and the tensor the array.
            array._owner = memory  # type: ignore[attr-defined] # ctypes lets one add attributes
            tensor = torch.frombuffer(array, dtype=dtype).view(output.shape)
        tensors.append(tensor)
    if memory is None:
        operation.release()
    return tensors
