"""Arithmetic of the bindings' own, under one floating-point state on all ranks, whatever their programs have set."""

from __future__ import annotations

import contextlib
from typing import Iterator

import torch

#: So many elements at a time stay in the calling thread; the threads that PyTorch would share more with have a state of
#: their own.
_PIECE = 16384


def _flushes_denormals() -> bool:
    """Whether the calling thread takes denormal numbers as zeros, see ``torch.set_flush_denormal``."""
    smallest = torch.tensor(5e-324, dtype=torch.float64, device="cpu")
    return bool((smallest * 1.0).view(torch.int64) == 0)


@contextlib.contextmanager
def default_float_state() -> Iterator[None]:
    """Within it the calling thread keeps denormal numbers, as a thread does by default."""
    flushed = _flushes_denormals()
    if flushed:
        torch.set_flush_denormal(False)
    try:
        yield
    finally:
        if flushed:
            torch.set_flush_denormal(True)


def scale_and_divide(values: torch.Tensor, factor: float, divisor: int) -> torch.Tensor:
    """``values * factor / divisor``, of whole numbers truncated to whole ones. It may change the values. Call it within
    :func:`default_float_state`."""
    is_whole = not (values.is_floating_point() or values.is_complex())
    values = values.contiguous()
    flat = values.view(-1)
    for at in range(0, flat.numel(), _PIECE):
        piece = flat[at : at + _PIECE]
        if factor != 1.0:
            piece.copy_(piece * factor)
        if divisor != 1:
            piece.div_(divisor, rounding_mode="trunc" if is_whole else None)
    return values
