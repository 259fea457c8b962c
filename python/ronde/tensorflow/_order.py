"""In which order a graph runs the operations of Ronde.

A ``tf.function`` chains all operations with state in the order in which they were made, and a Done of the chain holds up
all that follow until the other ranks have come. Where all make the same calls that is the fastest: ranks keep step. Members
of a process set make calls that the others lack, and the tape chooses where the gradients of these stand: in a chain two
ranks can then wait for each other. So in a function with calls of several groups the operations are taken out of the
chain, as TensorFlow's own collectives are: each runs once what it is given has been computed. The names by which ranks meet
do not depend on the order. Their Dones hold no thread of TensorFlow's pool, which waiting ones could fill.

In the chain stay:

- **Barrier and join**: what was made before them has ended when they begin, what is made after them waits for them.
- **Bodies of loops**: the next turn's operation has the same name as this one's, and must not overtake it.
- All of them where a Done must hold a thread (before TensorFlow 2.13).
"""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional, Set
from weakref import WeakKeyDictionary, ref

import tensorflow as tf

from ronde import _abi

#: What all that a rank has made before it, and nothing of what it makes later, comes before.
_FENCES = (_abi.BARRIER, _abi.JOIN)

#: Operations of which there is a kernel that holds no thread, and its label (bindings/tensorflow/kernels.cc).
_WAITING, _LABEL = ("RondeDone", "RondeDoneRows"), b"apart"


class _Function:
    """The operations of Ronde in one function that is being traced."""

    def __init__(self, manager: Any) -> None:
        self._manager = ref(manager)  # which lives as long as operations are added, and is the key of this object
        self._groups: Set[int] = set()
        self._movable: List[Any] = []  # all but fences
        self.fence: List[Any] = []  # the last one, or none
        self.since: List[Any] = []  # the operations since

    def add(self, operation: Any, group: Optional[int]) -> None:
        """One that is no fence."""
        self.since.append(operation)
        if group is not None:
            self._groups.add(group)
        self._movable.append(operation)
        if len(self._groups) > 1:
            for each in self._movable:
                self._free(each)
            self._movable = []

    def _free(self, operation: Any) -> None:
        manager = self._manager()
        assert manager is not None
        manager.run_independently(operation)
        if operation.type in _WAITING:
            operation._set_attr("_kernel", tf.compat.v1.AttrValue(s=_LABEL))

    def add_fence(self, operation: Any) -> None:
        """A barrier or a join."""
        self.fence = [operation]
        self.since = []


#: By the manager of the chain, which lives as long as its function is being traced.
_functions: "WeakKeyDictionary[Any, _Function]" = WeakKeyDictionary()


class Place:
    """Where an operation that is being made stands in the order."""

    def __init__(self, function: Optional[_Function], is_fence: bool, group: Optional[int]) -> None:
        self._function = function
        self._is_fence = is_fence
        self._group = group

    def of(self, tensor: Any) -> None:
        """Says what has been made, by one of its results."""
        if self._function is None:
            return
        if self._is_fence:
            self._function.add_fence(tensor.op)
        else:
            self._function.add(tensor.op, self._group)


@contextlib.contextmanager
def place(op: Optional[int], group: Optional[int], waits_apart: bool) -> Iterator[Place]:
    """In its context an operation of a request of this kind and group is made, and given to the place. None: it is of
    several requests, which were told before. ``waits_apart``: whether there are kernels that hold no thread."""
    graph = None if tf.executing_eagerly() else tf.compat.v1.get_default_graph()
    manager = getattr(graph, "experimental_acd_manager", None)
    if manager is None or not waits_apart or _is_in_loop(graph):
        yield Place(None, False, None)
        return
    function = _functions.get(manager)
    if function is None:
        function = _functions[manager] = _Function(manager)
    is_fence = op in _FENCES
    with tf.control_dependencies(function.fence + function.since if is_fence else function.fence):
        yield Place(function, is_fence, group)


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
