"""Operations along dimension 0, whose results have other numbers of rows than their inputs: all-gather, all-to-all,
reduce-scatter. Part of :mod:`ronde.numpy`."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union, overload

from ronde import _abi, _operation
from ronde._handle import Handle
from ronde._names import Name
from ronde._reduce_ops import reduce_op, scale
from ronde.numpy._arrays import Array, source, view_of
from ronde.numpy._calls import Splits, call, counts_of, listed, result, some
from ronde.numpy._results import made, made_with_splits
from ronde.process_sets import ProcessSet, global_process_set

#: What came, and how many rows of it from each rank (int64).
WithSplits = Tuple[Array, Array]

# ---- All-gather ----------------------------------------------------------------------------------------------------


def _start_allgather(values: Sequence[Any], name: Name, single: bool, wait: bool) -> Any:
    inputs = [source(value, name) for value in values]
    operation = _operation.submit(_abi.ALLGATHER, name, [view_of(array) for array in inputs], None, inputs, wait=wait)
    return result(operation, made([array.dtype for array in inputs], single), wait)


def allgather(array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Array:
    """Returns the ranks' arrays one after the other along dimension 0, in rank order, as a new array.

    Args:
        array: dimension 0 may differ between ranks, the others and the type may not; one without dimensions is an error.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part; this one must be among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    gathered: Array = call("allgather", name, process_set, lambda full: _start_allgather([array], full, True, wait=True))
    return gathered


def allgather_async(
    array: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[Array]:
    """Begins :func:`allgather`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Array] = call(
        "allgather", name, process_set, lambda full: _start_allgather([array], full, True, wait=False)
    )
    return handle


def grouped_allgather(
    arrays: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[Array]:
    """:func:`allgather` of several ``arrays`` as one operation that succeeds or fails as a whole; returns a list. Raises
    as :func:`ronde.numpy.allreduce`."""

    def make(full: Name) -> List[Array]:
        values = listed(arrays)
        gathered: List[Array] = _start_allgather(values, full, False, wait=True) if values else []
        return gathered

    return call("grouped_allgather", name, process_set, make)


def grouped_allgather_async(
    arrays: Sequence[Any], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[List[Array]]:
    """Begins :func:`grouped_allgather`; ``synchronize(handle)`` returns the list. Raises as
    :func:`ronde.numpy.allreduce`, and ValueError for no arrays."""
    handle: Handle[List[Array]] = call(
        "grouped_allgather", name, process_set, lambda full: _start_allgather(some(arrays), full, False, wait=False)
    )
    return handle


# ---- All-to-all ----------------------------------------------------------------------------------------------------


def _start_alltoall(value: Any, splits: Optional[Splits], name: Name, wait: bool) -> Any:
    array = source(value, name)
    counts = counts_of(splits)
    operation = _operation.submit(_abi.ALLTOALL, name, [view_of(array)], None, array, splits=counts, wait=wait)
    take = made([array.dtype], True) if counts is None else made_with_splits(array.dtype)
    return result(operation, take, wait)


@overload
def alltoall(
    array: Any, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Array: ...


@overload
def alltoall(
    array: Any, splits: Splits, name: Optional[str] = None, process_set: ProcessSet = ...
) -> WithSplits: ...


def alltoall(
    array: Any,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[Array, WithSplits]:
    """Sends each rank its rows of the array, rank 0 the first ones, and returns what all ranks have sent to this one, in
    rank order, as a new array.

    Args:
        array: dimension 0 may differ between ranks, the others and the type may not.
        splits: how many rows each rank gets, adding up to dimension 0; None: equally many, else ValueError.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part; this one must be among them.

    Returns the array; if ``splits`` was given a pair, the second how many rows each rank has sent (int64). Raises as
    :func:`ronde.numpy.allreduce`.
    """
    received: Union[Array, WithSplits] = call(
        "alltoall", name, process_set, lambda full: _start_alltoall(array, splits, full, wait=True)
    )
    return received


@overload
def alltoall_async(
    array: Any, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Handle[Array]: ...


@overload
def alltoall_async(
    array: Any, splits: Splits, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Handle[WithSplits]: ...


def alltoall_async(
    array: Any,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """Begins :func:`alltoall`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Any] = call(
        "alltoall", name, process_set, lambda full: _start_alltoall(array, splits, full, wait=False)
    )
    return handle


# ---- Reduce-scatter ------------------------------------------------------------------------------------------------


def _start_reducescatter(
    values: Sequence[Any], name: Name, op: Optional[int], prescale: float, postscale: float, single: bool, wait: bool
) -> Any:
    inputs = [source(value, name) for value in values]
    operation = _operation.submit(
        _abi.REDUCESCATTER,
        name,
        [view_of(array) for array in inputs],
        None,
        inputs,
        reduce_op=reduce_op(op, None),
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    return result(operation, made([array.dtype for array in inputs], single), wait)


def reducescatter(
    array: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Reduces an array over all ranks and returns this rank's rows of the result, as a new array: equally many for all,
    the first ``array.shape[0] % size()`` ranks get one more.

    Args:
        array: the same shape and type on every rank, of one dimension or more.
        op: Average (the default), Sum, Min, Max or Product; BitAnd, BitOr, BitXor of integers and bool.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    rows: Array = call(
        "reducescatter",
        name,
        process_set,
        lambda full: _start_reducescatter([array], full, op, prescale_factor, postscale_factor, True, wait=True),
    )
    return rows


def reducescatter_async(
    array: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Begins :func:`reducescatter`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`.
    """
    handle: Handle[Array] = call(
        "reducescatter",
        name,
        process_set,
        lambda full: _start_reducescatter([array], full, op, prescale_factor, postscale_factor, True, wait=False),
    )
    return handle


def grouped_reducescatter(
    arrays: Sequence[Any],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[Array]:
    """:func:`reducescatter` of several ``arrays`` as one operation that succeeds or fails as a whole; returns a list.
    Raises as :func:`ronde.numpy.allreduce`."""

    def make(full: Name) -> List[Array]:
        values = listed(arrays)
        if not values:  # no call, as in Horovod
            return []
        rows: List[Array] = _start_reducescatter(values, full, op, prescale_factor, postscale_factor, False, wait=True)
        return rows

    return call("grouped_reducescatter", name, process_set, make)


def grouped_reducescatter_async(
    arrays: Sequence[Any],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[List[Array]]:
    """Begins :func:`grouped_reducescatter`; ``synchronize(handle)`` returns the list. Raises as
    :func:`ronde.numpy.allreduce`, and ValueError for no arrays."""
    handle: Handle[List[Array]] = call(
        "grouped_reducescatter",
        name,
        process_set,
        lambda full: _start_reducescatter(some(arrays), full, op, prescale_factor, postscale_factor, False, wait=False),
    )
    return handle
