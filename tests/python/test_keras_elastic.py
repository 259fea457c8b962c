"""Elastic training with Keras 3 on each backend: a rank fails between two batches, so that the others' step fails in the
middle, in compiled code where the backend compiles. All start again from the last commit."""

from __future__ import annotations

import importlib
import os
import time

import keras_training as training
import numpy as np
import pytest

BATCHES = 6


def made(keras, hvd):
    """With a layer that has a state of its own and is random: its seed is a variable too on JAX."""
    layers = keras.layers
    model = keras.Sequential(
        [keras.Input((6,)), layers.Dense(8), layers.BatchNormalization(), layers.Dropout(0.2), layers.Dense(1)]
    )
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9))
    model.compile(optimizer, loss="mse", metrics=["mae"])
    return model


@pytest.mark.ranks(2, fresh=True, deadline=300)
@pytest.mark.parametrize("backend", ["jax", "torch", pytest.param("tensorflow", marks=pytest.mark.long)])
def test_a_fit_goes_on_where_a_step_fails(backend):
    os.environ["KERAS_BACKEND"] = backend
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras = importlib.import_module("keras")
    hvd = importlib.import_module("ronde.keras")
    from ronde.exceptions import CollectiveError

    rank = hvd.rank()
    model = made(keras, hvd)
    inputs, targets = training.make_data(rank, 2, steps=BATCHES)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    starts, failed = [], []

    class Failing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if rank == 1 and not failed and (state.epoch, batch) == (1, 3):
                failed.append(state.batch)
                raise CollectiveError("reading data has failed")

    @hvd.elastic.run
    def train(state):
        starts.append((state.epoch, state.batch, int(model.optimizer.iterations)))
        model.fit(
            inputs, targets, batch_size=training.GLOBAL_BATCH // 2, shuffle=False, verbose=0, epochs=3 - state.epoch,
            callbacks=[
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.CommitStateCallback(state),
                Failing(),
            ],
        )

    train(state)
    assert starts == [(0, 0, 0), (1, 4, BATCHES + 4)]
    assert int(model.optimizer.iterations) == 3 * BATCHES  # an epoch that is begun again has what is left of it
    assert (state.epoch, state.batch) == (3, 0)
    assert all(np.isfinite(each).all() for each in model.get_weights())
    everyones = hvd.allgather_object([each.numpy().tobytes() for each in model.trainable_variables])
    assert everyones[0] == everyones[1]


@pytest.mark.ranks(2, fresh=True, deadline=300)
@pytest.mark.parametrize("backend", ["jax", pytest.param("torch", marks=pytest.mark.long)])
def test_news_of_hosts_leave_the_state_as_it_is(backend):
    """Keras's loop on JAX ends by putting moving averages in place of the weights, also where an exception leaves it."""
    os.environ["KERAS_BACKEND"] = backend
    keras = importlib.import_module("keras")
    hvd = importlib.import_module("ronde.keras")
    from ronde.elastic import notification_manager

    rank = hvd.rank()
    inputs, targets = training.make_data(rank, 2, steps=BATCHES)

    def batches(begin):
        for batch in range(begin, BATCHES):
            rows = slice(batch * training.GLOBAL_BATCH // 2, (batch + 1) * training.GLOBAL_BATCH // 2)
            yield inputs[rows], targets[rows]

    def trained(news_after):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8), keras.layers.Dense(1)])
        optimizer = keras.optimizers.SGD(0.05, momentum=0.9, use_ema=True, ema_momentum=0.5)
        model.compile(hvd.DistributedOptimizer(optimizer), loss="mse")
        state = hvd.elastic.KerasState(model, batch=0, epoch=0)
        starts = []

        class News(keras.callbacks.Callback):
            def on_train_batch_end(self, batch, logs=None):
                if rank == 0 and state.batch == news_after and len(starts) == 1:
                    notification_manager.handle_hosts_updated(time.time())

        @hvd.elastic.run
        def train(state):
            starts.append(state.batch)
            model.fit(
                batches(state.batch), steps_per_epoch=BATCHES, epochs=1, verbose=0,
                callbacks=[hvd.elastic.UpdateBatchStateCallback(state), News(), hvd.elastic.CommitStateCallback(state)],
            )

        train(state)
        return starts, [np.array(each) for each in model.get_weights()]

    (alone, expected), (starts, found) = trained(None), trained(3)
    assert (alone, starts) == ([0], [0, 3])
    for one, other in zip(found, expected):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(1, fresh=True, deadline=300)
