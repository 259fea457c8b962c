"""The state of a training run with Keras, of either version and any backend."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Optional, Tuple

import numpy as np

import ronde.numpy as rnp
from ronde import _process
from ronde._keras.variables import (
    accumulated,
    assign,
    broadcast_training,
    forget_jax_state,
    hidden_variables,
    optimizer_variables,
    sync_from_jax,
    values_of,
)
from ronde._objects import broadcast_object
from ronde.elastic.state import ObjectState
from ronde.exceptions import HostsUpdatedInterrupt, InvalidArgumentError

__all__ = ["KerasState"]


class KerasState(ObjectState):
    """What a training run must not lose: the weights of a model, the variables of its optimizer, and plain objects.

    Args:
        model: of Keras, built: it has its weights.
        optimizer: None: the model's, if it is compiled.
        kwargs: become attributes; they are copied and must be picklable.

    Keeps a copy in memory, and two while gradients are accumulated over several batches (see :meth:`sync`); on JAX one more
    from news of hosts until the job is joined anew.
    ``init()`` must have been called. Raises ValueError for a model that has no weights yet.
    """

    def __init__(self, model: Any, optimizer: Any = None, **kwargs: Any) -> None:
        kwargs.pop("backend", None)  # which Horovod's takes
        if not getattr(model, "built", True):
            raise InvalidArgumentError("the model has no weights yet: call model.build(input_shape) before", 1)
        self.model = model
        self.optimizer = optimizer if optimizer is not None else getattr(model, "optimizer", None)
        self._saved_values: List[Any] = []
        self._saved_hidden: List[Any] = []
        self._saved_batches = -1
        #: On JAX, as they were when news of hosts came: what the loop leaves as it ends may be something else.
        self._interrupted: Optional[Tuple[List[Any], List[Any]]] = None
        #: The commit before the last: over how many batches gradients were accumulated then, values, objects.
        self._before: Optional[Tuple[int, List[Any], List[Any], Dict[str, Any]]] = None
        super().__init__(broadcast_object, _process.rank, **kwargs)
        self._save_values()

    def _variables(self) -> List[Any]:
        return [*self.model.weights, *optimizer_variables(self.optimizer, self.model)]

    def _save_values(self) -> None:
        sync_from_jax(self.model)
        hidden, values = values_of(hidden_variables(self.model)), values_of(self._variables())
        self._saved_hidden, self._saved_values = hidden, values
        self._saved_batches = accumulated(self.optimizer)[1]

    def save(self) -> None:
        """As :meth:`ronde.elastic.State.save`. Raises what copying an object does."""
        before = self._saved_batches, self._saved_values, self._saved_hidden, self._saved_state
        self._save_values()
        if before[0] >= 0:
            self._before = before
        super().save()

    def check_host_updates(self) -> None:
        """As :meth:`ronde.elastic.State.check_host_updates`. Raises as that does."""
        try:
            super().check_host_updates()
        except HostsUpdatedInterrupt:
            if hasattr(self.model, "jax_state_sync"):
                # Keras's loop on JAX puts moving averages (use_ema) in the weights' place also where an exception ends it.
                sync_from_jax(self.model)
                self._interrupted = values_of(self._variables()), values_of(hidden_variables(self.model))
            raise

    def on_reset(self) -> None:
        """As :meth:`ronde.elastic.State.on_reset`. Raises what the callbacks do."""
        if self._interrupted is not None:
            assign(self._variables(), self._interrupted[0])
            assign(hidden_variables(self.model), self._interrupted[1])
            self._interrupted = None
        super().on_reset()

    def restore(self) -> None:
        """As :meth:`ronde.elastic.State.restore`. Raises what an assignment does."""
        self._interrupted = None
        forget_jax_state(self.model)
        assign(hidden_variables(self.model), self._saved_hidden)
        assign(self._variables(), self._saved_values)
        super().restore()

    def sync(self) -> None:
        """As :meth:`ronde.elastic.State.sync`. Raises CollectiveError if the exchange fails."""
        sync_from_jax(self.model)
        self._go_back_together()
        broadcast_training(self.model, self.optimizer, root_rank=0)
        super().sync()
        self._before = None
        self._save_values()  # last: an exchange that fails leaves what was saved before

    def _go_back_together(self) -> None:
        """Where gradients are accumulated over several batches each rank has its own, which no other can give it. When one rank
        has failed between two commits, another may be one commit ahead, since it has heard of that in the next: then all go back
        to the commit that all have."""
        now = accumulated(self.optimizer)[1]
        before = -1 if self._before is None else self._before[0]
        everyones = rnp.allgather(np.array([[now, before]]), name="keras.commits")
        common = int(everyones[:, 0].min())
        if self._before is not None and now != common == before and (everyones == common).any(axis=1).all():
            assign(self._variables(), self._before[1])
            assign(hidden_variables(self.model), self._before[2])
            self._set(copy.deepcopy(self._before[3]))
