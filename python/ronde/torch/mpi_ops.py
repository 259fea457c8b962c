"""Collective operations on PyTorch tensors. Module and function names are Horovod's, so that scripts find them."""

from __future__ import annotations

import ctypes
from typing import Any, List, Optional, Sequence

import torch

from ronde import _abi, _operation
from ronde.torch import _autograd, _names
from ronde.torch._arguments import (
    Adasum,
    Average,
    BitAnd,
    BitOr,
    BitXor,
    Max,
    Min,
    Product,
    Sum,
    needs_gradient,
    reduce_op,
    require_some,
)
from ronde.torch._handles import Handle, poll, synchronize
from ronde.torch._start import scale, start_allreduce, start_broadcast
from ronde.torch._tensors import from_plain
from ronde.torch.compression import Compression
from ronde.torch.pair_ops import recv, recv_async, send, send_async
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of
from ronde.torch.rooted_ops import (
    gather,
    gather_async,
    reduce,
    reduce_,
    reduce_async,
    reduce_async_,
    scatter,
    scatter_async,
)
from ronde.torch.row_ops import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from ronde.torch.sparse_ops import sparse_allreduce_async, start_sparse_allreduce

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allgather_async",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "gather",
    "gather_async",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "join",
    "poll",
    "recv",
    "recv_async",
    "reduce",
    "reduce_",
    "reduce_async",
    "reduce_async_",
    "reducescatter",
    "reducescatter_async",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "sparse_allreduce_async",
    "synchronize",
]

# ---- All-reduce ----------------------------------------------------------------------------------------------------


