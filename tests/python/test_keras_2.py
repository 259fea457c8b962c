"""Keras 2, as most public scripts need it: ``TF_USE_LEGACY_KERAS=1`` and the package tf_keras."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import keras_training as training
import numpy as np
import pytest

TOLERANCE = 1e-5
#: Of one of two ranks.
BATCH = training.GLOBAL_BATCH // 2


@pytest.mark.ranks(2, fresh=True)
def test_everything_in_horovods_words(world):
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(sys.prefix) / "without-dependencies"))  # where tools/frameworks puts tf_keras
    import tensorflow as tf
    import horovod.keras
    import horovod.tensorflow
    import horovod.tensorflow.keras as hvd

    assert tf.keras.optimizers.SGD.__module__.startswith("tf_keras.")
    assert horovod.keras.DistributedOptimizer is hvd.DistributedOptimizer
    hvd.init()
    for make in (
        lambda: tf.keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=0.5),
        lambda: tf.keras.optimizers.Adam(learning_rate=0.01),
        lambda: tf.keras.optimizers.legacy.SGD(lr=0.05, momentum=0.9),
        lambda: tf.keras.optimizers.legacy.Adam(0.01),
    ):
        check_fit(tf, hvd, make)
    check_passes(tf, hvd)
    check_callbacks_and_loading(tf, hvd)
    for optimizers in (tf.keras.optimizers, tf.keras.optimizers.legacy):
        check_resuming_on_rank_0(tf, hvd, optimizers)
    check_custom_loop(tf, horovod.tensorflow)
    check_batch_normalisation(tf, horovod.tensorflow)


def check_batch_normalisation(tf, hvd):
    batches = [np.random.default_rng(of).normal(of, 2, size=(5, 4, 4, 3)).astype("float32") for of in range(2)]
    alone = tf.keras.layers.BatchNormalization(fused=False)
    expected = alone(np.concatenate(batches), training=True)
    layer = hvd.SyncBatchNormalization()
    mine = layer(batches[hvd.rank()], training=True)
    np.testing.assert_allclose(mine, expected[5 * hvd.rank() : 5 * hvd.rank() + 5], atol=1e-4)
    np.testing.assert_allclose(layer.moving_variance, alone.moving_variance, atol=1e-4)
    batches = [batch + 10000 for batch in batches]
    masks = [np.random.default_rng(of).random((5, 4, 4)) < 0.3 + of / 2 for of in range(2)]
    left = np.concatenate(batches).astype("float64")[np.concatenate(masks)]
    layer = hvd.SyncBatchNormalization(momentum=0.0)
    layer(batches[hvd.rank()], training=True, mask=masks[hvd.rank()])
    np.testing.assert_allclose(layer.moving_mean, left.mean(0), rtol=1e-6)
    np.testing.assert_allclose(layer.moving_variance, left.var(0), rtol=1e-4)


def make_model(tf):
    return training.make_model(tf.keras)


def same_everywhere(hvd, model):
    everyones = hvd.allgather_object([weight.tobytes() for weight in model.get_weights()])
    assert all(each == everyones[0] for each in everyones)


def check_fit(tf, hvd, make):
    plain, expected = training.fit(tf.keras, make(), 0, 1, model=make_model(tf), run_eagerly=False)
    optimizer = hvd.DistributedOptimizer(make())
    assert type(optimizer).__name__ == type(make()).__name__
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model, losses = training.fit(
        tf.keras, optimizer, hvd.rank(), 2, callbacks, make_model(tf), experimental_run_tf_function=False
    )
    np.testing.assert_allclose(hvd.allreduce(losses), expected, atol=TOLERANCE)
    for mine, theirs in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
    same_everywhere(hvd, model)


def check_passes(tf, hvd):
    weights = tf.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(
        tf.keras.optimizers.SGD(1.0), backward_passes_per_step=2, average_aggregated_gradients=True
    )
    seen = []
    for value in (1.0, 3.0, 5.0, 7.0):
        optimizer.apply_gradients([(tf.constant([value + hvd.rank()]), weights)])
        seen.append(float(weights[0]))
    np.testing.assert_allclose(seen, [0.0, -2.5, -2.5, -9.0])


def check_resuming_on_rank_0(tf, hvd, optimizers):
    """As Horovod's examples do it: rank 0 loads a model whose optimizer has variables, the others begin afresh."""
    inputs, targets = training.make_data(hvd.rank(), 2, steps=2)
    with tempfile.TemporaryDirectory() as folder:
        model = make_model(tf)
        model.compile(optimizers.SGD(0.1, momentum=0.9), loss="mse")
        if hvd.rank() == 0:
            model.fit(inputs, targets, verbose=0)
            model.save(path := os.path.join(folder, "saved.h5"))
            model = hvd.load_model(path)
        else:
            model.compile(hvd.DistributedOptimizer(optimizers.SGD(0.1, momentum=0.9)), loss="mse")
        broadcast = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
        model.fit(inputs, targets, batch_size=BATCH, verbose=0, callbacks=[broadcast])
        same_everywhere(hvd, model)


def check_callbacks_and_loading(tf, hvd):
    model = make_model(tf)
    model.set_weights([weight + hvd.rank() for weight in model.get_weights()])
    model.compile(hvd.DistributedOptimizer(tf.keras.optimizers.SGD(0.1, momentum=0.9)), loss="mse", metrics=["mae"])
    inputs, targets = training.make_data(hvd.rank(), 2, steps=4)
    history = model.fit(inputs, targets, batch_size=BATCH, shuffle=False, epochs=4, verbose=0, callbacks=[
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, start_epoch=3),
    ]).history
    np.testing.assert_allclose(history["lr"], [0.075, 0.1, 0.1, 0.01], rtol=1e-5)
    same_everywhere(hvd, model)
    folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None, 0)
    path = os.path.join(folder, "saved.h5")
    if hvd.rank() == 0:
        model.save(path)
    hvd.broadcast_object(None, 0)
    loaded = hvd.load_model(path)
    hvd.broadcast_object(None, 0)
    if hvd.rank() == 0:
        shutil.rmtree(folder)
    variables = loaded.optimizer.variables
    assert int((variables() if callable(variables) else variables)[0]) == 16
    loaded.fit(inputs, targets, batch_size=BATCH, shuffle=False, verbose=0)
    same_everywhere(hvd, loaded)


def check_custom_loop(tf, hvd):
    """The loop of Horovod's own example: a tape, and a broadcast after the first batch."""
    model = make_model(tf)
    model.set_weights([weight * (1.0 + hvd.rank()) for weight in model.get_weights()])
    optimizer = tf.keras.optimizers.Adam(0.01 * hvd.size())

    @tf.function
    def step(inputs, targets, first):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(model(inputs, training=True) - targets))
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if first:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)
        return loss

    inputs, targets = training.make_data(hvd.rank(), 2, steps=5)
    for batch in range(5):
        step(inputs[batch * BATCH : (batch + 1) * BATCH], targets[batch * BATCH : (batch + 1) * BATCH], batch == 0)
    same_everywhere(hvd, model)
