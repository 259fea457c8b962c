"""What travels instead of a gradient. A compressor has ``compress(tensor) -> (tensor, context)`` and
``decompress(tensor, context) -> tensor``; own ones may be given wherever these are."""

from __future__ import annotations

from typing import Optional, Tuple, Type

import torch


class NoneCompressor:
    """Sends tensors as they are."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        """Returns the tensor itself."""
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Optional[torch.dtype]) -> torch.Tensor:
        """Returns the tensor itself."""
        return tensor


class FP16Compressor:
    """Sends floating-point tensors as float16; others as they are. Sums are still made in float32."""

    @staticmethod
    def compress(tensor: torch.Tensor) -> Tuple[torch.Tensor, Optional[torch.dtype]]:
        """Returns a float16 copy and the type to go back to."""
        if tensor.dtype.is_floating_point and tensor.dtype != torch.float16:
            return tensor.to(torch.float16), tensor.dtype
        return tensor, None

    @staticmethod
    def decompress(tensor: torch.Tensor, context: Optional[torch.dtype]) -> torch.Tensor:
        """Returns the tensor in its first type."""
        return tensor if context is None else tensor.to(context)


class Compression:
    """The compressors to choose from: ``Compression.none`` and ``Compression.fp16``."""

    none: Type[NoneCompressor] = NoneCompressor
    fp16: Type[FP16Compressor] = FP16Compressor
