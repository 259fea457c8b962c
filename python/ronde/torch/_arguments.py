"""Arguments that several operations take: rows for each rank, what is differentiated."""

from __future__ import annotations

from typing import Iterable, List, Optional, Sequence, Union

import torch
from torch.autograd import forward_ad

from ronde.exceptions import InvalidArgumentError

#: How many rows go to each rank: a tensor of whole numbers with one dimension, or a sequence.
Splits = Union[torch.Tensor, Sequence[int]]


def counts_of(splits: Optional[Splits]) -> Optional[List[int]]:
    """As a list; None stays None."""
    if splits is None:
        return None
    return [int(count) for count in (splits.tolist() if isinstance(splits, torch.Tensor) else splits)]


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
