"""What travels instead of a tensor: ``hvd.allreduce(tensor, compression=hvd.Compression.bf16)``.

Taken by ``allreduce``, ``grouped_allreduce``, ``reducescatter``, ``grouped_reducescatter`` and
``DistributedOptimizer``. Your own is a subclass of :class:`Compressor`; the class or an object of it may be given.
"""

from __future__ import annotations

from typing import Any, Tuple, Type, Union

import torch

__all__ = ["Compression", "Compressor"]

#: What the two casting compressors make smaller. Types of 16 bits and less would not get smaller, integers and complex
#: numbers would lose what they hold.
_WIDE = (torch.float32, torch.float64)


class Compressor:
    """Base of what may be given as ``compression``: it says what is sent in place of a tensor, and how to go back.

    Both methods are called on each rank by itself, in the thread that calls the operation (for the optimizer also in
    autograd's), and must do the same on every rank: the results of ``compress`` must have the same shape and type
    everywhere. They must be differentiable if gradients are to flow through ``allreduce(..., compression=...)``.
    """

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Returns what is sent for ``tensor``, and a context that ``decompress`` is given on this rank.

        The tensor must not be changed. What is returned may be the tensor itself; in the optimizer it is reduced in
        place. There ``tensor`` is the gradient in the order of its memory, so of a parameter in ``channels_last`` it is
        a permuted view with leading dimensions of 1, as many as tell the order. It must not wait for other ranks. Raises
        NotImplementedError unless a subclass defines it.
        """
        raise NotImplementedError("a Compressor needs a method compress(tensor) -> (tensor, context)")

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the reduced ``tensor`` in the shape and type of what was given to ``compress``, which made ``ctx``.
        Of ``reducescatter`` it has this rank's rows only. Raises NotImplementedError unless a subclass defines it."""
        raise NotImplementedError("a Compressor needs a method decompress(tensor, context) -> tensor")


class NoneCompressor(Compressor):
    """Sends tensors as they are; the context is None."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the tensor itself."""
        return tensor


class _CastCompressor(Compressor):
    """Sends float32 and float64 as a type of 16 bits, everything else as it is. The context is the type to go back to,
    None for what was sent as it is. Sums are made in float32 whatever travels."""

    _sent_as: torch.dtype

    @classmethod
    def compress(cls, tensor: torch.Tensor) -> Tuple[torch.Tensor, Any]:
        """Returns a copy of 16 bits and the tensor's type, or the tensor itself and None."""
        return (tensor.to(cls._sent_as), tensor.dtype) if tensor.dtype in _WIDE else (tensor, None)

    @classmethod
    def decompress(cls, tensor: torch.Tensor, ctx: Any) -> torch.Tensor:
        """Returns the tensor in its first type."""
        return tensor if ctx is None else tensor.to(ctx)


class FP16Compressor(_CastCompressor):
    """Sends float32 and float64 as float16: 11 bits of precision, but what is beyond 65504 becomes infinite."""

    _sent_as = torch.float16


class BF16Compressor(_CastCompressor):
    """Sends float32 and float64 as bfloat16: the range of float32, 8 bits of precision."""

    _sent_as = torch.bfloat16


#: What is given as ``compression``.
AnyCompressor = Union[Type[Compressor], Compressor]


class Compression:
    """The compressors to choose from: ``Compression.none``, ``Compression.fp16`` and ``Compression.bf16``."""

    none: Type[NoneCompressor] = NoneCompressor
    """Tensors travel as they are."""
    fp16: Type[FP16Compressor] = FP16Compressor
    """float32 and float64 travel as float16."""
    bf16: Type[BF16Compressor] = BF16Compressor
    """float32 and float64 travel as bfloat16."""
