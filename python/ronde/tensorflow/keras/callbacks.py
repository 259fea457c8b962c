"""What Keras calls while it trains: the same start on every rank, averaged metrics, learning rates, checkpoints."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ronde import _process
from ronde._keras import callbacks as _shared

__all__ = [
    "BestModelCheckpoint",
    "BroadcastGlobalVariablesCallback",
    "LearningRateScheduleCallback",
    "LearningRateWarmupCallback",
    "MetricAverageCallback",
]


class BroadcastGlobalVariablesCallback(_shared.BroadcastGlobalVariables, tf.keras.callbacks.Callback):
    """Gives all ranks the weights and the optimizer's variables of rank ``root_rank`` when training begins, so that all start
    alike, from random values or from a checkpoint that the root alone has loaded.

    Args:
        root_rank: a rank of the job, the same on every rank.
        device: accepted for compatibility.
        local_variables: those that are each rank's own and are not sent.

    Collective: every rank trains with it. Raises CollectiveError if the models differ.
    """


class MetricAverageCallback(_shared.MetricAverage, tf.keras.callbacks.Callback):
    """Averages the metrics of each epoch over all ranks. Give it before callbacks that use them. ``device`` is accepted for
    compatibility. Collective: every rank trains with it, and has as many metrics; raises CollectiveError otherwise."""


class LearningRateScheduleCallback(_shared.LearningRateSchedule, tf.keras.callbacks.Callback):
    """Sets the learning rate to ``initial_lr * multiplier(epoch)``.

    Args:
        initial_lr: the rate that is multiplied.
        multiplier: a number, or a function of the epoch.
        start_epoch: the first epoch in which the rate is set.
        end_epoch: the first in which it is not any more; None: there is none.
        staircase: whether the rate changes with epochs only; else with each batch, for which ``multiplier`` gets fractions.
        momentum_correction: whether the momentum of SGD or RMSprop, which holds steps at the old rate, is brought to the new
            one.
        steps_per_epoch: how many batches an epoch has, where Keras does not know it.

    Raises ValueError without ``initial_lr``, and where a rate for each batch is wanted and ``steps_per_epoch`` is missing.
    """


class LearningRateWarmupCallback(_shared.LearningRateWarmup, tf.keras.callbacks.Callback):
    """Raises the learning rate in the first epochs from that of one rank, ``initial_lr / size()``, to ``initial_lr``.

    Args:
        initial_lr: the rate at the end.
        warmup_epochs: how many epochs it takes.
        momentum_correction: as in :class:`LearningRateScheduleCallback`, as is ``steps_per_epoch``.
        verbose: 1: rank 0 says when it has ended.

    Raises as :class:`LearningRateScheduleCallback`.
    """


class BestModelCheckpoint(tf.keras.callbacks.ModelCheckpoint):
    """Saves the model whenever what is monitored is better than ever, on rank 0.

    Args:
        monitor: as in Keras's ``ModelCheckpoint``, as are ``verbose``, ``mode``, ``save_freq`` and ``save_weights_only``.
        filepath: where to.

    Put :class:`MetricAverageCallback` before it, so that what is monitored is that of all ranks. Raises what Keras's does.
    """

    def __init__(
        self,
        monitor: str = "val_loss",
        verbose: int = 0,
        mode: str = "auto",
        save_freq: Any = "epoch",
        save_weights_only: bool = False,
        filepath: str = "best_model.keras",
    ) -> None:
        super().__init__(
            filepath=filepath,
            monitor=monitor,
            verbose=verbose,
            save_best_only=True,
            save_weights_only=save_weights_only,
            mode=mode,
            save_freq=save_freq,
        )

    def _save_model(self, *args: Any, **kwargs: Any) -> None:
        if _process.rank() == 0:
            super()._save_model(*args, **kwargs)
