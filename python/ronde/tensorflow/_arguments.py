"""Arguments that several operations take: what reduces, which tensors, by which name."""

from __future__ import annotations

import contextlib
import re
import warnings
from typing import Any, Iterable, Iterator, List, Optional

import tensorflow as tf

from ronde import _abi, _calls
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

_OPS = (Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor)

#: What Ronde moves; also what operations.cc of bindings/tensorflow tells TensorFlow.
_TYPES = frozenset({
    tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.bool,
    tf.complex64, tf.complex128,
})


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
    if op not in _OPS:
        raise InvalidArgumentError(
            f"op={op!r} is none of Average, Sum, Adasum, Min, Max, Product, BitAnd, BitOr, BitXor", 1
        )
    return op


def scale(factor: float, which: str) -> float:
    """The factor as the engine takes it, for which 0 means that there is none."""
    if factor == 0:
        raise InvalidArgumentError(f"{which} is 0: the result would be zeros whatever the ranks have", 1)
    return float(factor)


#: What Ronde moves under the name of another type of as many bits; it does not reduce them.
_MOVED_AS = {tf.uint32: tf.int32, tf.uint64: tf.int64}


def moved_as(tensor: Any) -> Any:
    """The tensor, or its bits in a type that Ronde knows: for what is moved and not reduced."""
    dtype = _MOVED_AS.get(tensor.dtype.base_dtype)
    return tensor if dtype is None else tf.bitcast(tensor, dtype)


def moved_back(tensor: Any, dtype: Any) -> Any:
    """The reverse, to the first type."""
    return tensor if tensor.dtype == dtype else tf.bitcast(tensor, dtype)


def tensor_of(value: Any, what: str) -> Any:
    """A tensor of a type that Ronde moves, of whatever TensorFlow can make one of."""
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype.base_dtype not in _TYPES:
        raise InvalidArgumentError(
            f"{what} got a tensor of {tensor.dtype.name}, which Ronde does not move: cast it to one of "
            f"{', '.join(sorted(each.name for each in _TYPES))}",
            1,
        )
    return tensor


def listed(tensors: Iterable[Any]) -> List[Any]:
    """What a grouped operation is given, as a list. InvalidArgumentError for a tensor."""
    if tf.is_tensor(tensors) or isinstance(tensors, tf.Variable):
        raise InvalidArgumentError("a grouped operation takes a list of tensors, not one tensor: give [tensor]", 1)
    return list(tensors)


def name_of(kind: str, name: Optional[str], ignore_name_scope: bool, tensor: Any) -> str:
    """By which the ranks meet.

    In a graph each operation has a name of its own, made of what the program says and the scope that it is in, else of
    the tensor's name: a session runs operations in any order. In eager mode "" without a name: such calls meet by their
    order.
    """
    if tf.executing_eagerly():
        return "" if name is None else f"{kind}.{name}"
    graph = tf.compat.v1.get_default_graph()
    if name is None:
        name = re.sub(r"[^a-zA-Z0-9_]", "_", getattr(tensor, "name", "") or "tensor")
    if ignore_name_scope:
        with graph.name_scope(None):
            return str(graph.unique_name(f"{kind}.{name}"))
    return str(graph.unique_name(f"{kind}.{name}"))


@contextlib.contextmanager
def counted(full_name: str, group: int) -> Iterator[None]:
    """For what is done before the engine hears of a call: if that raises, a call without a name counts all the same, since
    the other ranks may make it, and they are told why."""
    try:
        yield
    except BaseException as error:
        if full_name == "" and tf.executing_eagerly():
            _calls.refuse(_calls.unnamed(group), error)
        raise
