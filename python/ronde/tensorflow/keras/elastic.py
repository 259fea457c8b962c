"""Training that starts again from its last commit, for Keras on TensorFlow; see :mod:`ronde.tensorflow.elastic`."""

from __future__ import annotations

import tensorflow as tf

from ronde._keras import elastic as _shared
from ronde._keras.state import KerasState
from ronde.tensorflow.elastic import run

__all__ = ["CommitStateCallback", "KerasState", "UpdateBatchStateCallback", "UpdateEpochStateCallback", "run"]


class CommitStateCallback(_shared.CommitState, tf.keras.callbacks.Callback):
    """Commits ``state`` after each ``batches_per_commit`` batches and after each epoch. Collective. Raises as
    ``state.commit()``."""


class UpdateBatchStateCallback(_shared.UpdateBatchState, tf.keras.callbacks.Callback):
    """Keeps ``state.batch``, how many batches of the epoch are done. After a restart an epoch has as many as are left, at least
    one, where Keras knows how many it has: the first ones of the data that ``fit`` is given, so give it
    ``data.repeat().skip(state.batch)``, say, and ``steps_per_epoch``. Raises nothing."""


class UpdateEpochStateCallback(_shared.UpdateEpochState, tf.keras.callbacks.Callback):
    """Keeps ``state.epoch``, how many epochs are done. Raises nothing."""
