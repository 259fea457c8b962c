"""What travels instead of a gradient, on any backend of Keras: ``compression=hvd.Compression.bf16``."""

from __future__ import annotations

from typing import Any, Tuple, Type

import keras

__all__ = ["Compression", "Compressor"]

#: What the two casting compressors make smaller.
_WIDE = ("float32", "float64")


class Compressor:
    """Base of what may be given as ``compression``: it says what is sent in place of a tensor, and how to go back. Both
    methods must do the same on every rank."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns what is sent for ``tensor``, and a context that ``decompress`` is given on this rank. Raises
        NotImplementedError unless a subclass defines it."""
        raise NotImplementedError("a Compressor needs a method compress(tensor) -> (tensor, context)")

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the reduced ``tensor`` in the shape and type of what was given to ``compress``, which made ``ctx``.
        Raises NotImplementedError unless a subclass defines it."""
        raise NotImplementedError("a Compressor needs a method decompress(tensor, context) -> tensor")


class NoneCompressor(Compressor):
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: Any) -> Tuple[Any, Any]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: Any, ctx: Any) -> Any:
        """Returns the tensor itself."""
        return tensor


class _CastCompressor(Compressor):
    """Sends float32 and float64 as a type of 16 bits, everything else as it is. Sums are made in float32."""

    _sent_as: str

    @classmethod
    def compress(cls, tensor: Any) -> Tuple[Any, Any]:
        """Returns a copy of 16 bits and the tensor's type, or the tensor itself and None."""
        dtype = keras.backend.standardize_dtype(tensor.dtype)
        return (keras.ops.cast(tensor, cls._sent_as), dtype) if dtype in _WIDE else (tensor, None)

    @classmethod
    def decompress(cls, tensor: Any, ctx: Any) -> Any:
        """Returns the tensor in its first type."""
        return tensor if ctx is None else keras.ops.cast(tensor, ctx)


class FP16Compressor(_CastCompressor):
    """Sends float32 and float64 as float16: 11 bits of precision, but what is beyond 65504 becomes infinite."""

    _sent_as = "float16"


class BF16Compressor(_CastCompressor):
    """Sends float32 and float64 as bfloat16: the range of float32, 8 bits of precision."""

    _sent_as = "bfloat16"


class Compression:
    """The compressors to choose from: ``Compression.none``, ``Compression.fp16`` and ``Compression.bf16``."""

    none: Type[NoneCompressor] = NoneCompressor
    """Tensors travel as they are."""
    fp16: Type[FP16Compressor] = FP16Compressor
    """float32 and float64 travel as float16."""
    bf16: Type[BF16Compressor] = BF16Compressor
    """float32 and float64 travel as bfloat16."""
