"""What operations make of a request that has succeeded: arrays."""

from __future__ import annotations

import ctypes
import math
from typing import Any, List, Optional, Sequence, Tuple

import numpy as np

from ronde._handle import Take
from ronde._operation import Operation
from ronde.numpy._arrays import Array

#: From here on a result is not copied out of the ticket's memory but is that memory. In bytes.
_WRAP_FROM_BYTES = 64 * 1024

#: ``(target, what the engine has written)``
Copies = Sequence[Tuple[Array, Array]]


def into(results: List[Any], copy_back: Copies, single: bool) -> Take[Any]:
    """The results are these, after the copies; ``single``: the one, not a list."""

    def take(operation: Operation) -> Any:
        operation.release()
        for target, written in copy_back:
            target[...] = written
        return results[0] if single else results

    return take


class _TicketMemory:
    """Releases the ticket when the last array over its memory has gone."""

    def __init__(self, operation: Operation) -> None:
        self._operation = operation

    def __del__(self) -> None:
        self._operation.release()


def made(dtypes: Sequence[Any], single: bool) -> Take[Any]:
    """The ticket's outputs, of these types: small ones as copies, others over the ticket's own memory. ``single``: the
    one, not a list."""

    def take(operation: Operation) -> Any:
        arrays = _ticket_arrays(operation, dtypes)
        return arrays[0] if single else arrays

    return take


def made_with_splits(dtype: Any) -> Take[Tuple[Array, Array]]:
    """The ticket's only output, and how many rows of it came from each rank."""

    def take(operation: Operation) -> Tuple[Array, Array]:
        rows = np.array(operation.received_splits(), dtype=np.int64)
        return _ticket_arrays(operation, [dtype])[0], rows

    return take


def made_at_root(dtype: Any, is_root: bool) -> Take[Optional[Array]]:
    """The ticket's only output on the root, None elsewhere."""

    def take(operation: Operation) -> Optional[Array]:
        if is_root:
            return _ticket_arrays(operation, [dtype])[0]
        operation.release()
        return None

    return take


def source_after(copy_back: Copies) -> Take[int]:
    """The rank that sent, after the copies."""

    def take(operation: Operation) -> int:
        source = operation.source()
        operation.release()
        for target, written in copy_back:
            target[...] = written
        return source

    return take


def _ticket_arrays(operation: Operation, dtypes: Sequence[Any]) -> List[Array]:
    memory: Optional[_TicketMemory] = None
    arrays: List[Array] = []
    for index, dtype in enumerate(dtypes):
        output = operation.output(index)
        n_bytes = math.prod(output.shape) * dtype.itemsize
        if n_bytes < _WRAP_FROM_BYTES:
            array = np.empty(output.shape, dtype)
            ctypes.memmove(array.ctypes.data, output.address, n_bytes)
        else:
            memory = memory or _TicketMemory(operation)
            block = (ctypes.c_uint8 * n_bytes).from_address(output.address)
            # The block owns the ticket, and the array the block.
            block._owner = memory
            array = np.frombuffer(block, np.uint8).view(dtype).reshape(output.shape)
        arrays.append(array)
    if memory is None:
        operation.release()
    return arrays
