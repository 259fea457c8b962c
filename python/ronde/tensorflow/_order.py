"""In which order a graph runs the operations of Ronde.

A ``tf.function`` chains all operations with state in the order in which they were made, and a Done of the chain holds up
all that follow until the other ranks have come. Ranks need not make the same calls: those of a process set have some that
the others lack, and gradients are reduced in an order that the tape chooses. In a chain two ranks then wait for each other.
So the operations are taken out of it, as TensorFlow's own collectives are: each runs once what it is given has been
computed, and what it gives is there. The names by which ranks meet do not depend on the order.

In the chain stay:

- **Barrier and join**: what was made before them has ended when they begin, what is made after them waits for them.
- **Bodies of loops**: the next turn's operation has the same name as this one's, and must not overtake it.
- All of them where a Done holds a thread of TensorFlow's pool (before TensorFlow 2.13): waiting ones could fill the pool.
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional
from weakref import WeakKeyDictionary

import tensorflow as tf

from ronde import _abi

#: What all that a rank has made before it, and nothing of what it makes later, comes before.
_FENCES = (_abi.BARRIER, _abi.JOIN)


class _Function:
    """The operations of Ronde in one function that is being traced."""

    def __init__(self) -> None:
        self.fence: List[Any] = []  # the last one's operations, none or more
        self.free: List[Any] = []  # the operations since


#: By the manager of the chain, which lives as long as its function is being traced.
_functions: "WeakKeyDictionary[Any, _Function]" = WeakKeyDictionary()


class Place:
    """Where an operation that is being made stands in the order."""

    def of(self, tensor: Any) -> None:
        """Says what has been made, by one of its results."""


class _Free(Place):
    """Anywhere after the last fence."""

    def __init__(self, manager: Any, function: _Function) -> None:
        self._manager = manager
        self._function = function

    def of(self, tensor: Any) -> None:
        self._manager.run_independently(tensor.op)
        self._function.free.append(tensor.op)


class _Fence(Place):
    """After all that were made before, in the function's chain."""

    def __init__(self, function: _Function) -> None:
        self._function = function

    def of(self, tensor: Any) -> None:
        self._function.fence = [tensor.op]
        self._function.free = []


@contextlib.contextmanager
def place(op: Optional[int], waits_apart: bool) -> Iterator[Place]:
    """In its context an operation of a request of this kind is made, and given to the place. ``op``: None where it is of
    several, none of which is a fence. ``waits_apart``: whether operations that wait hold no thread."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    manager = getattr(graph, "experimental_acd_manager", None)
    if manager is None or not waits_apart or _is_in_loop(graph):
        yield Place()
        return
    function = _functions.setdefault(manager, _Function())
    if op in _FENCES:
        with tf.control_dependencies(function.fence + function.free):
            yield _Fence(function)
    else:
        with tf.control_dependencies(function.fence):
            yield _Free(manager, function)


def _is_in_loop(graph: Any) -> bool:
    """Whether the graph, or one that it is traced in, is a part of a loop; so if that cannot be told."""
    try:
        from tensorflow.python.ops.control_flow_v2_func_graphs import WhileBodyFuncGraph, WhileCondFuncGraph
    except ImportError:
        return True
    while graph is not None:
        if isinstance(graph, (WhileBodyFuncGraph, WhileCondFuncGraph)):
            return True
        graph = getattr(graph, "outer_graph", None)
    return False
