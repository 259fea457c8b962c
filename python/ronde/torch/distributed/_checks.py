"""What the tensors of a call must be, as Gloo has it. Each function raises InvalidArgumentError (a ValueError) before
anything is communicated; ``kind`` is what the call is named in the text."""

from __future__ import annotations

import math
from typing import Any, List, Sequence

import torch

from ronde.exceptions import InvalidArgumentError


def require_parts(kind: str, which: str, parts: Sequence[Any], size: int, what: str = "tensors") -> None:
    """A list for a group of ``size`` ranks has an element for each."""
    if len(parts) != size:
        raise InvalidArgumentError(
            f"{kind}: the list of {which} has {len(parts)} {what}; expected one for each of the {size} ranks", 1
        )


def require_pairs(kind: str, outputs: Sequence[Any], inputs: Sequence[Any]) -> None:
    """Several operations in one have an output for each input."""
    if len(outputs) != len(inputs):
        raise InvalidArgumentError(
            f"{kind}: there are {len(outputs)} outputs and {len(inputs)} inputs; expected one output for each input", 1
        )


def require_type(kind: str, which: str, tensor: torch.Tensor, dtype: torch.dtype) -> None:
    """The call's tensors are of one type: nothing is converted on the way."""
    if tensor.dtype is not dtype:
        raise InvalidArgumentError(
            f"{kind}: the {which} of shape {tuple(tensor.shape)} is of type {tensor.dtype}; expected {dtype}, as the "
            "other tensors of the call are",
            1,
        )


def require_like(kind: str, which: str, tensor: torch.Tensor, elements: int, dtype: torch.dtype) -> None:
    """The same, and it has so many elements."""
    require_type(kind, which, tensor, dtype)
    if tensor.numel() != elements:
        raise InvalidArgumentError(
            f"{kind}: the {which} of shape {tuple(tensor.shape)} has {tensor.numel()} elements; expected {elements}", 1
        )


def elements_by_rank(which: str, tensor: torch.Tensor, rows_by_rank: Sequence[int], size: int) -> List[int]:
    """How many elements of an all-to-all's input or output are each rank's. ``rows_by_rank``: along dimension 0; empty:
    equally many."""
    rows = tensor.shape[0] if tensor.dim() else 1
    row = math.prod(tensor.shape[1:])
    if rows_by_rank:
        if len(rows_by_rank) != size or sum(rows_by_rank) != rows:
            raise InvalidArgumentError(
                f"alltoall: {which}_split_sizes is {list(rows_by_rank)}; expected {size} numbers that add up to the "
                f"{rows} rows of the {which}",
                1,
            )
        return [int(count) * row for count in rows_by_rank]
    if rows % size:
        raise InvalidArgumentError(
            f"alltoall: the {rows} rows of the {which} do not divide by the {size} ranks; give {which}_split_sizes", 1
        )
    return [rows // size * row] * size
