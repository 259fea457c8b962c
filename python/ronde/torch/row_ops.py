"""Operations along dimension 0, whose results have other numbers of rows than their inputs: all-gather, all-to-all,
reduce-scatter. Part of :mod:`ronde.torch.mpi_ops`."""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union, overload

import torch

from ronde import _names
from ronde._handle import Handle
from ronde._reduce_ops import reduce_op
from ronde.torch import _autograd
from ronde.torch._arguments import Splits, counts_of, listed, needs_gradient, some
from ronde.torch._start import start_allgather, start_alltoall, start_grouped_allgather, start_reducescatter
from ronde.torch.compression import AnyCompressor, Compression
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

#: What came, and how many rows of it from each rank (int32; int64 beyond).
WithSplits = Tuple[torch.Tensor, torch.Tensor]

# ---- All-gather ----------------------------------------------------------------------------------------------------


def allgather(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> torch.Tensor:
    """Returns the ranks' tensors one after the other along dimension 0, in rank order, as a new tensor.

    Args:
        tensor: dimension 0 may differ between ranks, the others and the type may not; one without dimensions is an
            error.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part; this one must be among them.

    Differentiable: each rank gets its rows of the averaged gradient. Raises as :func:`ronde.torch.allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("allgather", name, group)
    try:
        result: torch.Tensor
        if needs_gradient(tensor):
            result = _autograd.apply(_autograd.Allgather, tensor, full_name)
        else:
            result = start_allgather(tensor, full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def allgather_async(
    tensor: torch.Tensor, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[torch.Tensor]:
    """Begins :func:`allgather`; ``synchronize(handle)`` returns the result. Not differentiable. Raises as
    :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("allgather", name, group)
    try:
        handle: Handle[torch.Tensor] = start_allgather(tensor, full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_allgather(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> List[torch.Tensor]:
    """:func:`allgather` of several ``tensors`` as one operation that succeeds or fails as a whole; returns a list.
    Differentiable. Raises as :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allgather", name, group)
    try:
        tensors = listed(tensors)
        if not tensors:  # no call, as in Horovod
            return []
        if any(needs_gradient(tensor) for tensor in tensors):
            return list(_autograd.apply(_autograd.GroupedAllgather, full_name, *tensors))
        result: List[torch.Tensor] = start_grouped_allgather(tensors, full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_allgather_async(
    tensors: Sequence[torch.Tensor], name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[List[torch.Tensor]]:
    """Begins :func:`grouped_allgather`; ``synchronize(handle)`` returns the list. Not differentiable. Raises as
    :func:`ronde.torch.allreduce`, and ValueError for no tensors."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allgather", name, group)
    try:
        tensors = some(tensors)
        handle: Handle[List[torch.Tensor]] = start_grouped_allgather(tensors, full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- All-to-all ----------------------------------------------------------------------------------------------------


@overload
def alltoall(
    tensor: torch.Tensor, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> torch.Tensor: ...


@overload
def alltoall(
    tensor: torch.Tensor, splits: Splits, name: Optional[str] = None, process_set: ProcessSet = ...
) -> WithSplits: ...


def alltoall(
    tensor: torch.Tensor,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Union[torch.Tensor, WithSplits]:
    """Sends each rank its rows of the tensor, rank 0 the first ones, and returns what all ranks have sent to this one,
    in rank order, as a new tensor.

    Args:
        tensor: dimension 0 may differ between ranks, the others and the type may not.
        splits: how many rows each rank gets, adding up to dimension 0; None: equally many, else ValueError.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part; this one must be among them.

    Returns the tensor; if ``splits`` was given a pair, the second how many rows each rank has sent (int32; int64 if one
    has sent more than 2^31 - 1).
    Differentiable. Raises as :func:`ronde.torch.allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("alltoall", name, group)
    try:
        counts = counts_of(splits)
        if not needs_gradient(tensor):
            result: Union[torch.Tensor, WithSplits] = start_alltoall(tensor, counts, full_name, wait=True)
            return result
        rows, received = _autograd.apply(_autograd.Alltoall, tensor, counts, full_name)
        return rows if splits is None else (rows, received)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


@overload
def alltoall_async(
    tensor: torch.Tensor, splits: None = None, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Handle[torch.Tensor]: ...


@overload
def alltoall_async(
    tensor: torch.Tensor, splits: Splits, name: Optional[str] = None, process_set: ProcessSet = ...
) -> Handle[WithSplits]: ...


def alltoall_async(
    tensor: torch.Tensor,
    splits: Optional[Splits] = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[Any]:
    """Begins :func:`alltoall`; ``synchronize(handle)`` returns the result. Not differentiable. Raises as
    :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("alltoall", name, group)
    try:
        handle: Handle[Any] = start_alltoall(tensor, counts_of(splits), full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- Reduce-scatter ------------------------------------------------------------------------------------------------


def reducescatter(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Reduces a tensor over all ranks and returns this rank's rows of the result, as a new tensor: equally many for
    all, the first ``tensor.shape[0] % size()`` ranks get one more.

    Args:
        tensor: the same shape and type on every rank, of one dimension or more.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        compression: what travels, as of :func:`ronde.torch.allreduce`.
        op: Average (the default), Sum, Min, Max or Product; BitAnd, BitOr, BitXor of integers and bool.
        process_set: the ranks that take part; this one must be among them.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.

    Differentiable. Raises as :func:`ronde.torch.allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("reducescatter", name, group)
    try:
        op = reduce_op(op, None)
        packed, context = compression.compress(tensor)
        if needs_gradient(packed):
            [reduced] = _autograd.apply(
                _autograd.Reducescatter, full_name, op, prescale_factor, postscale_factor, packed
            )
        else:
            reduced = start_reducescatter([packed], full_name, op, prescale_factor, postscale_factor, True, wait=True)
        return compression.decompress(reduced, context)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def reducescatter_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`reducescatter`; ``synchronize(handle)`` returns the result. Not differentiable. Raises as
    :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("reducescatter", name, group)
    try:
        op = reduce_op(op, None)
        handle: Handle[torch.Tensor] = start_reducescatter(
            [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_reducescatter(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> List[torch.Tensor]:
    """:func:`reducescatter` of several ``tensors`` as one operation that succeeds or fails as a whole; returns a list.
    Differentiable. Raises as :func:`ronde.torch.allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_reducescatter", name, group)
    try:
        tensors = listed(tensors)
        if not tensors:  # no call, as in Horovod
            return []
        op = reduce_op(op, None)
        packed = [compression.compress(tensor) for tensor in tensors]
        bare = [tensor for tensor, _ in packed]
        if any(needs_gradient(tensor) for tensor in bare):
            results = _autograd.apply(_autograd.Reducescatter, full_name, op, prescale_factor, postscale_factor, *bare)
        else:
            results = start_reducescatter(bare, full_name, op, prescale_factor, postscale_factor, False, wait=True)
        return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_reducescatter_async(
    tensors: Sequence[torch.Tensor],
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[List[torch.Tensor]]:
    """Begins :func:`grouped_reducescatter`; ``synchronize(handle)`` returns the list. Not differentiable. Raises as
    :func:`ronde.torch.allreduce`, and ValueError for no tensors."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_reducescatter", name, group)
    try:
        op = reduce_op(op, None)
        tensors = some(tensors)
        handle: Handle[List[torch.Tensor]] = start_reducescatter(
            tensors, full_name, op, prescale_factor, postscale_factor, False, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise
