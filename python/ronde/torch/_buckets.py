"""Shared buffers as tensors."""

from __future__ import annotations

import math
import mmap
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Tuple

import torch

from ronde import _shared_buffer, _process
from ronde._operation import View
from ronde.exceptions import RondeError, raise_if_the_programs
from ronde.torch._tensors import DTYPE_CODES, as_sent, check, gradient_type, memory_order, view_of

__all__ = ["Home", "can_have_home", "empty_shared", "homes_for"]

#: Where each tensor in a bucket begins: at a multiple of that, so that no two share a line of the cache. In bytes.
_ALIGNMENT = 128

#: A bucket ends before it would grow beyond that, unless a single tensor does. In bytes.
_BUCKET_BYTES = 64 * 1024 * 1024


class Home(NamedTuple):
    """A place in a bucket for the gradient of a tensor, laid out in memory as the tensor itself."""

    tensor: torch.Tensor
    address: int
    shape: torch.Size
    stride: Tuple[int, ...]
    dtype: torch.dtype
    sent: View  # the same memory as it travels


def can_have_home(tensor: torch.Tensor) -> bool:
    """Whether a bucket can hold its like: dense, in host memory, and no more than an ordinary tensor or parameter."""
    return (
        type(tensor) in (torch.nn.Parameter, torch.Tensor)
        and tensor.layout is torch.strided
        and tensor.is_cpu
        and gradient_type(tensor) in DTYPE_CODES
        and tensor.numel() > 0
        and (tensor.is_contiguous() or memory_order(tensor) is not None)
    )


def _home_in(memory: Any, offset: int, like: torch.Tensor) -> Home:
    dtype = gradient_type(like)
    with torch.inference_mode(False), torch.no_grad():
        # A storage for each, and no view of the whole bucket: torch.save() of one must not write all of them.
        flat = torch.frombuffer(memory, dtype=dtype, offset=offset, count=like.numel())
        tensor = torch.empty(0, dtype=dtype, device="cpu")
        tensor.set_(flat.untyped_storage(), 0, like.shape, like.stride())
        sent = view_of(as_sent(tensor, memory_order(tensor)))
    return Home(tensor, tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, sent)


def _n_bytes(tensor: torch.Tensor) -> int:
    """Of a place for it, with what fills it up."""
    n_bytes = tensor.numel() * gradient_type(tensor).itemsize
    return (n_bytes + _ALIGNMENT - 1) // _ALIGNMENT * _ALIGNMENT


def _buckets_of(tensors: Sequence[torch.Tensor]) -> Iterator[List[int]]:
    """Indices of what shares a bucket: tensors with gradients of one type, in their order."""
    types = [gradient_type(tensor) for tensor in tensors]
    for dtype in dict.fromkeys(types):
        bucket: List[int] = []
        total = 0
        for index, tensor in enumerate(tensors):
            if types[index] is not dtype:
                continue
            if bucket and total + _n_bytes(tensor) > _BUCKET_BYTES:
                yield bucket
                bucket, total = [], 0
            bucket.append(index)
            total += _n_bytes(tensor)
        yield bucket


def homes_for(
    tensors: Sequence[torch.Tensor], name: str, refused: Callable[[RondeError], None]
) -> Iterator[Tuple[int, Home]]:
    """A zeroed place for the gradient of each of the tensors, with its index. Requires: :func:`can_have_home`.

    Ranks that ask for the same tensors in the same order get the same layout. Once memory is refused, for whatever
    reason, ``refused`` is told and the rest gets no place. The memory goes with the last tensor in it.
    """
    for number, bucket in enumerate(_buckets_of(tensors)):
        try:
            memory = _shared_buffer.allocate(f"{name}.{number}", sum(_n_bytes(tensors[index]) for index in bucket))
        except RondeError as error:
            raise_if_the_programs(error)
            refused(error)
            return
        offset = 0
        for index in bucket:
            yield index, _home_in(memory, offset, tensors[index])
            offset += _n_bytes(tensors[index])


def _private_zeros(shape: Sequence[int], n_bytes: int, dtype: torch.dtype) -> torch.Tensor:
    """Whose pages are made as they are used: where there is no room, asking for memory must not end the process."""
    memory = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return torch.frombuffer(memory, dtype=dtype, count=math.prod(shape)).view(tuple(shape))


def empty_shared(*size: Any, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """A new tensor, of zeros, in memory that all ranks of the host share: ``allreduce_`` of it copies nothing where
    every rank has made the same such tensors in the same order. Elsewhere the result is the same and takes longer.

    Args:
        size: as in ``torch.empty``: numbers, or one sequence of them.
        dtype: the type of its elements, one that operations take.

    Asks no other rank. The tensor is yours for good, also after ``shutdown()``, but not in forked children, which must
    not touch it. Where shared memory is refused, because the machine or the container has no room or a rank is lost, it
    lies in ordinary memory. Raises NotInitializedError (a ValueError) before ``init()``, InvalidArgumentError (a
    ValueError) for another dtype.
    """
    shape = tuple(size[0]) if len(size) == 1 and not isinstance(size[0], int) else size
    _process.size()  # raises before init(), whatever the size
    like = torch.empty(shape, dtype=dtype, device="meta")
    check(torch.empty(0, dtype=dtype, device="cpu"), "empty_shared")
    if like.numel() == 0:
        return torch.zeros(shape, dtype=dtype, device="cpu")
    try:
        memory = _shared_buffer.allocate("empty_shared", _n_bytes(like))
    except RondeError as error:
        raise_if_the_programs(error)
        return _private_zeros(shape, _n_bytes(like), dtype)
    return _home_in(memory, 0, like).tensor
