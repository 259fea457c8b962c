"""Arguments that several operations take: what reduces, what is differentiated."""

from __future__ import annotations

import warnings
from typing import Iterable, List, Optional, Sequence, Union

import torch
from torch.autograd import forward_ad

from ronde import _abi
from ronde.exceptions import InvalidArgumentError

Average: int = _abi.AVERAGE
"""An ``op``: the sum divided by the number of ranks; of integers truncated towards zero."""
Sum: int = _abi.SUM
"""An ``op``: the ranks' values added in rank order; integers wrap, of bool "any"."""
Adasum: int = _abi.ADASUM
"""An ``op`` for gradients in floating point: what they have in common counts once, what differs is added."""
Min: int = _abi.MIN
"""An ``op``: the least value, NaN if there is one; of bool "all"."""
Max: int = _abi.MAX
"""An ``op``: the greatest value, NaN if there is one; of bool "any"."""
Product: int = _abi.PRODUCT
"""An ``op``: the ranks' values multiplied in rank order; of bool "all"."""
BitAnd: int = _abi.BIT_AND
"""An ``op`` of integers, and of bool as truth values."""
BitOr: int = _abi.BIT_OR
"""An ``op`` of integers, and of bool as truth values."""
BitXor: int = _abi.BIT_XOR
"""An ``op`` of integers, and of bool as truth values."""


#: How many rows go to each rank: a tensor of whole numbers with one dimension, or a sequence.
Splits = Union[torch.Tensor, Sequence[int]]


def counts_of(splits: Optional[Splits]) -> Optional[List[int]]:
    """As a list; None stays None."""
    if splits is None:
        return None
    return [int(count) for count in (splits.tolist() if isinstance(splits, torch.Tensor) else splits)]


def reduce_op(op: Optional[int], average: Optional[bool]) -> int:
    """The operation meant by ``op`` and its deprecated forerunner ``average``; Average if both are None. ValueError if
    both are given or ``op`` is no operation."""
    if average is not None:
        if op is not None:
            raise InvalidArgumentError("give either op or its deprecated forerunner average, not both", 1)
        warnings.warn("average= is deprecated: use op=Average or op=Sum", DeprecationWarning, stacklevel=3)
        return Average if average else Sum
    if op is None:
        return Average
    if op not in (Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor):
        raise InvalidArgumentError(
            f"op={op!r} is none of Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor", 1
        )
    return op


def _has_tangent(tensor: torch.Tensor) -> bool:
    return forward_ad.unpack_dual(tensor).tangent is not None  # type: ignore[no-untyped-call] # torch's


def needs_gradient(tensor: torch.Tensor) -> bool:
    """Whether the call is to be differentiated. Plain numbers and lists are not."""
    if not isinstance(tensor, torch.Tensor):
        return False
    # In forward mode too: PyTorch says that it does not go through, where a result without a tangent would say zero.
    if getattr(forward_ad, "_current_level", -1) >= 0 and _has_tangent(tensor):
        return True
    return bool(tensor.requires_grad) and torch.is_grad_enabled()


def listed(tensors: Iterable[torch.Tensor]) -> List[torch.Tensor]:
    """What a grouped operation is given, as a list. InvalidArgumentError for a tensor."""
    if isinstance(tensors, torch.Tensor):
        raise InvalidArgumentError(
            f"a grouped operation takes a list of tensors, not one of shape {tuple(tensors.shape)}: give [tensor]", 1
        )
    return list(tensors)


def some(tensors: Iterable[torch.Tensor]) -> List[torch.Tensor]:
    """The same. InvalidArgumentError for no tensors."""
    made = listed(tensors)
    if not made:
        raise InvalidArgumentError("a grouped operation needs at least one tensor", 1)
    return made
