"""Arguments that several operations take: which tensors, by which name."""

from __future__ import annotations

import contextlib
import re
from typing import Any, Iterable, Iterator, List, Optional

import tensorflow as tf

from ronde import _calls
from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow import _native

#: What Ronde moves; also what operations.cc of bindings/tensorflow tells TensorFlow.
_TYPES = frozenset({
    tf.float32, tf.float64, tf.float16, tf.bfloat16, tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.uint32, tf.int64,
    tf.uint64, tf.bool, tf.complex64, tf.complex128,
})

#: As bindings/tensorflow/kernels.cc, which refuses what is not known before.
_MOST_DIMENSIONS = 32


def tensor_of(value: Any, what: str) -> Any:
    """A tensor of a type that Ronde moves, of whatever TensorFlow can make one of."""
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype.base_dtype not in _TYPES:
        raise InvalidArgumentError(
            f"{what} got a tensor of {tensor.dtype.name}, which Ronde does not move: cast it to one of "
            f"{', '.join(sorted(each.name for each in _TYPES))}",
            1,
        )
    if (tensor.shape.rank or 0) > _MOST_DIMENSIONS:
        raise InvalidArgumentError(
            f"{what} got a tensor of {tensor.shape.rank} dimensions, and Ronde moves tensors of {_MOST_DIMENSIONS} at most: "
            "reshape it",
            1,
        )
    return tensor


def listed(tensors: Iterable[Any], name: Optional[str], group: int) -> List[Any]:
    """What a grouped operation of this name is given, as a list. InvalidArgumentError for a tensor."""
    with counted(name or "", group):
        if tf.is_tensor(tensors) or isinstance(tensors, tf.Variable):
            raise InvalidArgumentError("a grouped operation takes a list of tensors, not one tensor: give [tensor]", 1)
        return list(tensors)


def name_of(kind: str, name: Optional[str], ignore_name_scope: bool, tensor: Any) -> str:
    """By which the ranks meet.

    In a graph each operation has a name of its own, made of what the program says and the scope that it is in, else of
    the names of the function and the tensor: a session runs operations in any order, and threads may run several functions at
    once. In eager mode "" without a name: such calls meet by their order.
    """
    if tf.executing_eagerly():
        return "" if name is None else f"{kind}.{name}"
    graph = tf.compat.v1.get_default_graph()
    if name is None:
        name = re.sub(r"[^a-zA-Z0-9_]", "_", _function_of(graph) + (getattr(tensor, "name", "") or "tensor"))
    if ignore_name_scope:
        with graph.name_scope(None):
            return str(graph.unique_name(f"{kind}.{name}"))
    return str(graph.unique_name(f"{kind}.{name}"))


def _function_of(graph: Any) -> str:
    """The name of the function that is traced, as the program has it, or of the loop or branch of a session's graph. "" where
    there is none. Of functions that call each other the innermost: what calls it on this rank depends on what was traced."""
    name = ""
    while getattr(graph, "outer_graph", None) is not None:
        is_part = _native.is_part(graph)
        name = _without_numbers(str(graph.name), is_part) + "."
        if not is_part:
            return name
        graph = graph.outer_graph
    return name


def _without_numbers(name: str, is_part: bool) -> str:
    """A name that TensorFlow has made, without the numbers in it, which depend on what the rank has traced and done before:
    of loops and branches, and their gradients (``while_body_12_grad_34``), and of functions' gradients
    (``__backward_f_12``, ``__backward___backward_f_12_34``)."""
    if is_part:
        return re.sub(r"_[0-9]+(?=_grad_|$)", "", name)
    made = re.fullmatch(r"(__(?:backward|forward|inference)_)(.*)_[0-9]+", name, flags=re.DOTALL)
    return made[1] + _without_numbers(made[2], False) if made else name


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
