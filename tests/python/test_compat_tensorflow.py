"""Horovod's modules for TensorFlow and Keras: every public name is there, and is Ronde's own object."""

from __future__ import annotations

import importlib

import pytest
from compat_tensorflow_names import NAMES
from tensorflow_fixtures import hvd, tf  # noqa: F401 - fixtures


@pytest.mark.ranks(1)
def test_names(hvd):
    for module, names in NAMES.items():
        loaded = importlib.import_module(module)
        assert {name for name in names if not hasattr(loaded, name)} == set(), f"{module} lacks these"


@pytest.mark.ranks(1)
def test_they_are_the_same_objects(hvd):
    for module in NAMES:
        if module.endswith("_eager"):
            continue
        loaded = importlib.import_module(module)
        ours = importlib.import_module(module.replace("horovod.", "ronde."))
        for name in NAMES[module]:
            if not name.startswith("_") and name not in ("elastic", "callbacks") and hasattr(ours, name):
                assert getattr(loaded, name) is getattr(ours, name), f"{module}.{name}"


@pytest.mark.ranks(1)
def test_a_script_in_horovods_words(hvd, tf):
    import horovod.keras
    import horovod.tensorflow
    import horovod.tensorflow.keras

    assert horovod.tensorflow.mpi_ops._allreduce(tf.constant(2.0)).numpy() == 2.0
    assert horovod.tensorflow.handle_average_backwards_compatibility(None, None) == horovod.tensorflow.Average
    assert horovod.tensorflow._make_subgraph(lambda: tf.constant(3))().numpy() == 3
    assert horovod.tensorflow.refs_to_vars(horovod.tensorflow.vars_to_refs([tf.Variable(1)]))[0].numpy() == 1
    assert horovod.keras.callbacks.MetricAverageCallback is horovod.keras._live.ronde_keras.callbacks.MetricAverageCallback
    assert horovod.keras.DistributedOptimizer.__module__ == "ronde.keras.optimizer"


@pytest.mark.ranks(1)
def test_horovods_private_modules(hvd, tf):
    import horovod.tensorflow.util as util

    import horovod._keras as shared
    import horovod._keras.callbacks

    counted = []
    once = util._cache(lambda number: counted.append(number) or number + 1)
    assert (once(1), once(1), counted) == (2, 2, [1]) and util._executing_eagerly()
    assert util._make_subgraph(lambda: tf.constant(3))().numpy() == 3
    variables = [tf.Variable(1), tf.Variable(2)]
    assert [each.numpy() for each in util.refs_to_vars(util.vars_to_refs(variables))] == [1, 2]

    class Warmup(horovod._keras.callbacks.LearningRateWarmupCallbackImpl, tf.keras.callbacks.Callback):
        def __init__(self, initial_lr):
            super().__init__(tf.keras.backend, initial_lr, 2)

    class Broadcast(horovod._keras.callbacks.BroadcastGlobalVariablesCallbackImpl, tf.keras.callbacks.Callback):
        def __init__(self):
            super().__init__(tf.keras.backend, 0)

    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1)])
    optimizer = shared.create_distributed_optimizer(
        tf.keras, tf.keras.optimizers.SGD(0.1), None, "", "", hvd.Compression.none, False
    )
    model.compile(optimizer, loss="mse")
    history = model.fit(tf.ones([4, 2]), tf.ones([4, 1]), verbose=0, callbacks=[Broadcast(), Warmup(0.1)]).history
    assert history["lr"] == [pytest.approx(0.1)]
    assert float(shared.allreduce(tf.keras.backend, 2.0)) == 2.0
    assert horovod.tensorflow._DistributedOptimizer is hvd.DistributedOptimizer
