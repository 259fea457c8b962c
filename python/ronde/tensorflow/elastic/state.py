"""States of training runs with TensorFlow: variables, or a model and an optimizer of Keras, and plain objects."""

from __future__ import annotations

from typing import Any, List, Optional

import tensorflow as tf

from ronde import _process
from ronde._keras.state import KerasState
from ronde.elastic.state import ObjectState
from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow._objects import broadcast_object
from ronde.tensorflow.functions import broadcast_variables

__all__ = ["TensorFlowKerasState", "TensorFlowState"]


class TensorFlowState(ObjectState):
    """What a training run must not lose, as variables and plain objects.

    Args:
        variables: of TensorFlow or Keras; None: the global variables of the graph of ``tf.compat.v1``.
        session: in graph mode, that in which the variables live.
        kwargs: become attributes; they are copied and must be picklable.

    ``init()`` must have been called. Raises ValueError in eager mode without variables.
    """

    def __init__(self, variables: Optional[List[Any]] = None, session: Any = None, **kwargs: Any) -> None:
        if variables is None:
            if tf.executing_eagerly():
                raise InvalidArgumentError("TensorFlowState needs its variables in eager mode: give variables=[...]", 1)
            variables = tf.compat.v1.global_variables()
        self.variables = list(variables)
        self.session = session
        self._saved_values: List[Any] = []
        self._broadcast_op: Any = None
        self._places: List[Any] = []
        super().__init__(broadcast_object, _process.rank, **kwargs)
        self._save_values()

    def _save_values(self) -> None:
        if self.session is None:
            self._saved_values = [tf.identity(tf.convert_to_tensor(variable)) for variable in self.variables]
        else:
            self._saved_values = self.session.run(self.variables)

    def save(self) -> None:
        """As :meth:`ronde.elastic.State.save`. Raises what copying an object does."""
        self._save_values()
        super().save()

    def restore(self) -> None:
        """As :meth:`ronde.elastic.State.restore`. Raises what an assignment does."""
        if self.session is None:
            for variable, value in zip(self.variables, self._saved_values):
                variable.assign(value)
        else:
            for variable, value in zip(self.variables, self._saved_values):
                variable.load(value, self.session)
        super().restore()

    def sync(self) -> None:
        """As :meth:`ronde.elastic.State.sync`. Raises CollectiveError, or one of ``tf.errors`` in a session, if the
        exchange fails."""
        if self.session is None:
            broadcast_variables(self.variables, root_rank=0)
        else:
            if self._broadcast_op is None:
                with self.session.graph.as_default():
                    self._broadcast_op = broadcast_variables(self.variables, root_rank=0)
            self.session.run(self._broadcast_op)
        super().sync()
        self._save_values()  # last: an exchange that fails leaves what was saved before


class TensorFlowKerasState(KerasState):
    """What a training run with Keras must not lose: the weights of a model, the variables of its optimizer, and plain
    objects.

    Args:
        model: of Keras, built: it has its weights.
        optimizer: None: the model's, if it is compiled.
        backend: accepted for compatibility.
        kwargs: become attributes; they are copied and must be picklable.

    ``init()`` must have been called. Raises ValueError for a model that has no weights yet.
    """

    def __init__(self, model: Any, optimizer: Any = None, backend: Any = None, **kwargs: Any) -> None:
        del backend
        super().__init__(model, optimizer, **kwargs)
