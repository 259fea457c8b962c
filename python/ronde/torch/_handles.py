"""Handles of asynchronous operations: what ``*_async`` functions return and ``synchronize`` takes."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Callable, Generic, List, Optional, Sequence, Tuple, TypeVar

import torch

from ronde._operation import Operation, Output
from ronde.exceptions import InvalidArgumentError, RondeError
from ronde.torch._tensors import TORCH_DTYPES, fill

#: What an operation makes: a tensor, a list of them, ...
Result = TypeVar("Result", covariant=True)

#: Makes the result of an operation that has succeeded, which needs no further care.
Take = Callable[[Operation], Result]

_MOST_INT32 = (1 << 31) - 1

#: From here on a result is not copied out of the ticket's memory but is that memory. In bytes.
_WRAP_FROM_BYTES = 64 * 1024


class Handle(Generic[Result]):
    """An operation under way, for ``poll`` and ``synchronize``; ``Handle[T]`` is one whose result is a ``T``.

    Made by ``*_async`` functions only. It keeps the tensors alive. Dropped without ``synchronize``, the operation goes
    on, its memory stays until it is done, and then its name is free again.
    """

    __slots__ = ("_operation", "_take")

    def __init__(self, operation: Operation, take: Take[Result]) -> None:
        """``take`` makes the result of the ``operation`` when it has succeeded."""
        self._operation: Optional[Operation] = operation
        self._take = take

    @property
    def name(self) -> Optional[str]:
        """The operation's full name; None after ``synchronize``."""
        return str(self._operation.name) if self._operation is not None else None

    def abandon(self) -> None:
        """Nobody will wait for it: as if it were dropped. Raises nothing."""
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.abandon()

    def ask_to_cancel(self) -> None:
        """Begins what :meth:`cancel` does, and waits for nothing."""
        if self._operation is not None:
            self._operation.ask_to_cancel()

    def cancel(self) -> bool:
        """Unless all ranks have submitted it, it ends on all of them with an error. Returns when it has ended, or after some
        seconds, whether it has ended so; raises nothing."""
        if self._operation is None:
            return False
        self._operation.cancel()
        return self._operation._has_failed()

    def __del__(self) -> None:
        self.abandon()


def poll(handle: Handle[Any]) -> bool:
    """Whether the operation of ``handle`` has ended, so that ``synchronize`` will not block. Never blocks. Raises
    ValueError for anything that is no handle, or one that was synchronized already; ForkedError in a forked child."""
    operation = handle._operation if isinstance(handle, Handle) else None
    if operation is None:
        raise InvalidArgumentError("poll: no operation is under way under this handle", 1)
    return operation.done()


def synchronize(handle: Handle[Result]) -> Result:
    """Waits for an asynchronous operation and returns its result: a tensor, or a list of them for a grouped operation.

    Args:
        handle: of an ``*_async`` function. For anything else, or one that was synchronized already, None is returned.

    Other Python threads run meanwhile; Ctrl-C is answered within a tenth of a second. Raises CollectiveError if the
    operation has failed on this rank: MismatchError, PeerLostError, PeerLeftError, TimedOutError (see
    :mod:`ronde.exceptions`).
    """
    operation = handle._operation if isinstance(handle, Handle) else None
    if operation is None:
        return None  # type: ignore[return-value] # a mistake that Horovod lets pass; the types speak of proper use
    handle._operation = None  # a failed or interrupted wait gives the operation up by itself
    operation.wait()
    return handle._take(operation)


def synchronize_all(handles: Sequence[Handle[Result]]) -> List[Result]:
    """The results of all. If some have failed, raises the first one's error after all have ended, so that all names are
    free again."""
    results: List[Result] = []
    failure: Optional[RondeError] = None
    try:
        for handle in handles:
            try:
                results.append(synchronize(handle))
            except RondeError as error:
                failure = failure or error
        if failure is not None:
            raise failure
    finally:
        failure = None  # its traceback has this frame
        for handle in handles:  # Ctrl-C
            handle.abandon()
    return results


def into(outputs: List[torch.Tensor], copy_back: List[Tuple[torch.Tensor, torch.Tensor]], single: bool) -> Take[Any]:
    """The results are these tensors, after the copies ``(target, staged)``; ``single``: the one, not a list."""

    def take(operation: Operation) -> Any:
        operation.release()
        for target, staged in copy_back:
            fill(target, staged)
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


def nothing(operation: Operation) -> None:
    """There is no result."""
    operation.release()


def source_after(copy_back: List[Tuple[torch.Tensor, torch.Tensor]]) -> Take[int]:
    """The rank that sent, after the copies ``(target, staged)``."""

    def take(operation: Operation) -> int:
        source = operation.source()
        operation.release()
        for target, staged in copy_back:
            fill(target, staged)
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
