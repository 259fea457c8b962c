"""Operations on plain values, arrays and tensors of whichever backend; what they return are NumPy's."""

from __future__ import annotations

from typing import Any, Optional

import numpy as np

from ronde import numpy as rnp
from ronde._reduce_ops import Average, reduce_op

__all__ = ["allgather", "allreduce", "broadcast", "reducescatter"]


def _array(value: Any) -> Any:
    if hasattr(value, "detach"):  # of PyTorch
        value = value.detach().cpu()
    return np.asarray(value.numpy() if hasattr(value, "numpy") else value)


def allreduce(
    value: Any,
    name: Optional[str] = None,
    average: Optional[bool] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    op: Optional[int] = None,
    compression: Any = None,
) -> Any:
    """Reduces a value over all ranks and returns the result as NumPy's.

    Args:
        value: a number, array or tensor, of the same shape and type on every rank.
        name: by which the ranks meet; None: by the order of unnamed calls.
        average: deprecated; ``op``.
        prescale_factor: each rank's values are multiplied by it before; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        op: Average (the default), Sum, Min, Max, Product, Adasum, BitAnd, BitOr or BitXor.
        compression: accepted for compatibility: a value that is not trained with travels as it is.

    Raises ValueError if the call is wrong, CollectiveError if the work fails.
    """
    del compression
    return rnp.allreduce(_array(value), reduce_op(op, average), name, prescale_factor, postscale_factor)


def allgather(value: Any, name: Optional[str] = None) -> Any:
    """All ranks' values (``value``), one after the other along dimension 0, as NumPy's; ``name`` as in :func:`allreduce`.
    Raises as that does."""
    return rnp.allgather(_array(value), name=name)


def broadcast(value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """Rank ``root_rank``'s ``value`` on every rank, as NumPy's; ``name`` as in :func:`allreduce`. Raises as that does."""
    return rnp.broadcast(_array(value), root_rank, name=name)


def reducescatter(value: Any, name: Optional[str] = None, op: int = Average) -> Any:
    """This rank's share of the rows of the reduced ``value``, as NumPy's; ``name`` and ``op`` as in :func:`allreduce`.
    Raises as that does."""
    return rnp.reducescatter(_array(value), op=op, name=name)
