"""Collective operations on PyTorch tensors. Module and function names are Horovod's, so that scripts find them."""

from __future__ import annotations

import ctypes
from typing import List, Optional, Sequence

import torch

from ronde import _abi, _names, _operation
from ronde._handle import Handle, poll, synchronize
from ronde._reduce_ops import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum, reduce_op, scale
from ronde.torch import _autograd
from ronde.torch._arguments import listed, needs_gradient, some
from ronde.torch._generations import agree_after_join
from ronde.torch._start import allreduce_in_c, start_allreduce, start_broadcast
from ronde.torch._tensors import from_plain
from ronde.torch.compression import AnyCompressor, Compression
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
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Reduces a tensor over all ranks and returns the result, of the same shape and type, as a new tensor.

    Args:
        tensor: the same shape and type on every rank. One on an accelerator is copied through host memory. A sparse one
            is reduced as by :func:`sparse_allreduce_async`. A number or a list of numbers is made a tensor.
        average: deprecated; ``op``.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        compression: what travels: ``Compression.none``, ``.fp16``, ``.bf16`` or a ``Compressor`` of your own.
        op: Average (the default), Sum, Min, Max or Product; Adasum of floats; BitAnd, BitOr, BitXor of integers and
            bool. Of bool, Sum and Max are "any", Product and Min "all".
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Differentiable unless sparse: the gradient is reduced in the same way. Raises ValueError at once if the call is
    wrong, the name still in use or ``init()`` not called; CollectiveError if the work fails (see :func:`synchronize`).
    """
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    try:
        op = reduce_op(op, average)
        if isinstance(tensor, torch.Tensor) and tensor.is_sparse:
            factor = scale(prescale_factor, "prescale_factor") * scale(postscale_factor, "postscale_factor")
            base = full_name if name is None else name
            total: torch.Tensor = start_sparse_allreduce(tensor, base, op, group, compression, factor)()
            return total
        packed, context = compression.compress(from_plain(tensor))
        if needs_gradient(packed):
            reduced = _autograd.apply(_autograd.Allreduce, packed, full_name, op, prescale_factor, postscale_factor)
        else:
            reduced = start_allreduce([packed], None, full_name, op, prescale_factor, postscale_factor, True, wait=True)
        return compression.decompress(reduced, context)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def allreduce_async(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Begins :func:`allreduce` and returns at once. The tensor must not be changed before ``synchronize(handle)``,
    which returns the result. Not differentiable. Raises as :func:`allreduce`, CollectiveError in ``synchronize``."""
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    try:
        op = reduce_op(op, average)
        handle: Handle[torch.Tensor] = start_allreduce(
            [tensor], None, full_name, op, prescale_factor, postscale_factor, True, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def allreduce_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`allreduce` in place: writes the result into the tensor and returns it. Not differentiable. Raises as
    :func:`allreduce`; the tensor's values are then of no use."""
    if allreduce_in_c is not None and average is None:
        if allreduce_in_c(tensor, name, op, prescale_factor, postscale_factor, process_set, True):
            return tensor
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    try:
        op = reduce_op(op, average)
        result: torch.Tensor = start_allreduce(
            [tensor], [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=True
        )
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def allreduce_async_(
    tensor: torch.Tensor,
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Begins :func:`allreduce_` and returns at once. The tensor must be neither read nor changed before
    ``synchronize(handle)``, which returns it. Raises as :func:`allreduce`, CollectiveError in ``synchronize``."""
    if allreduce_in_c is not None and average is None:
        begun: Optional[Handle[torch.Tensor]] = allreduce_in_c(
            tensor, name, op, prescale_factor, postscale_factor, process_set, False
        )
        if begun is not None:
            return begun
    group = group_of(process_set)
    full_name = _names.name_of("allreduce", name, group)
    try:
        op = reduce_op(op, average)
        handle: Handle[torch.Tensor] = start_allreduce(
            [tensor], [tensor], full_name, op, prescale_factor, postscale_factor, True, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- Grouped all-reduce: one request, all or nothing ---------------------------------------------------------------


def grouped_allreduce(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`allreduce` of several tensors as one operation that succeeds or fails as a whole. Returns a list of new
    tensors, in the order of ``tensors``: their number, shapes and types must be the same on every rank. Differentiable.
    Raises as :func:`allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allreduce", name, group)
    try:
        tensors = listed(tensors)
        if not tensors:  # no call, as in Horovod
            return []
        op = reduce_op(op, average)
        packed = [compression.compress(tensor) for tensor in tensors]
        bare = [tensor for tensor, _ in packed]
        if any(needs_gradient(tensor) for tensor in bare):
            results = _autograd.apply(
                _autograd.GroupedAllreduce, full_name, op, prescale_factor, postscale_factor, *bare
            )
        else:
            results = start_allreduce(bare, None, full_name, op, prescale_factor, postscale_factor, False, wait=True)
        return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_allreduce_async(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[List[torch.Tensor]]:
    """Begins :func:`grouped_allreduce`; ``synchronize(handle)`` returns the list. Not differentiable. Raises as
    :func:`allreduce`, and ValueError for no tensors."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allreduce", name, group)
    try:
        op = reduce_op(op, average)
        tensors = some(tensors)
        handle: Handle[List[torch.Tensor]] = start_allreduce(
            tensors, None, full_name, op, prescale_factor, postscale_factor, False, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_allreduce_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> List[torch.Tensor]:
    """:func:`grouped_allreduce` in place; returns the tensors in a list. Not differentiable. Raises as
    :func:`allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allreduce", name, group)
    try:
        op = reduce_op(op, average)
        tensors = listed(tensors)
        if not tensors:  # no call, as in Horovod
            return []
        results: List[torch.Tensor] = start_allreduce(
            tensors, tensors, full_name, op, prescale_factor, postscale_factor, False, wait=True
        )
        return results
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def grouped_allreduce_async_(
    tensors: Sequence[torch.Tensor],
    average: Optional[bool] = None,
    name: Optional[str] = None,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Handle[List[torch.Tensor]]:
    """Begins :func:`grouped_allreduce_`; ``synchronize(handle)`` returns the list. Raises as :func:`allreduce`, and
    ValueError for no tensors."""
    group = group_of(process_set)
    full_name = _names.name_of("grouped_allreduce", name, group)
    try:
        op = reduce_op(op, average)
        tensors = some(tensors)
        handle: Handle[List[torch.Tensor]] = start_allreduce(
            tensors, tensors, full_name, op, prescale_factor, postscale_factor, False, wait=False
        )
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- Broadcast -----------------------------------------------------------------------------------------------------


def broadcast(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """Returns rank ``root_rank``'s tensor on every rank, as a new tensor.

    Args:
        tensor: of the same shape and type on every rank; its values count on the root only.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        process_set: the ranks that take part, the root and this one among them.

    Differentiable: the root gets the average of the gradients, the others zeros. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    try:
        result: torch.Tensor
        if needs_gradient(tensor):
            result = _autograd.apply(_autograd.Broadcast, tensor, root_rank, full_name)
        else:
            result = start_broadcast(tensor, None, root_rank, full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def broadcast_async(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Begins :func:`broadcast`; ``synchronize(handle)`` returns the result. Not differentiable. Raises as
    :func:`allreduce`, CollectiveError in ``synchronize``."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    try:
        handle: Handle[torch.Tensor] = start_broadcast(tensor, None, root_rank, full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def broadcast_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> torch.Tensor:
    """:func:`broadcast` in place: writes the root's values into the tensor and returns it. Not differentiable. Raises
    as :func:`allreduce`."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    try:
        result: torch.Tensor = start_broadcast(tensor, tensor, root_rank, full_name, wait=True)
        return result
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def broadcast_async_(
    tensor: torch.Tensor,
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[torch.Tensor]:
    """Begins :func:`broadcast_`; ``synchronize(handle)`` returns the tensor. Raises as :func:`allreduce`,
    CollectiveError in ``synchronize``."""
    group = group_of(process_set)
    full_name = _names.name_of("broadcast", name, group)
    try:
        handle: Handle[torch.Tensor] = start_broadcast(tensor, tensor, root_rank, full_name, wait=False)
        return handle
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


# ---- Barrier and join -------------------------------------------------------------------------------------------------------


def barrier(process_set: ProcessSet = global_process_set) -> None:
    """Returns when every rank of ``process_set`` has called it. Raises as :func:`allreduce`."""
    group = group_of(process_set)
    _operation.submit(_abi.BARRIER, "barrier.noname", [], None, None, group=group, wait=True).release()


def join(device: int = -1, process_set: ProcessSet = global_process_set) -> int:
    """This rank has no more data: returns when every rank has joined, and says which was the last.

    Args:
        device: accepted for compatibility.
        process_set: the ranks of which this one has no more data.

    Until then the others go on, and all-reduces are done as if this rank had values that change nothing: zeros in a sum
    or average (which is still over all ranks), ones in a product. Barriers go on without it. What each rank has a part
    in (``allgather``, ``broadcast``, ``alltoall``, ``reducescatter``, sparse all-reduce and the like) fails on all that
    call it, with a text that names who has joined; they may go on. Call nothing of Ronde meanwhile. Raises as
    :func:`allreduce`.
    """
    group = group_of(process_set)
    operation = _operation.submit(_abi.JOIN, "join.noname", [], None, None, group=group, wait=True)
    last = ctypes.c_int32.from_address(operation.output().address).value
    operation.release()
    agree_after_join(group)
    return last
