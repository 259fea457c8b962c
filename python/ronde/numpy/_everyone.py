"""What all ranks do together without an array: barrier and join; memory that they share. Part of :mod:`ronde.numpy`."""

from __future__ import annotations

import ctypes
import math
from typing import Any, Sequence, Union

import numpy as np

from ronde import _abi, _shared_buffer, _operation, _process
from ronde.exceptions import InvalidArgumentError, RondeError, raise_if_the_programs
from ronde.numpy._arrays import Array, code_of
from ronde.process_sets import ProcessSet, global_process_set, group_of


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of ``process_set`` has called it. Raises as :func:`ronde.numpy.allreduce`."""
    group = group_of(process_set)
    _operation.submit(_abi.BARRIER, "barrier.noname", [], None, None, group=group, wait=True).release()


def join(process_set: ProcessSet = global_process_set) -> int:
    """This rank has no more data: returns when every rank has joined, and says which was the last.

    Args:
        process_set: the ranks of which this one has no more data.

    Until then the others go on, and all-reduces are done as if this rank had values that change nothing: zeros in a sum
    or average (which is still over all ranks), ones in a product. Barriers go on without it. What each rank has a part
    in (``allgather``, ``broadcast``, ``alltoall``, ``reducescatter`` and the like) fails on all that call it, with a text
    that names who has joined; they may go on. Call nothing of Ronde meanwhile. Raises as :func:`ronde.numpy.allreduce`.
    """
    group = group_of(process_set)
    operation = _operation.submit(_abi.JOIN, "join.noname", [], None, None, group=group, wait=True)
    last = ctypes.c_int32.from_address(operation.output().address).value
    operation.release()
    return last


def empty_shared(shape: Union[int, Sequence[int]], dtype: Any = np.float64) -> Array:
    """A new array, of zeros, in memory that all ranks of the host share: ``allreduce_`` of it copies nothing where every
    rank has made the same such arrays in the same order. Elsewhere the result is the same and takes longer.

    Args:
        shape: as of ``numpy.empty``.
        dtype: the type of its elements, one that operations take.

    Asks no other rank. The array is yours for good, also after ``shutdown()``, but not in forked children, which must not
    touch it. Where shared memory is refused, because the machine or the container has no room or a rank is lost, it lies
    in ordinary memory. Raises NotInitializedError (a ValueError) before ``init()``, InvalidArgumentError (a ValueError)
    for another dtype.
    """
    _process.size()  # raises before init(), whatever the shape
    kind = np.dtype(dtype)
    if code_of(kind) is None:
        raise InvalidArgumentError(f"empty_shared: Ronde does not calculate with elements of type {kind}", 1)
    extents = (shape,) if isinstance(shape, int) else tuple(shape)
    n_bytes = math.prod(extents) * kind.itemsize
    if n_bytes <= 0:
        return np.zeros(extents, kind)
    try:
        memory = _shared_buffer.allocate("empty_shared", n_bytes)
    except RondeError as error:
        raise_if_the_programs(error)
        return np.zeros(extents, kind)
    return np.frombuffer(memory, np.uint8).view(kind).reshape(extents)
