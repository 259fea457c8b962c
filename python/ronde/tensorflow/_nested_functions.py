"""The order of calls in functions that a ``tf.function`` calls.

TensorFlow runs operations with state of one function one after the other, but not those that take resources, as calls of
functions that read a variable do: they wait for what else uses the resource only. So two calls of one such function ran at
once, each with the same name for its calls, and so did a branch or a loop and what stands behind it. TensorFlow has a chain of
its own for operations of its collectives, whatever else they use, by a number that they have in common. Ronde's operations,
Python's (``tf.py_function``), and what calls functions with them, are given one.

The gradient of a function that another one calls is a function, too, in which TensorFlow chains nothing, and which has ended to
what stands behind it when its results are there. So its calls met those of the next gradient of the function. They are chained
here, and are among what must have run before it has ended.
"""

from __future__ import annotations

import functools
from typing import Any, List

#: In place of the number of a manager of TensorFlow's own collectives, which count from 1.
_NUMBER = -0x526F6E64


def keep_in_order() -> None:
    """Has calls chained in every function that is traced from now on, and in every function's gradient."""
    _keep_functions_in_order()
    _keep_gradients_in_order()


@functools.lru_cache(maxsize=None)
def _keep_functions_in_order() -> None:
    try:
        from tensorflow.python.framework import auto_control_deps

        numbers_of = auto_control_deps.collective_manager_ids_from_op
    except (ImportError, AttributeError):
        return  # a TensorFlow that has its chain elsewhere: operations without resources are in order there

    @functools.wraps(numbers_of)
    def with_ours(operation: Any) -> List[int]:
        numbers = list(numbers_of(operation))
        if _NUMBER not in numbers and operation._control_flow_context is None and _makes_calls(operation):
            numbers.append(_NUMBER)
        return numbers

    auto_control_deps.collective_manager_ids_from_op = with_ours


@functools.lru_cache(maxsize=None)
def _keep_gradients_in_order() -> None:
    try:
        from tensorflow.python.framework import ops
        from tensorflow.python.framework.func_graph import FuncGraph
        from tensorflow.python.ops import gradients_util

        write = gradients_util._GradientsHelper
    except (ImportError, AttributeError):
        return

    @functools.wraps(write)
    def write_in_order(*arguments: Any, **named: Any) -> Any:
        gradients = write(*arguments, **named)
        graph = ops.get_default_graph()
        if isinstance(graph, FuncGraph) and getattr(graph, "experimental_acd_manager", None) is None:
            _chain(graph)
        return gradients

    gradients_util._GradientsHelper = write_in_order


def _chain(graph: Any) -> None:
    """Has what makes calls run in the order in which it was made, and before the function ends."""
    before = None
    for operation in graph.get_operations():
        if operation._control_flow_context is not None or not _makes_calls(operation):
            continue
        if before is not None and before not in operation.control_inputs:
            operation._add_control_input(before)
        if operation not in graph.control_outputs:
            graph.control_outputs.append(operation)
        before = operation


def _is_call(type_: str) -> bool:
    """Also ``tf.py_function`` and ``tf.numpy_function``, whose programs may call anything: their calls meet by their order, those
    of a gradient too."""
    return type_.startswith("Ronde") or type_ in ("EagerPyFunc", "PyFunc")


def _makes_calls(operation: Any) -> bool:
    if _is_call(operation.type):
        return True
    if not _takes_functions(operation.type):
        return False
    functions = getattr(operation.graph, "_get_function", None)
    return functions is not None and any(_calls_in(functions, name, set()) for name in _called_by(operation.node_def))


@functools.lru_cache(maxsize=None)
def _takes_functions(type_: str) -> bool:
    """Whether operations of this type call functions. Few do, and what a node says of itself takes long to ask."""
    from tensorflow.python.framework import op_def_registry

    definition = op_def_registry.get(type_)
    return definition is not None and any(attribute.type in ("func", "list(func)") for attribute in definition.attr)


def _called_by(node: Any) -> List[str]:
    """The names of the functions that the operation calls."""
    called: List[str] = []
    for value in node.attr.values():
        called += [each.name for each in ([value.func] if value.HasField("func") else value.list.func)]
    return called


def _calls_in(functions: Any, name: str, seen: set[str]) -> bool:
    """Whether the function of this name, or one that it calls, makes calls."""
    function = functions(name)
    if function is None or name in seen:
        return False
    seen.add(name)
    return any(
        _is_call(node.op) or any(_calls_in(functions, each, seen) for each in _called_by(node))
        for node in function.definition.node_def
    )
