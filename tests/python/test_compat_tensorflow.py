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
