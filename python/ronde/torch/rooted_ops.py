"""Operations in which one rank, the root, has another part than the others: reduce, gather and scatter.

None of them is differentiable. The root is a rank of the job and the same on every rank.
"""

from __future__ import annotations

from typing import Any, Optional

import torch

from ronde import _process
from ronde.torch import _names
from ronde.torch._arguments import Splits, counts_of, reduce_op
from ronde.torch._handles import Handle
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
    """Reduces a tensor over all ranks as ``allreduce`` does; returns the result, a new tensor, on the root and None
    elsewhere. Shape and type must be the same on every rank."""
    return _reduce(  # type: ignore[no-any-return]
        tensor, False, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=True
    )


def reduce_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Begins :func:`reduce`; ``synchronize(handle)`` returns the result."""
    return _reduce(  # type: ignore[no-any-return]
        tensor, False, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=False
    )


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
    the tensor on every rank."""
    return _reduce(  # type: ignore[no-any-return]
        tensor, True, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=True
    )


def reduce_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Begins :func:`reduce_`; ``synchronize(handle)`` returns the tensor."""
    return _reduce(  # type: ignore[no-any-return]
        tensor, True, root_rank, name, op, process_set, prescale_factor, postscale_factor, wait=False
    )


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
    op = reduce_op(op, None)
    group = group_of(process_set)
    full_name = _names.name_of("reduce", name, group)
    is_root = root_rank == _process.rank()
    target = tensor if in_place else None
    return start_reduce(tensor, target, root_rank, is_root, full_name, op, prescale, postscale, wait)


# ---- Gather and scatter --------------------------------------------------------------------------------------------


def gather(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Optional[torch.Tensor]:
    """Returns, on the root, the ranks' tensors one after the other along dimension 0, in rank order; None elsewhere.
    Dimension 0 may differ between ranks, the others and the type may not; a tensor without dimensions is an error."""
    group = group_of(process_set)
    full_name = _names.name_of("gather", name, group)
    is_root = root_rank == _process.rank()
    return start_gather(tensor, root_rank, is_root, full_name, wait=True)  # type: ignore[no-any-return]


def gather_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`gather`; ``synchronize(handle)`` returns the result."""
    group = group_of(process_set)
    full_name = _names.name_of("gather", name, group)
    is_root = root_rank == _process.rank()
    return start_gather(tensor, root_rank, is_root, full_name, wait=False)  # type: ignore[no-any-return]


def scatter(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Sends each rank its rows of the root's tensor, rank 0 the first ones, and returns this rank's.

    Arguments:
        tensor: on the root what is scattered. Elsewhere any tensor of that type and of those dimensions but the first,
            ``torch.empty(0, ...)`` for instance: it is not read.
        splits: on the root, how many rows each rank gets, adding up to dimension 0; None: equally many, else
            ValueError. Not read elsewhere.
    """
    group = group_of(process_set)
    full_name = _names.name_of("scatter", name, group)
    return start_scatter(tensor, root_rank, counts_of(splits), full_name, wait=True)  # type: ignore[no-any-return]


def scatter_async(
    tensor: torch.Tensor,
    root_rank: int,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`scatter`; ``synchronize(handle)`` returns the result."""
    group = group_of(process_set)
    full_name = _names.name_of("scatter", name, group)
    return start_scatter(tensor, root_rank, counts_of(splits), full_name, wait=False)  # type: ignore[no-any-return]
