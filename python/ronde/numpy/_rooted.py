"""Operations in which one rank, the root, has another part than the others: broadcast, reduce, gather and scatter. The
root is a rank of the job and the same on every rank. Part of :mod:`ronde.numpy`."""

from __future__ import annotations

from typing import Any, Optional, TypeVar

import numpy as np

from ronde import _abi, _operation, _process
from ronde._handle import Handle
from ronde._names import Name
from ronde._reduce_ops import reduce_op, scale
from ronde.numpy._arrays import Array, address_of, is_plain, source, target, view_of
from ronde.numpy._calls import Splits, call, counts_of, result
from ronde.numpy._results import into, made, made_at_root
from ronde.process_sets import ProcessSet, global_process_set

_Memory = TypeVar("_Memory")

# ---- Broadcast -----------------------------------------------------------------------------------------------------


def _start_broadcast(value: Any, in_place: bool, root_rank: int, name: Name, wait: bool) -> Any:
    if in_place:
        given = target(value, name)
        array = output = given if is_plain(given) else given.copy(order="C")
        copy_back = [] if array is given else [(given, array)]
        made_of = value
    else:
        array = source(value, name)
        output = made_of = np.empty(array.shape, array.dtype)
        copy_back = []
    operation = _operation.submit(
        _abi.BROADCAST, name, [view_of(array)], [address_of(output)], (array, output), root=root_rank, wait=wait
    )
    return result(operation, into([made_of], copy_back, True), wait)


def broadcast(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Array:
    """Returns rank ``root_rank``'s array on every rank, as a new array.

    Args:
        array: of the same shape and type on every rank; its values count on the root only.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    sent: Array = call(
        "broadcast", name, process_set, lambda full: _start_broadcast(array, False, root_rank, full, wait=True)
    )
    return sent


def broadcast_async(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """Begins :func:`broadcast`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Array] = call(
        "broadcast", name, process_set, lambda full: _start_broadcast(array, False, root_rank, full, wait=False)
    )
    return handle


def broadcast_(
    array: _Memory, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> _Memory:
    """:func:`broadcast` in place: writes the root's values into the array and returns it. Raises as
    :func:`ronde.numpy.allreduce`."""
    sent: _Memory = call(
        "broadcast", name, process_set, lambda full: _start_broadcast(array, True, root_rank, full, wait=True)
    )
    return sent


def broadcast_async_(
    array: _Memory, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[_Memory]:
    """Begins :func:`broadcast_`; ``synchronize(handle)`` returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[_Memory] = call(
        "broadcast", name, process_set, lambda full: _start_broadcast(array, True, root_rank, full, wait=False)
    )
    return handle


# ---- Reduce --------------------------------------------------------------------------------------------------------


def _reduce(
    value: Any,
    in_place: bool,
    root_rank: int,
    op: Optional[int],
    name: Optional[str],
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    wait: bool,
) -> Any:
    def make(full: Name) -> Any:
        is_root = root_rank == _process.rank()
        copy_back = []
        if in_place:
            given = target(value, full)
            array = output = given if is_plain(given) else given.copy(order="C")
            copy_back = [(given, array)] if is_root and array is not given else []
            made_of = value
        else:
            array = source(value, full)
            output = np.empty(array.shape, array.dtype) if is_root else array
            made_of = output if is_root else None
        operation = _operation.submit(
            _abi.REDUCE,
            full,
            [view_of(array)],
            [address_of(output)],
            (array, output),
            reduce_op=reduce_op(op, None),
            root=root_rank,
            prescale=scale(prescale, "prescale_factor"),
            postscale=scale(postscale, "postscale_factor"),
            wait=wait,
        )
        return result(operation, into([made_of], copy_back, True), wait)

    return call("reduce", name, process_set, make)


def reduce(
    array: Any,
    root_rank: int,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Optional[Array]:
    """Reduces an array over all ranks; returns the result, a new array of the same shape and type, on the root and None
    elsewhere.

    Args:
        array: the same shape and type on every rank.
        root_rank: a rank of the job, the same on every rank.
        op: as of :func:`ronde.numpy.allreduce`.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    reduced: Optional[Array] = _reduce(
        array, False, root_rank, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return reduced


def reduce_async(
    array: Any,
    root_rank: int,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Optional[Array]]:
    """Begins :func:`reduce`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Optional[Array]] = _reduce(
        array, False, root_rank, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


def reduce_(
    array: _Memory,
    root_rank: int,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Memory:
    """:func:`reduce` in place: writes the result into the root's array, leaves the others' as they are, and returns the
    array on every rank. Raises as :func:`ronde.numpy.allreduce`."""
    reduced: _Memory = _reduce(
        array, True, root_rank, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return reduced


def reduce_async_(
    array: _Memory,
    root_rank: int,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[_Memory]:
    """Begins :func:`reduce_`; ``synchronize(handle)`` returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[_Memory] = _reduce(
        array, True, root_rank, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


# ---- Gather and scatter --------------------------------------------------------------------------------------------


def _start_gather(value: Any, root_rank: int, name: Name, wait: bool) -> Any:
    array = source(value, name)
    operation = _operation.submit(_abi.GATHER, name, [view_of(array)], None, array, root=root_rank, wait=wait)
    return result(operation, made_at_root(array.dtype, root_rank == _process.rank()), wait)


def gather(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Optional[Array]:
    """Returns, on the root, the ranks' arrays one after the other along dimension 0, in rank order; None elsewhere.

    Args:
        array: dimension 0 may differ between ranks, the others and the type may not; one without dimensions is an error.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    gathered: Optional[Array] = call(
        "gather", name, process_set, lambda full: _start_gather(array, root_rank, full, wait=True)
    )
    return gathered


def gather_async(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[Optional[Array]]:
    """Begins :func:`gather`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Optional[Array]] = call(
        "gather", name, process_set, lambda full: _start_gather(array, root_rank, full, wait=False)
    )
    return handle


def _start_scatter(value: Any, root_rank: int, splits: Optional[Splits], name: Name, wait: bool) -> Any:
    array = source(value, name)
    operation = _operation.submit(
        _abi.SCATTER, name, [view_of(array)], None, array, root=root_rank, splits=counts_of(splits), wait=wait
    )
    return result(operation, made([array.dtype], True), wait)


def scatter(
    array: Any,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Sends each rank its rows of the root's array, rank 0 the first ones, and returns this rank's, as a new array.

    Args:
        array: on the root what is scattered. Elsewhere any array of that type and of those dimensions but the first,
            ``numpy.empty((0, ...))`` for instance: it is not read.
        root_rank: a rank of the job, the same on every rank.
        splits: on the root, how many rows each rank gets, adding up to dimension 0; None: equally many, else
            ValueError. Not read elsewhere.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    rows: Array = call(
        "scatter", name, process_set, lambda full: _start_scatter(array, root_rank, splits, full, wait=True)
    )
    return rows


def scatter_async(
    array: Any,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Begins :func:`scatter`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Array] = call(
        "scatter", name, process_set, lambda full: _start_scatter(array, root_rank, splits, full, wait=False)
    )
    return handle
