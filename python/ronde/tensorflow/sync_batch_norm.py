"""Batch normalisation over the batches of all ranks together."""

from __future__ import annotations

from typing import Any, List, Tuple

import tensorflow as tf

from ronde import _abi, _process
from ronde.tensorflow import _differentiable
from ronde.tensorflow._arguments import name_of
from ronde.tensorflow._native import Call

__all__ = ["SyncBatchNormalization"]


class SyncBatchNormalization(tf.keras.layers.BatchNormalization):
    """As Keras's ``BatchNormalization``, but in training each rank normalises its batch by the mean and the variance of all
    ranks' batches, which may be of different sizes. Of masked batches only what the masks leave counts.

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

    def _moments(self, inputs: Any, given: Any = None, keep_dims: bool = False, mask: Any = None) -> Tuple[Any, Any]:
        """``given``: the axes in Keras 2, the mask in Keras 3, which keeps the axes in the layer."""
        keeps_axes = hasattr(self, "_reduction_axes")
        # A function that one rank has traced may be kept by several.
        if _process.size() == 1 and tf.executing_eagerly():
            return super()._moments(inputs, given) if keeps_axes else super()._moments(inputs, given, keep_dims, mask=mask)
        axes, mask = (self._reduction_axes, given) if keeps_axes else (given, mask)
        own = _own_moments(tf.convert_to_tensor(inputs), [int(axis) for axis in axes], bool(keep_dims), mask)
        name = name_of("allgather", f"sync_batch_norm.{self.name}", True, None)
        mean, variance = _combined(_differentiable.stacked(own, Call(_abi.ALLGATHER, name)))
        return tf.cast(mean, inputs.dtype), tf.cast(variance, inputs.dtype)


def _own_moments(inputs: Any, axes: List[int], keep_dims: bool, mask: Any) -> Any:
    """Of this rank's batch: how many values there are, their mean, and the sum of their squared distances from it, in one
    tensor of float64. Distances are taken from a first mean, of whose rounding the second one knows: sums of squares would be
    all rounding where the mean is large."""
    wide = tf.cast(inputs, tf.float64 if inputs.dtype == tf.float64 else tf.float32)
    is_counted = None if mask is None else tf.broadcast_to(tf.cast(mask, tf.bool)[..., tf.newaxis], tf.shape(wide))

    def counted(values: Any) -> Any:  # what is masked may be anything, NaN too
        return values if is_counted is None else tf.where(is_counted, values, tf.zeros_like(values))

    def total(values: Any) -> Any:
        return tf.reduce_sum(values, axes, keepdims=True)

    if is_counted is None:
        count = tf.reduce_prod(tf.gather(tf.shape(wide, tf.int64), axes))
    else:
        count = tf.math.count_nonzero(is_counted, axes, keepdims=True, dtype=tf.int64)
    first = tf.stop_gradient(tf.math.divide_no_nan(total(counted(wide)), tf.cast(count, wide.dtype)))
    distances = counted(wide - first)
    count = tf.cast(count, tf.float64)
    off = tf.math.divide_no_nan(tf.cast(total(distances), tf.float64), count)
    squares = tf.cast(total(tf.square(distances)), tf.float64) - tf.square(off) * count
    parts = [count + tf.zeros_like(off), tf.cast(first, tf.float64) + off, squares]
    return tf.stack([part if keep_dims else tf.squeeze(part, axes) for part in parts])


def _combined(ranks: Any) -> Tuple[Any, Any]:
    """The mean and the variance of all ranks' values, of a tensor with a row for each rank, after Chan, Golub and LeVeque."""
    counts, means, squares = ranks[:, 0], ranks[:, 1], ranks[:, 2]
    count = tf.reduce_sum(counts, 0)
    mean = tf.math.divide_no_nan(tf.reduce_sum(counts * means, 0), count)
    return mean, tf.math.divide_no_nan(tf.reduce_sum(squares + counts * tf.square(means - mean), 0), count)
