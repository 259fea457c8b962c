"""What ``torch.distributed`` calls a reduction, as the engine's, with the factor that comes first."""

from __future__ import annotations

from typing import Any, Dict, Tuple

import torch.distributed as dist

from ronde import _abi
from ronde.exceptions import InvalidArgumentError

#: Those that are said by a word alone.
SIMPLE: Dict[Any, int] = {
    dist.ReduceOp.SUM: _abi.SUM,
    dist.ReduceOp.AVG: _abi.AVERAGE,
    dist.ReduceOp.PRODUCT: _abi.PRODUCT,
    dist.ReduceOp.MIN: _abi.MIN,
    dist.ReduceOp.MAX: _abi.MAX,
    dist.ReduceOp.BAND: _abi.BIT_AND,
    dist.ReduceOp.BOR: _abi.BIT_OR,
    dist.ReduceOp.BXOR: _abi.BIT_XOR,
}


def reduction_of(op: Any) -> Tuple[int, float]:
    """The code of a ``ReduceOp``, or of the constant that stands for it, and the factor for each value as it is read.
    InvalidArgumentError (a ValueError) for what the engine does not do."""
    kind = getattr(op, "op", op)
    code = SIMPLE.get(kind)
    if code is not None:
        return code, 1.0
    if kind == dist.ReduceOp.PREMUL_SUM:
        _, factor = op.__getstate__()
        factor = float(factor)  # a number, or a tensor of one element: PyTorch has made sure
        if factor == 0:
            raise InvalidArgumentError("PREMUL_SUM with the factor 0: the result would be zeros", 1)
        return _abi.SUM, factor
    raise InvalidArgumentError(
        f"the backend ronde does not know the reduction {kind}; it has SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR "
        "and PREMUL_SUM",
        1,
    )
