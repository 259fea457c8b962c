"""Same start on every rank: variables sent from one rank to all."""

from __future__ import annotations

from typing import Any, Iterable, List

import tensorflow as tf

from ronde import _abi
from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow import _native
from ronde.tensorflow._arguments import counted, name_of, tensor_of
from ronde.tensorflow._native import Call
from ronde.tensorflow._objects import allgather_object, broadcast_object, broadcast_object_fn
from ronde.tensorflow.process_sets import ProcessSet, global_process_set, group_of

__all__ = [
    "BroadcastGlobalVariablesHook",
    "allgather_object",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
]


def broadcast_variables(
    variables: Iterable[Any],
    root_rank: int,
    process_set: ProcessSet = global_process_set,
    inplace: bool = False,
) -> Any:
    """Gives every rank the values of rank ``root_rank``'s variables.

    Args:
        variables: of TensorFlow or Keras; the same number, shapes and types in the same order on every rank.
        root_rank: a rank of the job, the same on every rank.
        process_set: the ranks that take part, the root and this one among them.
        inplace: accepted for compatibility: variables are always assigned to.

    In a graph returns an operation that does it, to be run after the variables have been initialised. Raises as
    :func:`ronde.tensorflow.allreduce`.
    """
    del inplace
    listed: List[Any] = list(variables)
    if not listed:
        return tf.group()
    group = group_of(process_set)
    full_name = name_of("broadcast_variables", f"{len(listed)}", True, None)
    with counted(full_name, group):
        given = [tensor_of(variable, "broadcast_variables") for variable in listed]
        call = Call(_abi.BROADCAST, full_name, root=int(root_rank), group=group)
    results = _native.run(given, call)
    assigned = [variable.assign(result) for variable, result in zip(listed, results)]
    return None if tf.executing_eagerly() or tf.inside_function() else tf.group(*assigned)


def broadcast_global_variables(root_rank: int) -> Any:
    """Of a graph of ``tf.compat.v1``: an operation that gives every rank the values of rank ``root_rank``'s global
    variables, to be run after they have been initialised. Raises InvalidArgumentError (a ValueError) in eager mode, where
    there is no such list: use ``broadcast_variables(model.variables, root_rank=...)``."""
    if tf.executing_eagerly():
        raise InvalidArgumentError(
            "broadcast_global_variables() works in graphs of tf.compat.v1 only, since eager mode keeps no list of "
            "variables: use broadcast_variables(<model/optimizer>.variables, root_rank=...)",
            1,
        )
    return broadcast_variables(tf.compat.v1.global_variables(), root_rank)


class BroadcastGlobalVariablesHook(tf.compat.v1.train.SessionRunHook):
    """For sessions of ``tf.compat.v1.train``: when one has been made, every rank gets the values of rank ``root_rank``'s
    global variables, be they initialised or restored from a checkpoint. ``device`` is accepted for compatibility.

    Collective: each rank gives it to its session. Raises as :func:`broadcast_global_variables`.
    """

    def __init__(self, root_rank: int, device: str = "") -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self._broadcast_op: Any = None

    def begin(self) -> None:
        """Adds the operation to the graph, before it is finalised. Raises as :func:`broadcast_global_variables`."""
        graph = tf.compat.v1.get_default_graph()
        if self._broadcast_op is None or self._broadcast_op.graph is not graph:
            self._broadcast_op = broadcast_global_variables(self.root_rank)

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Runs it in the ``session``; ``coord`` is not used. Raises one of ``tf.errors`` if it fails."""
        del coord
        session.run(self._broadcast_op)
