"""What a rank contributes for a parameter that it has no gradient of, and what is told by it.

Zeros, so that the others' sum stays what it is. But an optimizer must not take zeros for a gradient of what is frozen
on all ranks: it would decay the weights, or go on with a momentum. Whether it is frozen on *all* no rank knows by itself, and
where only some freeze it, all must step alike. So the zeros of a rank that has it frozen are negative, and those of a
rank that has it trainable positive: a sum of negative zeros is negative, and any positive one among them makes it
positive (IEEE 754, 6.3). It costs nothing, and averages, scales and 16 bit types keep it. Where it cannot be told (another
operation, a compressor of the program's own) the zeros are a gradient, on all ranks alike, as they are for Horovod. What it
cannot tell apart is a gradient that is negative zeros in every element, or becomes so in 16 bits.
"""

from __future__ import annotations

import torch

from ronde import _abi
from ronde.torch.compression import AnyCompressor, Compression


def can_be_told(op: int, compression: AnyCompressor) -> bool:
    """Whether the sign of a zero survives this reduction."""
    return op in (_abi.AVERAGE, _abi.SUM) and compression in (Compression.none, Compression.fp16, Compression.bf16)


def fill_with_nothing(gradient: torch.Tensor, is_frozen: bool) -> None:
    """What this rank contributes in place of the gradient that it does not have. ``is_frozen``: and says so."""
    gradient = gradient.detach()
    plain = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    plain.fill_(-0.0 if is_frozen else 0.0)


def is_nothing(gradient: torch.Tensor) -> bool:
    """Whether a reduced gradient tells that every rank has the parameter frozen, and no gradient of it."""
    gradient = gradient.detach()
    plain = torch.view_as_real(gradient) if gradient.is_complex() else gradient
    return not bool(plain.any()) and bool(plain.signbit().all())