def allreduce(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces a tensor over all ranks and returns the result, of the same shape and type, as a new tensor.

    Arguments:
        tensor: the same shape and type on every rank. One on an accelerator is copied through host memory. A sparse one
            is reduced as by :func:`sparse_allreduce_async`.
        average: deprecated; ``op``.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        compression: what travels: ``Compression.none``, ``.fp16``, ``.bf16`` or a ``Compressor`` of your own.
        op: Average (the default), Sum, Min, Max or Product; Adasum of floats; BitAnd, BitOr, BitXor of integers and
            bool. Of bool, Sum and Max are "any", Product and Min "all".
        prescale_factor, postscale_factor: applied to each rank's values before, to the result after the reduction.

    Differentiable unless sparse: the gradient is reduced in the same way. Raises ValueError at once if the call is
    wrong, CollectiveError if the work fails (see ``synchronize``).
    """
    op = reduce_op(op, average)
    group = group_of(process_set)
    if isinstance(tensor, torch.Tensor) and tensor.is_sparse:
        factor = scale(prescale_factor, "prescale_factor") * scale(postscale_factor, "postscale_factor")
        return start_sparse_allreduce(tensor, name, op, group, compression, factor)()
    full_name = _names.name_of("allreduce", name, group)
    packed, context = compression.compress(from_plain(tensor))
    if needs_gradient(packed):
        result = _autograd.apply(_autograd.Allreduce, packed, full_name, op, prescale_factor, postscale_factor)
    else:
        result = start_allreduce([packed], None, full_name, op, prescale_factor, postscale_factor, True, wait=True)
    return compression.decompress(result, context)  # type: ignore[no-any-return]


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`allreduce` and returns at once. The tensor must not be changed before ``synchronize(handle)``,
    which returns the result. Not differentiable."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    return start_allreduce(  # type: ignore[no-any-return]
        [tensor], None, full_name, op, prescale_factor, postscale_factor, True, wait=False
    )


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`allreduce` in place: writes the result into the tensor and returns it. Not differentiable."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    return start_allreduce(  # type: ignore[no-any-return]
        [tensor], [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=True
    )


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`allreduce_` and returns at once. The tensor must be neither read nor changed before
    ``synchronize(handle)``, which returns it."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    return start_allreduce(  # type: ignore[no-any-return]
        [tensor], [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=False
    )


# ---- Grouped all-reduce: one request, all or nothing ---------------------------------------------------------------


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: Any = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`allreduce` of several tensors as one operation that succeeds or fails as a whole. Returns a list of new
    tensors. Their number, shapes and types must be the same on every rank. Differentiable."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    if not tensors:
        return []
    full_name = _names.name_of("grouped_allreduce", name, group)
    packed = [compression.compress(tensor) for tensor in tensors]
    bare = [tensor for tensor, _ in packed]
    if any(needs_gradient(tensor) for tensor in bare):
        results = _autograd.apply(_autograd.GroupedAllreduce, full_name, op, prescale_factor, postscale_factor, *bare)
    else:
        results = start_allreduce(bare, None, full_name, op, prescale_factor, postscale_factor, False, wait=True)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`grouped_allreduce`; ``synchronize(handle)`` returns the list. ValueError for no tensors."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    require_some(tensors)
    full_name = _names.name_of("grouped_allreduce", name, group)
    return start_allreduce(  # type: ignore[no-any-return]
        tensors, None, full_name, op, prescale_factor, postscale_factor, False, wait=False
    )


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`grouped_allreduce` in place; returns the tensors in a list."""
    if not tensors:
        return []
    handle = grouped_allreduce_async_(tensors, average, name, op, prescale_factor, postscale_factor, process_set)
    return synchronize(handle)  # type: ignore[no-any-return]


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`grouped_allreduce_`; ``synchronize(handle)`` returns the list. ValueError for no tensors."""
    op = reduce_op(op, average)
    group = group_of(process_set)
    require_some(tensors)
    full_name = _names.name_of("grouped_allreduce", name, group)
    return start_allreduce(  # type: ignore[no-any-return]
        tensors, tensors, full_name, op, prescale_factor, postscale_factor, False, wait=False
    )


# ---- Broadcast -----------------------------------------------------------------------------------------------------


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns rank ``root_rank``'s tensor on every rank, as a new tensor. Shape and type must be the same on every
    rank. Differentiable: the root gets the average of the gradients, the others zeros."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    if needs_gradient(tensor):
        return _autograd.apply(_autograd.Broadcast, tensor, root_rank, full_name)  # type: ignore[no-any-return]
    return start_broadcast(tensor, None, root_rank, full_name, wait=True)  # type: ignore[no-any-return]


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`broadcast`; ``synchronize(handle)`` returns the result. Not differentiable."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    return start_broadcast(tensor, None, root_rank, full_name, wait=False)  # type: ignore[no-any-return]


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`broadcast` in place: writes the root's values into the tensor and returns it."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    return start_broadcast(tensor, tensor, root_rank, full_name, wait=True)  # type: ignore[no-any-return]


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle:
    """Begins :func:`broadcast_`; ``synchronize(handle)`` returns the tensor."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    return start_broadcast(tensor, tensor, root_rank, full_name, wait=False)  # type: ignore[no-any-return]


# ---- Barrier and join -------------------------------------------------------------------------------------------------------


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of the set has called it."""
    group = group_of(process_set)
    _operation.submit(_abi.BARRIER, "barrier.noname", [], None, None, group=group, wait=True).release()
    _names.restart(group)


def join(device: int = -1, process_set: ProcessSet = global_process_set) -> int:
    """This rank has no more data: returns when every rank has joined, and says which was the last.

    Until then the others go on, and operations are done as if this rank had values that change nothing: zeros in a sum
    or average (which is still over all ranks), ones in a product, no rows in ``allgather``. A broadcast from a rank that
    has joined fails on the others. Call nothing of Ronde meanwhile. ``device`` is accepted for compatibility.
    """
    group = group_of(process_set)
    operation = _operation.submit(_abi.JOIN, "join.noname", [], None, None, group=group, wait=True)
    last = ctypes.c_int32.from_address(operation.output().address).value
    operation.release()
    _names.restart(group)
    return last
