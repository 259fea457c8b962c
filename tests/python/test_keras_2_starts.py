"""Keras 2: ranks that start from different things, and graph mode."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import keras_training as training
import numpy as np
import pytest

#: Of one of two ranks.
BATCH = training.GLOBAL_BATCH // 2


@pytest.fixture
def hvd():
    """``horovod.tensorflow.keras`` in a process of the test's own, with Keras 2."""
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    sys.path.insert(0, str(Path(sys.prefix) / "without-dependencies"))  # where tools/frameworks puts tf_keras
    import horovod.tensorflow.keras as hvd

    hvd.init()
    return hvd


def unbuilt(tf):
    return tf.keras.Sequential([tf.keras.layers.Dense(8, activation="tanh"), tf.keras.layers.Dense(1)])


def values_of(variables):
    return [np.asarray(variable) for variable in (variables() if callable(variables) else variables)]


def same_everywhere(hvd, values):
    everyones = hvd.allgather_object([np.asarray(value).tobytes() for value in values])
    assert all(each == everyones[0] for each in everyones)


@pytest.mark.long
@pytest.mark.ranks(2, fresh=True)
def test_a_model_that_only_rank_0_has_built(hvd, world):
    import tensorflow as tf

    for optimizers in (tf.keras.optimizers, tf.keras.optimizers.legacy):
        for resumes in (False, True):
            check_start(tf, hvd, optimizers, resumes)


@pytest.mark.long
@pytest.mark.ranks(2, fresh=True)
def test_momentum_is_corrected_when_the_rate_changes(hvd, world):
    import tensorflow as tf

    for optimizers in (tf.keras.optimizers, tf.keras.optimizers.legacy):
        for kind in ("SGD", "RMSprop"):
            model = training.make_model(tf.keras)
            optimizer = hvd.DistributedOptimizer(getattr(optimizers, kind)(0.1, momentum=0.9))
            model.compile(optimizer, loss="mse")
            model.fit(*training.make_data(hvd.rank(), 2, steps=1), batch_size=BATCH, verbose=0)
            variables = optimizer.variables() if callable(optimizer.variables) else optimizer.variables
            kept = [variable for variable in variables if "momentum" in variable.name or "/m/" in variable.name]
            before = [variable.numpy() for variable in kept]
            callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
            callback.set_model(model)
            callback.set_params({"steps": 1})
            callback.on_train_begin()
            callback.on_epoch_begin(0)
            callback.on_train_batch_begin(0)
            assert len(kept) == len(model.trainable_variables)
            for variable, was in zip(kept, before):
                np.testing.assert_allclose(variable.numpy(), was / 2, rtol=1e-6)


def check_start(tf, hvd, optimizers, resumes):
    inputs, targets = training.make_data(hvd.rank(), 2, steps=4)
    model = unbuilt(tf)
    optimizer = optimizers.SGD(0.1, momentum=0.9)
    with tempfile.TemporaryDirectory() as folder:
        if hvd.rank() == 0 and resumes:
            model.compile(optimizer, loss="mse")
            model.fit(inputs, targets, batch_size=BATCH, verbose=0)
            model.save(path := os.path.join(folder, "saved.h5"))
            model = hvd.load_model(path)
        else:
            if hvd.rank() == 0:
                model.build((None, 6))
            model.compile(hvd.DistributedOptimizer(optimizer), loss="mse")
        model.fit(inputs, targets, batch_size=BATCH, verbose=0, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        ])
    steps = values_of(model.optimizer.variables)[0]
    assert int(steps) == 8 if resumes else 4
    same_everywhere(hvd, [*model.get_weights(), *values_of(model.optimizer.variables)])


@pytest.mark.long
@pytest.mark.ranks(2, fresh=True)
def test_graph_mode(hvd, world):
    import tensorflow as tf

    tf.compat.v1.disable_eager_execution()
    inputs, targets = training.make_data(hvd.rank(), 2, steps=4)
    for built in (True, hvd.rank() == 0):
        model = training.make_model(tf.keras, seed=hvd.rank()) if built else unbuilt(tf)
        optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.legacy.SGD(0.1, momentum=0.9))
        model.compile(optimizer, loss="mse", metrics=["mae"])
        history = model.fit(inputs, targets, batch_size=BATCH, shuffle=False, epochs=4, verbose=0, callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2),
            hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, start_epoch=3),
        ]).history
        np.testing.assert_allclose(history["lr"], [0.075, 0.1, 0.1, 0.01], rtol=1e-5)
        same_everywhere(hvd, [*model.get_weights(), *optimizer.get_weights(), history["loss"]])
        assert int(optimizer.get_weights()[0]) == 16
        state = hvd.elastic.KerasState(model, epoch=0)
        kept = model.get_weights()
        model.set_weights([weight + 1 for weight in kept])
        state.restore()
        for mine, was in zip(model.get_weights(), kept):
            np.testing.assert_array_equal(mine, was)
        state.sync()