@pytest.mark.parametrize("kind", ["KerasState", "TensorFlowState"])
def test_a_sync_that_fails_half_way_leaves_the_last_commit(kind):
    """Values were saved before the objects were there: training went on from a mixture of two states."""
    os.environ["KERAS_BACKEND"] = "tensorflow"
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    keras = importlib.import_module("keras")
    elastic = importlib.import_module("ronde.tensorflow").elastic
    hvd = importlib.import_module("ronde.keras")
    from ronde.exceptions import CollectiveError

    model = made(keras, hvd)
    state = hvd.elastic.KerasState(model, batch=2) if kind == "KerasState" else elastic.TensorFlowState(model.weights, batch=2)
    committed = [weight.numpy() for weight in model.weights]
    for weight in model.weights:
        weight.assign(weight + 1)
    state.batch = 4

    def fails(value):
        raise CollectiveError("no answer")

    state._bcast_object = fails
    with pytest.raises(CollectiveError, match="no answer"):
        state.sync()
    state.restore()
    assert all(np.array_equal(weight, before) for weight, before in zip(model.weights, committed)) and state.batch == 2


@pytest.mark.ranks(2, fresh=True, deadline=300)
@pytest.mark.parametrize("handler", ["1", pytest.param("0", marks=pytest.mark.long)], ids=["by XLA", "by Python"])
def test_on_jax_a_failed_step_says_what_has_failed(handler):
    """As Ronde's own error, with its class, whoever calls Ronde's library."""
    os.environ["KERAS_BACKEND"] = "jax"
    os.environ["RONDE_JAX_FFI"] = handler
    hvd = importlib.import_module("ronde.keras")
    import jax

    import ronde.jax as rj
    from ronde.exceptions import MismatchError

    rank = hvd.rank()
    state = hvd.elastic.KerasState(made(importlib.import_module("keras"), hvd))
    summed = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum, name="differs"))

    @hvd.elastic.run
    def train(state):
        del state
        summed(np.ones(2 + rank, np.float32)).block_until_ready()

    with pytest.raises(MismatchError, match="differs") as caught:
        train(state)
    assert type(caught.value.__cause__).__module__.startswith("jax") or isinstance(caught.value.__cause__, ValueError)

    @hvd.elastic.run
    def other(state):
        del state
        raise ValueError("not Ronde's")

    with pytest.raises(ValueError, match="^not Ronde's$"):
        other(state)


@pytest.mark.ranks(2, fresh=True)
def test_on_jax_one_of_many_calls_that_fail_at_once_is_known():
    """When a rank leaves, all calls under way end on the others, each with a sentence of its own."""
    import jax

    import ronde.jax as rj
    from ronde.exceptions import CollectiveError
    from ronde.jax._failures import own_error

    many = jax.jit(lambda x: [rj.allreduce(x + i, op=rj.Sum, name=f"many.{i}") for i in range(40)])
    x = np.ones(3, np.float32)
    rj.init()
    assert [float(each[0]) for each in many(x)] == [2.0 * (1 + i) for i in range(40)]
    rank = rj.rank()
    if rank == 0:
        with pytest.raises(Exception) as caught:
            jax.block_until_ready(many(x))
        assert isinstance(own_error(caught.value), CollectiveError), caught.value
    rj.shutdown()
    rj.init()
    assert float(many(x)[0][0]) == 2.0
