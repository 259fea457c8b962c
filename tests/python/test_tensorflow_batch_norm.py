"""SyncBatchNormalization against Keras's BatchNormalization in one process over the whole batch, in double."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures

CHANNELS = 3


def rows(world):
    """Of the ranks: uneven, one of them, from three ranks on, without any."""
    return [[5, 2, 0, 1][of % 4] for of in range(world)]


def whole_batch(world, offset, shape=(4, CHANNELS)):
    """As float32 has it, so that the reference in double gets the same values."""
    batch = np.random.default_rng(7).normal(size=(sum(rows(world)), *shape)) * np.arange(1, shape[-1] + 1) + offset
    return batch.astype("float32")


def part(world, rank):
    first = sum(rows(world)[:rank])
    return slice(first, first + rows(world)[rank])


def weights_of(batch):
    return np.random.default_rng(9).normal(size=batch.shape)


def in_double(tf, batch, weights, mask=None, axis=-1):
    layer = tf.keras.layers.BatchNormalization(axis=axis, dtype="float64", momentum=0.0)
    return run(tf, layer, batch.astype("float64"), weights, mask)


def run(tf, layer, batch, weights, mask=None):
    """What comes out, the gradient of the input, the mean and the variance."""
    x = tf.constant(batch)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, training=True, **({} if mask is None else {"mask": tf.constant(mask)}))
        # Of masked entries nothing is asked.
        loss = tf.reduce_sum(tf.cast(y, tf.float64) * (weights if mask is None else weights * mask[..., np.newaxis]))
    gradient = tf.cast(tape.gradient(loss, x), tf.float64)
    return y.numpy(), gradient.numpy(), layer.moving_mean.numpy(), layer.moving_variance.numpy()


def check(mine, expected, own, output=1e-5, gradient=1e-5):
    np.testing.assert_allclose(mine[0], expected[0][own], atol=output)
    np.testing.assert_allclose(mine[1], expected[1][own], atol=gradient)
    np.testing.assert_allclose(mine[2], expected[2], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(mine[3], expected[3], rtol=1e-5)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("offset", [0.0, 1000.0, 10000.0, 1e5])
def test_means_far_from_zero(hvd, tf, rank, world, offset):
    batch = whole_batch(world, offset)
    own, weights = part(world, rank), weights_of(batch)
    expected = in_double(tf, batch, weights)
    layer = hvd.SyncBatchNormalization(name=f"far_{offset}", momentum=0.0)
    # Keras's formula, x * inverse - mean * inverse, has the rounding of numbers as large as the mean.
    rounding = 1e-5 + offset * 5e-7
    check(run(tf, layer, batch[own], weights[own]), expected, own, rounding, rounding)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("traced", [False, True])
def test_masked_entries_do_not_count(hvd, tf, rank, world, traced):
    batch = whole_batch(world, 1000.0)
    own, weights = part(world, rank), weights_of(batch)
    mask = np.random.default_rng(5).random(batch.shape[:2]) < 0.6
    mask[part(world, 1)] = False  # a rank that has nothing but padding
    expected = in_double(tf, batch, weights, mask)
    layer = hvd.SyncBatchNormalization(name=f"masked_{traced}", momentum=0.0)
    layer.build((None, 4, CHANNELS))
    padded = np.where(mask[..., np.newaxis], batch, np.nan).astype("float32")
    called = tf.function(layer) if traced else layer
    called.moving_mean, called.moving_variance = layer.moving_mean, layer.moving_variance
    mine = run(tf, called, batch[own], weights[own], mask[own])
    check(mine, expected, own, 1e-3, 1e-3)
    layer(tf.constant(padded[own]), training=True, mask=tf.constant(mask[own]))
    np.testing.assert_allclose(layer.moving_mean, expected[2], rtol=1e-6)  # whatever is masked, NaN too


@pytest.mark.ranks(2, 3)
def test_channels_that_are_not_last(hvd, tf, rank, world):
    batch = whole_batch(world, 100.0, (CHANNELS, 2, 2))
    own, weights = part(world, rank), weights_of(batch)
    expected = in_double(tf, batch, weights, axis=1)
    layer = hvd.SyncBatchNormalization(axis=1, name="first", momentum=0.0)
    check(run(tf, layer, batch[own], weights[own]), expected, own, 1e-4, 1e-4)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_reduced_in_single(hvd, tf, rank, world, dtype):
    batch = tf.cast(whole_batch(world, 300.0), dtype).numpy()
    own, weights = part(world, rank), weights_of(batch)
    expected = in_double(tf, batch, weights)
    layer = hvd.SyncBatchNormalization(name=f"half_{dtype}", momentum=0.0, dtype=f"mixed_{dtype}")
    y, gradient, mean, variance = run(tf, layer, batch[own], weights[own])
    step = 1e-3 if dtype == "float16" else 8e-3
    np.testing.assert_allclose(y.astype("float64"), expected[0][own], rtol=step, atol=step)
    np.testing.assert_allclose(gradient, expected[1][own], rtol=4 * step, atol=4 * step)
    np.testing.assert_allclose(mean, expected[2], rtol=1e-6)
    np.testing.assert_allclose(variance, expected[3], rtol=1e-5)


@pytest.mark.ranks(2, 3)
def test_second_derivatives_are_those_of_one_process(hvd, tf, rank, world):
    batch = whole_batch(world, 0.0, (CHANNELS,)).astype("float64")
    own, weights = part(world, rank), weights_of(batch)

    def penalty(layer, values, factors):
        x = tf.constant(values)
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                loss = tf.reduce_sum(tf.sin(layer(x, training=True)) * factors)
            slope = inner.gradient(loss, x)
            total = tf.reduce_sum(tf.square(slope))
        return outer.gradient(total, x).numpy()

    expected = penalty(tf.keras.layers.BatchNormalization(dtype="float64"), batch, weights)
    mine = penalty(hvd.SyncBatchNormalization(dtype="float64", name="twice"), batch[own], weights[own])
    np.testing.assert_allclose(mine, expected[own], rtol=1e-6, atol=1e-6)
