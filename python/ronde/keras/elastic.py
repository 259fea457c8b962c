"""Training that starts again from its last commit, for Keras 3 on any of its backends.

    state = hvd.elastic.KerasState(model, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state):
        model.fit(dataset, epochs=epochs - state.epoch, callbacks=[
            hvd.elastic.CommitStateCallback(state),
            hvd.elastic.UpdateBatchStateCallback(state),
            hvd.elastic.UpdateEpochStateCallback(state)])

    train(state)
"""

from __future__ import annotations

from typing import Any, Callable, Optional

import keras

from ronde._keras import elastic as _shared
from ronde._keras.job import join_anew
from ronde._keras.state import KerasState
from ronde.elastic.run import run_fn

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]


class CommitStateCallback(_shared.CommitState, keras.callbacks.Callback):
    """Commits ``state`` after each ``batches_per_commit`` batches and after each epoch. Collective. Raises as
    ``state.commit()``."""


class UpdateBatchStateCallback(_shared.UpdateBatchState, keras.callbacks.Callback):
    """Keeps ``state.batch``, how many batches of the epoch are done. After a restart an epoch has as many as are left, at least
    one, where Keras knows how many it has: the first ones of the data that ``fit`` is given, so give it
    ``data.repeat().skip(state.batch)``, say, and ``steps_per_epoch``. Raises nothing."""


class UpdateEpochStateCallback(_shared.UpdateEpochState, keras.callbacks.Callback):
    """Keeps ``state.epoch``, how many epochs are done. Raises nothing."""


def run(func: Optional[Callable[..., Any]] = None, *, reset_limit: Optional[int] = None) -> Callable[..., Any]:
    """Decorates the training function ``func(state, ...)``, see :func:`ronde.elastic.run_fn`. Also
    ``@run(reset_limit=3)``. The decorated function raises as :func:`ronde.elastic.run_fn` says."""
    if keras.backend.backend() == "tensorflow":
        from ronde.tensorflow import elastic  # which knows TensorFlow's errors

        return elastic.run(func, reset_limit=reset_limit)
    if func is None:
        return lambda given: run(given, reset_limit=reset_limit)
    if keras.backend.backend() == "jax":
        from ronde.jax._failures import with_own_errors  # a compiled step fails with an error of JAX's

        func = with_own_errors(func)
    return run_fn(func, join_anew, reset_limit)
