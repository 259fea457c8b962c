"""Operations in which one rank, the root, has another part than the others: reduce, gather and scatter.

None of them is differentiable. The root is a rank of the job and the same on every rank.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from ronde import _names, _process
from ronde._handle import Handle
from ronde._reduce_ops import reduce_op
from ronde.torch._arguments import Splits, counts_of
from ronde.torch._start import start_gather, start_reduce, start_scatter
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

__all__ = [
    "gather",
    "gather_async",
    "reduce",
    "reduce_",
    "reduce_async",
    "reduce_async_",
    "scatter",
    "scatter_async",
]

# ---- Reduce --------------------------------------------------------------------------------------------------------


def reduce(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Optional[torch.Tensor]:
    """Reduces a tensor over all ranks; returns the result, a new tensor of the same shape and type, on the root and
    None elsewhere.

    Args:
        tensor: the same shape and type on every rank.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        op: as of :func:`ronde.torch.allreduce`.
        process_set: the ranks that take part, the root and this one among them.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.

    Raises as :func:`ronde.torch.allreduce`.
    """
    result: Optional[torch.Tensor] = _reduce(
        tensor, False, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=True
    )
    return result


def reduce_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[Optional[torch.Tensor]]:
    """Begins :func:`reduce`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[Optional[torch.Tensor]] = _reduce(
        tensor, False, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=False
    )
    return handle


def reduce_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """:func:`reduce` in place: writes the result into the root's tensor, leaves the others' as they are, and returns
    the tensor on every rank. Raises as :func:`ronde.torch.allreduce`."""
    result: torch.Tensor = _reduce(
        tensor, True, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=True
    )
    return result


def reduce_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`reduce_`; ``synchronize(handle)`` returns the tensor. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[torch.Tensor] = _reduce(
        tensor, True, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=False
    )
    return handle


def _reduce(
    tensor: torch.Tensor,
    in_place: bool,
    root_rank: int,
    name: Optional[str],
    op: Optional[int],
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
    wait: bool,
) -> Any:
    group = group_of(process_set)
    full_name = _names.name_of("reduce", name, group)
    try:
        op = reduce_op(op, None)
        is_root = root_rank == _process.rank()
        target = tensor if in_place else None
        return start_reduce(tensor, target, root_rank, is_root, full_name, op, prescale, postscale, wait)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- Gather and scatter --------------------------------------------------------------------------------------------


def gather(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Optional[torch.Tensor]:
    """Returns, on the root, the ranks' tensors one after the other along dimension 0, in rank order; None elsewhere.

    Args:
        tensor: dimension 0 may differ between ranks, the others and the type may not; one without dimensions is an
            error.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.torch.allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("gather", name, group)
    try:
        is_root = root_rank == _process.rank()
        result: Optional[torch.Tensor] = start_gather(tensor, root_rank, is_root, full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def gather_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Optional[torch.Tensor]]:
    """Begins :func:`gather`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("gather", name, group)
    try:
        is_root = root_rank == _process.rank()
        handle: Handle[Optional[torch.Tensor]] = start_gather(tensor, root_rank, is_root, full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def scatter(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Sends each rank its rows of the root's tensor, rank 0 the first ones, and returns this rank's, as a new tensor.

    Args:
        tensor: on the root what is scattered. Elsewhere any tensor of that type and of those dimensions but the first,
            ``torch.empty(0, ...)`` for instance: it is not read.
        root_rank: a rank of the job, the same on every rank.
        splits: on the root, how many rows each rank gets, adding up to dimension 0; None: equally many, else
            ValueError. Not read elsewhere.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Raises as :func:`ronde.torch.allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("scatter", name, group)
    try:
        result: torch.Tensor = start_scatter(tensor, root_rank, counts_of(splits), full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def scatter_async(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Begins :func:`scatter`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("scatter", name, group)
    try:
        handle: Handle[torch.Tensor] = start_scatter(tensor, root_rank, counts_of(splits), full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise
