"""Prefix reductions over the ranks, in their order (``MPI_Scan`` and ``MPI_Exscan`` of the MPI standard). Part of
:mod:`ronde.numpy`."""

from __future__ import annotations

from typing import Any, Optional, TypeVar

import numpy as np

from ronde import _abi, _operation
from ronde._handle import Handle
from ronde._names import Name
from ronde._reduce_ops import reduce_op, scale
from ronde.numpy._arrays import Array, address_of, is_plain, source, target, view_of
from ronde.numpy._calls import call, result
from ronde.numpy._results import into
from ronde.process_sets import ProcessSet, global_process_set

_Memory = TypeVar("_Memory")


def _scan(
    which: int,
    value: Any,
    in_place: bool,
    op: int,
    name: Optional[str],
    prescale: float,
    postscale: float,
    process_set: ProcessSet,
    wait: bool,
) -> Any:
    def make(full: Name) -> Any:
        copy_back = []
        if in_place:
            given = target(value, full)
            array = output = given if is_plain(given) else given.copy(order="C")
            copy_back = [] if array is given else [(given, array)]
            made_of = value
        else:
            array = source(value, full)
            output = made_of = np.empty(array.shape, array.dtype)
        operation = _operation.submit(
            which,
            full,
            [view_of(array)],
            [address_of(output)],
            (array, output),
            reduce_op=reduce_op(op, None),
            prescale=scale(prescale, "prescale_factor"),
            postscale=scale(postscale, "postscale_factor"),
            wait=wait,
        )
        return result(operation, into([made_of], copy_back, True), wait)

    return call("scan" if which == _abi.SCAN else "exscan", name, process_set, make)


def scan(
    array: Any,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Returns the reduction of the arrays of all ranks up to and including this one, as a new array.

    A rank's result has the bits that an all-reduce of these ranks would give.

    Args:
        array: the same shape and type on every rank.
        op: Sum (the default), Min, Max or Product; BitAnd, BitOr, BitXor of integers and bool.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part, this one among them; their order is that of their numbers in it.

    Raises as :func:`ronde.numpy.allreduce`.
    """
    made: Array = _scan(
        _abi.SCAN, array, False, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return made


def scan_async(
    array: Any,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Begins :func:`scan`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Array] = _scan(
        _abi.SCAN, array, False, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


def scan_(
    array: _Memory,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Memory:
    """:func:`scan` in place; returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    made: _Memory = _scan(
        _abi.SCAN, array, True, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return made


def scan_async_(
    array: _Memory,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[_Memory]:
    """Begins :func:`scan_`; ``synchronize(handle)`` returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[_Memory] = _scan(
        _abi.SCAN, array, True, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


def exscan(
    array: Any,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Array:
    """Returns the reduction of the arrays of the ranks before this one, as a new array. The first rank gets the neutral
    value of the reduction: 0 for ``Sum``, 1 for ``Product``, the type's smallest value for ``Max``, its largest for ``Min``.
    Arguments as of :func:`scan`. Raises as :func:`ronde.numpy.allreduce`."""
    made: Array = _scan(
        _abi.EXSCAN, array, False, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return made


def exscan_async(
    array: Any,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[Array]:
    """Begins :func:`exscan`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[Array] = _scan(
        _abi.EXSCAN, array, False, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle


def exscan_(
    array: _Memory,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Memory:
    """:func:`exscan` in place; returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    made: _Memory = _scan(
        _abi.EXSCAN, array, True, op, name, prescale_factor, postscale_factor, process_set, wait=True
    )
    return made


def exscan_async_(
    array: _Memory,
    op: int = _abi.SUM,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[_Memory]:
    """Begins :func:`exscan_`; ``synchronize(handle)`` returns the array. Raises as :func:`ronde.numpy.allreduce`."""
    handle: Handle[_Memory] = _scan(
        _abi.EXSCAN, array, True, op, name, prescale_factor, postscale_factor, process_set, wait=False
    )
    return handle
