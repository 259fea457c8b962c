"""All-reduce of arrays, one by one and in groups. Part of :mod:`ronde.numpy`."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, TypeVar

import numpy as np

from ronde import _abi, _operation
from ronde._handle import Handle
from ronde._names import Name
from ronde._native import extension
from ronde._reduce_ops import reduce_op, scale
from ronde.numpy._arrays import Array, address_of, apart, is_plain, source, target, view_of
from ronde.numpy._calls import call, listed, result, some
from ronde.numpy._results import into
from ronde.process_sets import ProcessSet, global_process_set

_Memory = TypeVar("_Memory")

if extension is not None:
    extension.know_arrays(np.ndarray)


def _start(
    values: Sequence[Any],
    in_place: bool,
    name: Name,
    op: Optional[int],
    prescale: float,
    postscale: float,
    single: bool,
    wait: bool,
) -> Any:
    copy_back = []
    if in_place:
        targets = [target(value, name) for value in values]
        plain = [array if is_plain(array) else array.copy(order="C") for array in targets]
        inputs = outputs = apart(plain)
        results = list(values)
        copy_back = [(array, used) for array, used in zip(targets, inputs) if used is not array]
    else:
        inputs = [source(value, name) for value in values]
        outputs = results = [np.empty(array.shape, array.dtype) for array in inputs]
    operation = _operation.submit(
        _abi.ALLREDUCE,
        name,
        [view_of(array) for array in inputs],
        None if in_place else [address_of(array) for array in outputs],
        (inputs, outputs),
        reduce_op=reduce_op(op, None),
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    return result(operation, into(results, copy_back, single), wait)


def allreduce(
    array: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Reduces an array over all ranks and returns the result, of the same shape and type, as a new array.

    Args:
        array: the same shape and type on every rank: anything with an array's memory, a number or a list of numbers.
        op: Average (the default), Sum, Min, Max or Product; Adasum of floats; BitAnd, BitOr, BitXor of integers and
            bool. Of bool, Sum and Max are "any", Product and Min "all".
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Raises ValueError at once if the call is wrong, the name still in use or ``init()`` not called; CollectiveError if the
    work fails (see :func:`ronde.numpy.synchronize`).
    """
    made: Array = call(
        "allreduce",
        name,
        process_set,
        lambda full: _start([array], False, full, op, prescale_factor, postscale_factor, True, wait=True),
    )
    return made


def allreduce_async(
    array: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Begins :func:`allreduce` and returns at once. The array must not be changed before ``synchronize(handle)``, which
    returns the result. Raises as :func:`allreduce`, CollectiveError in ``synchronize``."""
    handle: Handle[Array] = call(
        "allreduce",
        name,
        process_set,
        lambda full: _start([array], False, full, op, prescale_factor, postscale_factor, True, wait=False),
    )
    return handle


def allreduce_(
    array: _Memory,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Memory:
    """:func:`allreduce` in place: writes the result into the array and returns it.

    The engine works in the array's own memory where it is contiguous; else a copy is reduced and written back. A
    read-only array is refused. Raises as :func:`allreduce`; the array's values are then of no use.
    """
    if extension is not None:  # which makes it of one plain array, as most are; the program calls who calls it
        if extension.allreduce_array(array, name, op, prescale_factor, postscale_factor, process_set, True):
            return array
    made: _Memory = call(
        "allreduce",
        name,
        process_set,
        lambda full: _start([array], True, full, op, prescale_factor, postscale_factor, True, wait=True),
    )
    return made


def allreduce_async_(
    array: _Memory,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[_Memory]:
    """Begins :func:`allreduce_` and returns at once. The array must be neither read nor changed before
    ``synchronize(handle)``, which returns it. Raises as :func:`allreduce`, CollectiveError in ``synchronize``."""
    if extension is not None:
        begun: Optional[Handle[_Memory]] = extension.allreduce_array(
            array, name, op, prescale_factor, postscale_factor, process_set, False
        )
        if begun is not None:
            return begun
    handle: Handle[_Memory] = call(
        "allreduce",
        name,
        process_set,
        lambda full: _start([array], True, full, op, prescale_factor, postscale_factor, True, wait=False),
    )
    return handle


# ---- Grouped all-reduce: one request, all or nothing ---------------------------------------------------------------


def _grouped(
    arrays: Sequence[Any],
    in_place: bool,
    op: Optional[int],
    name: Optional[str],
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    wait: bool,
) -> Any:
    def make(full: Name) -> Any:
        values = listed(arrays) if wait else some(arrays)
        if not values:  # no call, as in Horovod
            return []
        return _start(values, in_place, full, op, prescale, postscale, False, wait)

    return call("grouped_allreduce", name, process_set, make)


def grouped_allreduce(
    arrays: Sequence[Any],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[Array]:
    """:func:`allreduce` of several ``arrays`` as one operation that succeeds or fails as a whole. Returns a list of new
    arrays, in their order: their number, shapes and types must be the same on every rank. Raises as :func:`allreduce`.
    """
    made: List[Array] = _grouped(arrays, False, op, name, prescale_factor, postscale_factor, process_set, wait=True)
    return made


def grouped_allreduce_async(
    arrays: Sequence[Any],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[List[Array]]:
    """Begins :func:`grouped_allreduce`; ``synchronize(handle)`` returns the list. Raises as :func:`allreduce`, and
    ValueError for no arrays."""
    handle: Handle[List[Array]] = _grouped(
        arrays, False, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


def grouped_allreduce_(
    arrays: Sequence[_Memory],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[_Memory]:
    """:func:`grouped_allreduce` in place; returns the ``arrays`` in a list. Raises as :func:`allreduce`."""
    made: List[_Memory] = _grouped(arrays, True, op, name, prescale_factor, postscale_factor, process_set, wait=True)
    return made


def grouped_allreduce_async_(
    arrays: Sequence[_Memory],
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[List[_Memory]]:
    """Begins :func:`grouped_allreduce_`; ``synchronize(handle)`` returns the list. Raises as :func:`allreduce`, and
    ValueError for no arrays."""
    handle: Handle[List[_Memory]] = _grouped(
        arrays, True, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle
