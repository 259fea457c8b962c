"""Handles of asynchronous operations: what ``*_async`` functions return and ``synchronize`` takes."""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Tuple

import torch

from ronde._operation import Operation, Output
from ronde.exceptions import InvalidArgumentError, RondeError
from ronde.torch import _names
from ronde.torch._tensors import TORCH_DTYPES

#: From here on a result is not copied out of the ticket's memory but is that memory. In bytes.
_WRAP_FROM_BYTES = 64 * 1024


class Handle:
    """An operation under way, for ``poll`` and ``synchronize``.

    It keeps the tensors alive. Dropped without ``synchronize``, the operation goes on, its memory stays until it is
    done, and then its name is free again.
    """

    __slots__ = ("_operation", "_outputs", "_copy_back", "_single")

    def __init__(
        self,
        operation: Operation,
        outputs: Optional[List[torch.Tensor]],
        copy_back: List[Tuple[torch.Tensor, torch.Tensor]],
        single: bool,
    ) -> None:
        self._operation: Optional[Operation] = operation
        self._outputs = outputs
        self._copy_back = copy_back
        self._single = single

    @property
    def name(self) -> Optional[str]:
        """The operation's full name; None after ``synchronize``."""
        return self._operation.name if self._operation is not None else None

    def __del__(self) -> None:
        operation = self._operation
        if operation is not None:
            operation.abandon()


def poll(handle: Any) -> bool:
    """Whether the operation has ended, so that ``synchronize`` will not block. Raises ValueError for anything that is
    no handle, or one that was synchronized already."""
    if not isinstance(handle, Handle) or handle._operation is None:
        raise InvalidArgumentError("poll: no operation is under way under this handle", 1)
    return handle._operation.done()


def synchronize(handle: Any) -> Any:
    """Waits for an asynchronous operation and returns its result: a tensor, or a list of them for a grouped operation.

    Other Python threads run meanwhile; Ctrl-C is answered within a tenth of a second. Returns None for anything that is
    no handle, or one that was synchronized already. Raises CollectiveError if the operation has failed on this rank:
    MismatchError, PeerLostError, PeerLeftError, TimedOutError (see :mod:`ronde.exceptions`).
    """
    if not isinstance(handle, Handle):
        return None
    operation = handle._operation
    if operation is None:
        return None
    handle._operation = None  # a failed or interrupted wait gives the operation up by itself
    try:
        operation.wait()
    except RondeError:
        _names.waited_for(operation.name)
        raise
    _names.waited_for(operation.name)
    return finish(operation, handle._outputs, handle._copy_back, handle._single)


def finish(
    operation: Operation,
    outputs: Optional[List[torch.Tensor]],
    copy_back: List[Tuple[torch.Tensor, torch.Tensor]],
    single: bool,
) -> Any:
    """The result of an operation that has succeeded; it needs no further care."""
    if outputs is None:
        return _ticket_tensor(operation)
    operation.release()
    for target, staged in copy_back:
        target.detach().copy_(staged)
    return outputs[0] if single else outputs


class _TicketMemory:
    """Releases the ticket when the last tensor over its memory has gone."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def __del__(self) -> None:
        self._operation.release()


def _ticket_tensor(operation: Operation) -> torch.Tensor:
    """The ticket's first output as a tensor: a copy if small, else over the ticket's own memory."""
    output: Output = operation.output()
    dtype = TORCH_DTYPES[output.dtype]
    count = 1
    for extent in output.shape:
        count *= extent
    n_bytes = count * dtype.itemsize
    if n_bytes < _WRAP_FROM_BYTES:
        tensor = torch.empty(output.shape, dtype=dtype)
        ctypes.memmove(tensor.data_ptr(), output.address, n_bytes)
        operation.release()
        return tensor
    memory = (ctypes.c_char * n_bytes).from_address(output.address)
    # The array owns the ticket, and the tensor the array.
    memory._owner = _TicketMemory(operation)  # type: ignore[attr-defined]
    return torch.frombuffer(memory, dtype=dtype).view(output.shape)
