"""Keras 2: callbacks."""

from __future__ import annotations

import os
import sys
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


@pytest.mark.ranks(2, fresh=True, deadline=120)
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
