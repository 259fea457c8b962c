"""Operations along dimension 0, whose results have other numbers of rows than their inputs: all-gather, all-to-all,
reduce-scatter. Part of :mod:`ronde.torch.mpi_ops`."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import torch

from ronde.torch import _autograd, _names
from ronde.torch._arguments import needs_gradient, reduce_op, require_some
from ronde.torch._handles import Handle
from ronde.torch._start import start_allgather, start_alltoall, start_grouped_allgather, start_reducescatter
from ronde.torch.compression import Compression
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

#: How many rows go to each rank: a tensor of whole numbers with one dimension, or a sequence.
Splits = Union[torch.Tensor, Sequence[int]]

# ---- All-gather ----------------------------------------------------------------------------------------------------


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the ranks' tensors one after the other along dimension 0, in rank order. Dimension 0 may differ between
    ranks, the others and the type may not; a tensor without dimensions is an error. Differentiable."""
    group = group_of(process_set)
    full_name = _names.name_of("allgather", name, group)
    if needs_gradient(tensor):
        return _autograd.apply(_autograd.Allgather, tensor, full_name)  # type: ignore[no-any-return]
    return start_allgather(tensor, full_name, wait=True)  # type: ignore[no-any-return]


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Begins :func:`allgather`; ``synchronize(handle)`` returns the result. Not differentiable."""
    group = group_of(process_set)
    return start_allgather(tensor, _names.name_of("allgather", name, group), wait=False)  # type: ignore[no-any-return]


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """:func:`allgather` of several tensors as one operation that succeeds or fails as a whole; returns a list.
    Differentiable."""
    group = group_of(process_set)
    if not tensors:
        return []
    full_name = _names.name_of("grouped_allgather", name, group)
    if any(needs_gradient(tensor) for tensor in tensors):
        return list(_autograd.apply(_autograd.GroupedAllgather, full_name, *tensors))
    return start_grouped_allgather(tensors, full_name, wait=True)  # type: ignore[no-any-return]


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle:
    """Begins :func:`grouped_allgather`; ``synchronize(handle)`` returns the list. ValueError for no tensors."""
    group = group_of(process_set)
    require_some(tensors)
    full_name = _names.name_of("grouped_allgather", name, group)
    return start_grouped_allgather(tensors, full_name, wait=False)  # type: ignore[no-any-return]


# ---- All-to-all ----------------------------------------------------------------------------------------------------


def alltoall(
    tensor: torch.Tensor,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[torch.Tensor, Tuple[torch.Tensor, torch.Tensor]]:
    """Sends each rank its rows of the tensor, rank 0 the first ones, and returns what all ranks have sent to this one,
    in rank order.

    Arguments:
        tensor: dimension 0 may differ between ranks, the others and the type may not.
        splits: how many rows each rank gets, adding up to dimension 0; None: equally many, else ValueError.

    Returns the tensor; if ``splits`` was given a pair, the second how many rows each rank has sent (int32).
    Differentiable.
    """
    group = group_of(process_set)
    counts = _counts(splits)
    full_name = _names.name_of("alltoall", name, group)
    if not needs_gradient(tensor):
        return start_alltoall(tensor, counts, full_name, wait=True)  # type: ignore[no-any-return]
    result, received = _autograd.apply(_autograd.Alltoall, tensor, counts, full_name)
    return result if splits is None else (result, received)


def alltoall_async(
    tensor: torch.Tensor,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`alltoall`; ``synchronize(handle)`` returns the result. Not differentiable."""
    group = group_of(process_set)
    full_name = _names.name_of("alltoall", name, group)
    return start_alltoall(tensor, _counts(splits), full_name, wait=False)  # type: ignore[no-any-return]


def _counts(splits: Optional[Splits]) -> Optional[List[int]]:
    if splits is None:
        return None
    return [int(count) for count in (splits.tolist() if isinstance(splits, torch.Tensor) else splits)]


# ---- Reduce-scatter ------------------------------------------------------------------------------------------------


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces a tensor over all ranks and returns this rank's rows of the result: equally many for all, the first
    ``tensor.shape[0] % size()`` ranks get one more. Shape and type must be the same on every rank. Differentiable."""
    packed, context = compression.compress(tensor)
    op = reduce_op(op, None)
    group = group_of(process_set)
    full_name = _names.name_of("reducescatter", name, group)
    if needs_gradient(packed):
        [result] = _autograd.apply(
            _autograd.Reducescatter, full_name, op, prescale_factor, postscale_factor, packed
        )
    else:
        result = start_reducescatter([packed], full_name, op, prescale_factor, postscale_factor, True, wait=True)
    return compression.decompress(result, context)  # type: ignore[no-any-return]


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Begins :func:`reducescatter`; ``synchronize(handle)`` returns the result. Not differentiable."""
    op = reduce_op(op, None)
    group = group_of(process_set)
    full_name = _names.name_of("reducescatter", name, group)
    return start_reducescatter(  # type: ignore[no-any-return]
        [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=False
    )


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """:func:`reducescatter` of several tensors as one operation that succeeds or fails as a whole; returns a list.
    Differentiable."""
    op = reduce_op(op, None)
    group = group_of(process_set)
    if not tensors:
        return []
    full_name = _names.name_of("grouped_reducescatter", name, group)
    packed = [compression.compress(tensor) for tensor in tensors]
    bare = [tensor for tensor, _ in packed]
    if any(needs_gradient(tensor) for tensor in bare):
        results = _autograd.apply(_autograd.Reducescatter, full_name, op, prescale_factor, postscale_factor, *bare)
    else:
        results = start_reducescatter(bare, full_name, op, prescale_factor, postscale_factor, False, wait=True)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle:
    """Begins :func:`grouped_reducescatter`; ``synchronize(handle)`` returns the list. ValueError for no tensors."""
    op = reduce_op(op, None)
    group = group_of(process_set)
    require_some(tensors)
    full_name = _names.name_of("grouped_reducescatter", name, group)
    return start_reducescatter(  # type: ignore[no-any-return]
        tensors, full_name, op, prescale_factor, postscale_factor, False, wait=False
    )
