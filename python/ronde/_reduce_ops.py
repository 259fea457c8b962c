"""What reduces: the values of ``op``. Shared by all frameworks."""

from __future__ import annotations

import warnings
from typing import Optional

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


def scale(factor: float, which: str) -> float:
    """The factor called ``which`` as a number; ValueError for 0."""
    # The C interface takes 0 for "not given".
    if factor == 0:
        raise InvalidArgumentError(f"{which} is 0: the result would be zeros whatever the ranks have", 1)
    return float(factor)
