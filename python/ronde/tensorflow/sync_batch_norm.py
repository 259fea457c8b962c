"""Batch normalisation over the batches of all ranks together."""

from __future__ import annotations

from typing import Any, Tuple

import tensorflow as tf

from ronde import _process
from ronde.tensorflow.mpi_ops import Sum, allreduce

__all__ = ["SyncBatchNormalization"]


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """As Keras's ``BatchNormalization``, but in training each rank normalises its batch by the mean and the variance of all
    ranks' batches, which may be of different sizes.

    Args:
        fused: accepted for compatibility; only False, which is the default.
        kwargs: those of ``keras.layers.BatchNormalization``.

    In training it is collective: every rank calls it, and runs its backward pass, equally often and in the same order.
    Raises ValueError for ``fused=True``, and as :func:`ronde.tensorflow.allreduce`.
    """

    def __init__(self, fused: bool = False, **kwargs: Any) -> None:
        if fused:
            raise ValueError("SyncBatchNormalization does not support fused=True: leave it out")
        if hasattr(self, "_fused_batch_norm"):  # Keras 2, which has a way that does not show the moments
            kwargs["fused"] = False
        super().__init__(**kwargs)

    def _moments(self, inputs: Any, *args: Any, **kwargs: Any) -> Tuple[Any, Any]:
        # Keras gives the axes, or keeps them in the layer, in one version or the other; only the shapes of what it
        # makes of one rank's batch are needed here.
        mean, variance = super()._moments(inputs, *args, **kwargs)
        if _process.size() == 1:
            return mean, variance
        mean = tf.convert_to_tensor(mean)
        variance = tf.convert_to_tensor(variance)
        values = tf.cast(tf.size(inputs), mean.dtype) / tf.cast(tf.size(mean), mean.dtype)
        flat = [tf.reshape(mean, [-1]) * values, tf.reshape(variance + tf.square(mean), [-1]) * values, values[tf.newaxis]]
        total = allreduce(tf.concat(flat, 0), op=Sum, name=f"sync_batch_norm.{self.name}", ignore_name_scope=True)
        channels = tf.size(mean)
        all_values = total[2 * channels]
        all_mean = tf.reshape(total[:channels] / all_values, tf.shape(mean))
        all_squares = tf.reshape(total[channels : 2 * channels] / all_values, tf.shape(mean))
        all_mean.set_shape(mean.shape)
        all_squares.set_shape(mean.shape)
        return all_mean, all_squares - tf.square(all_mean)
