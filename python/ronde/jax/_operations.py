"""The collectives of :mod:`ronde.jax`."""

from __future__ import annotations

from typing import Any, Optional, Sequence, TypeVar

import jax

from ronde import _abi, process_sets
from ronde.exceptions import InvalidArgumentError
from ronde.jax import _scope
from ronde.jax._calls import array_of, counted, leaves_of, reduction, request_of, rows_given
from ronde.jax._gradients import collective
from ronde.process_sets import ProcessSet, global_process_set, group_of

_Tree = TypeVar("_Tree")


def allreduce(
    tree: _Tree,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Tree:
    """Reduces an array, or each array of a pytree by itself, over all ranks.

    Args:
        tree: the same structure, shapes and types on every rank.
        op: Average (the default), Sum, Min, Max or Product; Adasum of floats; BitAnd, BitOr, BitXor of integers and
            bool.
        name: by which the ranks meet; None: in a compiled program by the program and the order of its calls, else by
            the order of unnamed calls.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Differentiable for Average and Sum: the gradient is reduced in the same way. Raises ValueError if the call is wrong;
    CollectiveError if the work fails, in a compiled program ``jax.errors.JaxRuntimeError`` with the same text.
    """
    with counted(name, process_set):
        how = reduction(op, prescale_factor, postscale_factor)
        leaves, structure = leaves_of(tree, "allreduce")
    reduced: list[Any] = []
    for number, leaf in enumerate(leaves):
        named = name if name is None or len(leaves) == 1 else f"{name}.{number}"
        reduced += collective(request_of("allreduce", _abi.ALLREDUCE, named, process_set, **how), leaf)
    result: _Tree = jax.tree_util.tree_unflatten(structure, reduced)
    return result


def grouped_allreduce(
    tree: _Tree,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> _Tree:
    """:func:`allreduce` of all arrays of a pytree (``tree``) as one operation that succeeds or fails as a whole.
    Differentiable. Raises as :func:`allreduce`."""
    with counted(name, process_set):
        how = reduction(op, prescale_factor, postscale_factor)
        leaves, structure = leaves_of(tree, "grouped_allreduce")
    reduced = ()
    if leaves:
        reduced = collective(request_of("grouped_allreduce", _abi.ALLREDUCE, name, process_set, **how), *leaves)
    result: _Tree = jax.tree_util.tree_unflatten(structure, reduced)
    return result


def broadcast(
    array: Any, root_rank: int, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> jax.Array:
    """Returns rank ``root_rank``'s array on every rank.

    Args:
        array: of the same shape and type on every rank; its values count on the root only.
        root_rank: a rank of the job, the same on every rank.
        name: as of :func:`allreduce`.
        process_set: the ranks that take part, the root and this one among them.

    Differentiable: the root gets the average of the gradients, the others zeros. Raises as :func:`allreduce`.
    """
    with counted(name, process_set):
        value = array_of(array, "broadcast")
        request = request_of("broadcast", _abi.BROADCAST, name, process_set, root=root_rank)
    [result] = collective(request, value)
    return result


def allgather(
    array: Any,
    rows: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> jax.Array:
    """Returns the ranks' arrays one after the other along dimension 0, in rank order.

    Args:
        array: the same shape and type on every rank, unless ``rows`` is given; of one dimension or more.
        rows: the rows (dimension 0) of every rank, in rank order, the same on every rank; None: all have as many. Shapes
            must be known when a function is traced, so ranks cannot ask each other then.
        name: as of :func:`allreduce`.
        process_set: the ranks that take part; this one must be among them.

    Differentiable: each rank gets its rows of the averaged gradient. Raises as :func:`allreduce`; ValueError if ``rows``
    does not say as many of this rank.
    """
    with counted(name, process_set):
        value = array_of(array, "allgather", rows=True)
        group = group_of(process_set)
        size, own = process_sets.size_of(group), process_sets.rank_in(group)
        everyones = (value.shape[0],) * size if rows is None else rows_given(rows, group, "rows")
        if everyones[own] != value.shape[0]:
            raise InvalidArgumentError(
                f"'allgather': rows says that this rank has {everyones[own]}, and the array has {value.shape[0]}", 1
            )
        request = request_of(
            "allgather", _abi.ALLGATHER, name, process_set, rows_of_ranks=everyones, rows_out=sum(everyones)
        )
    [result] = collective(request, value)
    return result


def alltoall(
    array: Any,
    splits: Optional[Sequence[int]] = None,
    received_splits: Optional[Sequence[int]] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> jax.Array:
    """Sends each rank its rows of the array, rank 0 the first ones, and returns what all ranks have sent to this one, in
    rank order.

    Args:
        array: dimension 0 may differ between ranks, the others and the type may not.
        splits: how many rows each rank gets, adding up to dimension 0; None: equally many, else ValueError.
        received_splits: how many rows come from each rank; needed with ``splits``, since shapes must be known when a
            function is traced.
        name: as of :func:`allreduce`.
        process_set: the ranks that take part; this one must be among them.

    Differentiable: the gradient goes back the way the rows came. Raises as :func:`allreduce`.
    """
    with counted(name, process_set):
        value = array_of(array, "alltoall", rows=True)
        group = group_of(process_set)
        size, rows = process_sets.size_of(group), value.shape[0]
        if (splits is None) != (received_splits is None):
            raise InvalidArgumentError("'alltoall' takes splits and received_splits together, or neither", 1)
        if splits is None or received_splits is None:
            if rows % size != 0:
                raise InvalidArgumentError(
                    f"'alltoall': {rows} rows cannot be shared equally by {size} ranks: give splits and received_splits", 1
                )
            sent = received = (rows // size,) * size
        else:
            sent, received = rows_given(splits, group, "splits"), rows_given(received_splits, group, "received_splits")
            if sum(sent) != rows:
                raise InvalidArgumentError(f"'alltoall': splits add up to {sum(sent)}, and the array has {rows} rows", 1)
        request = request_of(
            "alltoall", _abi.ALLTOALL, name, process_set, splits=sent, rows_of_ranks=received, rows_out=sum(received)
        )
    [result] = collective(request, value)
    return result


def reducescatter(
    array: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> jax.Array:
    """Reduces an array over all ranks and returns this rank's rows of the result: equally many for all, the first
    ``array.shape[0] % size()`` ranks get one more.

    Args:
        array: the same shape and type on every rank, of one dimension or more.
        op: Average (the default), Sum, Min, Max or Product; BitAnd, BitOr, BitXor of integers and bool.
        name: as of :func:`allreduce`.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Differentiable for Average and Sum: each rank gets all ranks' gradients, those of a sum times the number of ranks, as
    Horovod has it. Raises as :func:`allreduce`.
    """
    with counted(name, process_set):
        how = reduction(op, prescale_factor, postscale_factor)
        value = array_of(array, "reducescatter", rows=True)
        leaves_of(value, "reducescatter")
        group = group_of(process_set)
        size = process_sets.size_of(group)
        each, more = divmod(value.shape[0], size)
        rows = tuple(each + (rank < more) for rank in range(size))
        request = request_of(
            "reducescatter",
            _abi.REDUCESCATTER,
            name,
            process_set,
            rows_of_ranks=rows,
            rows_out=rows[process_sets.rank_in(group)],
            **how,
        )
    [result] = collective(request, value)
    return result


def barrier(tree: Any = None, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> Any:
    """Returns ``tree`` when every rank of ``process_set`` has called it.

    Args:
        tree: in a traced function a pytree of arrays: the barrier comes when they are there, and what uses the returned
            ones comes after it. Else it may be left out.
        name: as of :func:`allreduce`.
        process_set: the ranks that take part; this one must be among them.

    Raises as :func:`allreduce`, and ValueError in a traced function without an array.
    """
    leaves, structure = leaves_of(tree, "barrier")
    if not leaves and _scope.is_staged():
        raise InvalidArgumentError(
            "'barrier' in a traced function takes the arrays that are to be there before it and returns them: what uses "
            "the returned ones comes after it",
            1,
        )
    passed = collective(request_of("barrier", _abi.BARRIER, name, process_set), *leaves)
    return jax.tree_util.tree_unflatten(structure, passed)
