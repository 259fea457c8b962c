"""``model.fit`` of Keras 3: several ranks do what one process does with the same global batches."""

from __future__ import annotations

import copy
import importlib
import os
import pickle
import shutil
import tempfile

import keras_training as training
import numpy as np
import pytest

KINDS = ["sgd", "adam", "clipped", "ema", "accumulating", "scaled"]
TOLERANCE = 1e-5


@pytest.fixture
def keras():
    """Keras 3 on the backend of this process, TensorFlow unless a test has said otherwise."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    return importlib.import_module("keras")


@pytest.fixture
def hvd(keras):
    return importlib.import_module("ronde.keras")


def check_fit(keras, hvd, rank, world, kind):
    plain, expected = training.fit(keras, training.make_optimizer(keras, kind), 0, 1)
    optimizer = training.make_optimizer(keras, kind)
    distributed = hvd.DistributedOptimizer(optimizer)
    assert distributed is optimizer and type(optimizer).__name__ == type(training.make_optimizer(keras, kind)).__name__
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
    model, losses = training.fit(keras, optimizer, rank, world, callbacks)
    averaged = hvd.allreduce(losses)
    np.testing.assert_allclose(averaged, expected, atol=TOLERANCE)
    assert len(losses) == training.STEPS and expected[-1] < expected[0]
    for mine, theirs in zip(model.get_weights(), plain.get_weights()):
        np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
    everyones = hvd.allgather_object([weight.tobytes() for weight in model.get_weights()])
    assert all(each == everyones[0] for each in everyones)
    assert int(optimizer.iterations) == int(plain.optimizer.iterations) > 0


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", KINDS)
def test_on_tensorflow(keras, hvd, world, kind):
    check_fit(keras, hvd, hvd.rank(), world, kind)


@pytest.mark.ranks(1, 3, 4, long=(3, 4))
def test_on_tensorflow_with_other_numbers_of_ranks(keras, hvd, world):
    check_fit(keras, hvd, hvd.rank(), world, "adam")


@pytest.mark.ranks(2, fresh=True, deadline=300)
@pytest.mark.parametrize("backend", ["torch", "jax"])
@pytest.mark.parametrize("kinds", [["adam", "accumulating"], pytest.param(KINDS, marks=pytest.mark.long)], ids=["two", "all"])
def test_on_another_backend(world, backend, kinds):
    os.environ["KERAS_BACKEND"] = backend
    keras = importlib.import_module("keras")
    assert keras.backend.backend() == backend
    hvd = importlib.import_module("ronde.keras")
    for kind in kinds:
        check_fit(keras, hvd, hvd.rank(), world, kind)
    check_callbacks(keras, hvd, hvd.rank(), world)
    check_saving(keras, hvd, world)


def check_callbacks(keras, hvd, rank, world):
    """All that come with Ronde at once, from other weights on each rank."""
    model = training.make_model(keras, seed=rank)
    rate = 0.1
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(rate, momentum=0.9))
    model.compile(optimizer=optimizer, loss="mse", metrics=["mae"])
    inputs, targets = training.make_data(rank, world, steps=4)
    folder = hvd.broadcast_object(tempfile.mkdtemp() if rank == 0 else None, 0)
    path = os.path.join(folder, "best.keras")
    callbacks = [
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback(),
        hvd.callbacks.LearningRateWarmupCallback(rate, warmup_epochs=2),
        hvd.callbacks.LearningRateScheduleCallback(rate, 0.1, start_epoch=3),
        hvd.callbacks.BestModelCheckpoint(monitor="loss", filepath=path),
    ]
    try:
        history = model.fit(
            inputs, targets, batch_size=training.GLOBAL_BATCH // world, shuffle=False, epochs=4, verbose=0, callbacks=callbacks
        ).history
        hvd.broadcast_object(None, 0)
        assert os.path.exists(path)
    finally:
        hvd.broadcast_object(None, 0)
        if rank == 0:
            shutil.rmtree(folder)
    everyones = hvd.allgather_object((history, [weight.tobytes() for weight in model.get_weights()]))
    assert all(each == everyones[0] for each in everyones)
    np.testing.assert_allclose(history["lr"], [rate * (1 + 1 / world) / 2, rate, rate, rate / 10], rtol=1e-6)


@pytest.mark.ranks(2)
def test_callbacks(keras, hvd, world):
    check_callbacks(keras, hvd, hvd.rank(), world)


def check_saving(keras, hvd, world):
    """A saved model is a plain one, and goes on as a distributed one where it was."""
    folder = hvd.broadcast_object(tempfile.mkdtemp() if hvd.rank() == 0 else None, 0)
    model, _ = training.fit(keras, hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), hvd.rank(), world)
    for ending in ("keras", "h5"):
        path = os.path.join(folder, f"saved.{ending}")
        if hvd.rank() == 0:
            model.save(path)
        hvd.broadcast_object(None, 0)
        plain = keras.models.load_model(path)
        assert "ronde" not in type(plain.optimizer).__module__ and not hasattr(plain.optimizer, "register_local_var")
        loaded = hvd.load_model(path)
        assert int(loaded.optimizer.iterations) == training.STEPS
        assert len(loaded.optimizer.variables) == len(model.optimizer.variables)
        inputs, targets = training.make_data(hvd.rank(), world, steps=3)
        loaded.fit(inputs, targets, batch_size=training.GLOBAL_BATCH // world, shuffle=False, verbose=0)
        everyones = hvd.allgather_object([weight.tobytes() for weight in loaded.get_weights()])
        assert all(each == everyones[0] for each in everyones)
    if hvd.rank() == 0:
        shutil.rmtree(folder)


@pytest.mark.ranks(2)
def test_saving_and_going_on(keras, hvd, world):
    check_saving(keras, hvd, world)


def change_rate(hvd, model):
    """To 0.05."""
    callback = hvd.callbacks.LearningRateScheduleCallback(0.1, 0.5)
    callback.set_model(model)
    callback.set_params({"steps": 1})
    callback.on_train_begin()
    callback.on_epoch_begin(0)
    callback.on_train_batch_begin(0)
    assert float(model.optimizer.learning_rate.numpy()) == pytest.approx(0.05)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", ["SGD", "RMSprop", "Adam", "Muon"])
def test_momentum_is_corrected_when_the_rate_changes(keras, hvd, kind):
    """Where it has the rate in it: what SGD and RMSprop keep are steps, what Adam and Muon keep are gradients."""
    if not hasattr(keras.optimizers, kind):
        return  # Muon, in Keras before 3.10
    model = training.make_model(keras)
    momentum = {"momentum": 0.9} if kind in ("SGD", "RMSprop") else {}
    optimizer = hvd.DistributedOptimizer(getattr(keras.optimizers, kind)(0.1, **momentum))
    model.compile(optimizer=optimizer, loss="mse")
    inputs, targets = training.make_data(hvd.rank(), 2, steps=1)
    model.fit(inputs, targets, batch_size=training.GLOBAL_BATCH // 2, verbose=0)
    before = {variable.path: variable.numpy() for variable in optimizer.variables}
    change_rate(hvd, model)
    halved = 0
    for variable in optimizer.variables:
        if variable.path.endswith("learning_rate"):
            continue
        factor = 0.5 if momentum and "momentum" in variable.path else 1.0
        halved += factor == 0.5
        np.testing.assert_allclose(variable.numpy(), before[variable.path] * factor, rtol=1e-6)
    assert halved == (len(model.trainable_variables) if momentum else 0)


@pytest.mark.ranks(2)
def test_mixed_precision_steps_on_all_ranks_or_on_none(keras, hvd):
    """`compile` puts the optimizer into one that scales the loss: that one has to reduce, or the rank whose gradients are not
    finite would leave the others waiting."""
    model = training.make_model(keras)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
    outer = keras.optimizers.LossScaleOptimizer(optimizer, initial_scale=2.0)
    assert type(optimizer).__name__ == "SGD" and hasattr(outer, "register_local_var")
    model.compile(optimizer=outer, loss="mse")
    inputs, targets = training.make_data(hvd.rank(), 2, steps=2)
    half = training.GLOBAL_BATCH // 2
    if hvd.rank() == 1:
        inputs[:half] = np.inf  # its first batch
    before = model.get_weights()
    model.train_on_batch(inputs[:half], targets[:half])
    for mine, old in zip(model.get_weights(), before):
        np.testing.assert_array_equal(mine, old)
    model.train_on_batch(inputs[half:], targets[half:])
    assert any((mine != old).any() for mine, old in zip(model.get_weights(), before))
    assert float(outer.dynamic_scale.numpy()) == 1.0


def ranks_differ(hvd, model, optimizer):
    """After a step, each rank on its own data and all from the same weights."""
    model.set_weights([np.full(weight.shape, 0.1) for weight in model.get_weights()])
    model.compile(optimizer=optimizer, loss="mse")
    inputs, targets = training.make_data(hvd.rank(), 2, steps=1)
    model.train_on_batch(inputs, targets)
    everyones = hvd.allgather_object([weight.tobytes() for weight in model.get_weights()])
    return any(each != everyones[0] for each in everyones)


@pytest.mark.ranks(2)
def test_an_optimizer_stays_distributed_however_often_it_is_compiled(keras, hvd):
    assert ranks_differ(hvd, training.make_model(keras), keras.optimizers.SGD(0.05)), "the data of the ranks do"
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.05))
    keras.config.set_dtype_policy("mixed_float16")
    try:
        half = training.make_model(keras)
        assert not ranks_differ(hvd, half, optimizer)
        assert not ranks_differ(hvd, half, optimizer), "compiled again"
    finally:
        keras.config.set_dtype_policy("float32")
    assert not ranks_differ(hvd, training.make_model(keras), hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)))


@pytest.mark.ranks(2)
def test_copies_are_distributed_and_pickles_are_plain(keras, hvd):
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(0.05))
    copies = [copy.deepcopy(optimizer), type(optimizer).from_config(optimizer.get_config()), type(optimizer)(0.05)]
    for each in copies:
        assert not ranks_differ(hvd, training.make_model(keras), each)
    plain = pickle.loads(pickle.dumps(optimizer))
    assert type(plain) is keras.optimizers.Adam and ranks_differ(hvd, training.make_model(keras), plain)


@pytest.mark.ranks(2)
def test_passes_are_accumulated(keras, hvd):
    for average, rate in ((True, 0.06), (False, 0.03)):
        plain, _ = training.fit(
            keras, keras.optimizers.SGD(0.06, gradient_accumulation_steps=2), 0, 1
        )
        optimizer = hvd.DistributedOptimizer(
            keras.optimizers.SGD(rate), backward_passes_per_step=2, average_aggregated_gradients=average
        )
        model, _ = training.fit(keras, optimizer, hvd.rank(), 2)
        for mine, theirs in zip(model.get_weights(), plain.get_weights()):
            np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)
    with pytest.raises(ValueError, match="give one of the two"):
        hvd.DistributedOptimizer(keras.optimizers.SGD(gradient_accumulation_steps=3), backward_passes_per_step=2)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("passes", [1, 2])
@pytest.mark.parametrize("local", ["", "scale", "first", "second"])
def test_variables_that_gradients_overwrite(keras, hvd, rank, world, passes, local):
    """As scales of float8: Keras assigns them, before it clips what else there is."""
    variables = {name: keras.Variable(np.zeros(2, "float32"), name=name) for name in ("scale", "first", "second")}
    variables["scale"].overwrite_with_gradient = True
    optimizer = hvd.DistributedOptimizer(
        keras.optimizers.SGD(1.0), backward_passes_per_step=passes, average_aggregated_gradients=True
    )
    if local:
        optimizer.register_local_var(variables[local])
    optimizer.build(list(variables.values()))
    for _ in range(passes):
        gradients = [keras.ops.full((2,), (rank + 1.0) * scale) for scale in (1, 10, 100)]
        optimizer.apply(gradients, list(variables.values()))
    average = (world + 1) / 2
    expected = {"scale": world, "first": -10 * average, "second": -100 * average}
    own = (rank + 1.0) / world  # of one that is local, scaled as by Horovod, but for what is no gradient
    if local:
        expected[local] = {"scale": rank + 1.0, "first": -10 * own, "second": -100 * own}[local]
    for name, variable in variables.items():
        np.testing.assert_allclose(keras.ops.convert_to_numpy(variable), [expected[name]] * 2, rtol=1e-6)


@pytest.mark.ranks(2)
def test_a_broadcast_while_passes_are_accumulated(keras, hvd, rank, world):
    """Each rank's share stays its own: the first fit ends with three batches, of which the optimizer has applied two."""
    inputs, targets = training.make_data(0, 1, steps=3)
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.06, gradient_accumulation_steps=2))
    plain, model = (training.make_model(keras, seed) for seed in (0, rank))
    plain.compile(keras.optimizers.SGD(0.06, gradient_accumulation_steps=2), "mse")
    model.compile(optimizer, "mse")
    batch = training.GLOBAL_BATCH
    for _ in range(2):
        plain.fit(inputs, targets, batch_size=batch, shuffle=False, verbose=0)
        model.fit(inputs[rank::world], targets[rank::world], batch_size=batch // world, shuffle=False, verbose=0,
                  callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
        for mine, theirs in zip(model.get_weights(), plain.get_weights()):
            np.testing.assert_allclose(mine, theirs, atol=TOLERANCE)


@pytest.mark.ranks(2)
def test_layers_of_each_ranks_own(keras, hvd):
    model = training.make_model(keras)
    optimizer = hvd.PartialDistributedOptimizer(keras.optimizers.SGD(0.05), local_layers=model.layers[0])
    training.fit(keras, optimizer, hvd.rank(), 2, model=model)
    kernels = hvd.allgather_object([layer.kernel.numpy() for layer in model.layers])
    assert (kernels[0][0] != kernels[1][0]).any()
    np.testing.assert_array_equal(kernels[0][1], kernels[1][1])


@pytest.mark.ranks(2)
def test_what_is_refused(keras, hvd):
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD())
    with pytest.raises(ValueError, match="is a DistributedOptimizer already"):
        hvd.DistributedOptimizer(optimizer)
    with pytest.raises(ValueError, match="takes an optimizer of Keras 3, not builtins.str"):
        hvd.DistributedOptimizer("sgd")
    with pytest.raises(NotImplementedError, match="broadcast_variables"):
        hvd.broadcast_global_variables(0)
    model = training.make_model(keras)
    model.compile(optimizer=optimizer, loss="mse", jit_compile=True)
    with pytest.raises(NotImplementedError, match=r"jit_compile=False"):
        model.fit(*training.make_data(hvd.rank(), 2, steps=1), verbose=0)
    with pytest.raises(ValueError, match="the ranks have"):
        hvd.broadcast_variables(model.weights[: 1 + hvd.rank()], 0)


@pytest.mark.ranks(2, 3, long=(3,))
def test_values(keras, hvd, world):
    rank = hvd.rank()
    np.testing.assert_array_equal(hvd.allreduce([1.0, rank], op=hvd.Sum), [world, sum(range(world))])
    np.testing.assert_array_equal(hvd.allgather(keras.ops.convert_to_tensor([rank])), np.arange(world))
    np.testing.assert_array_equal(hvd.broadcast(np.array([rank]), 1), [1])
    np.testing.assert_array_equal(hvd.reducescatter(np.arange(world), op=hvd.Sum), [world * rank])


@pytest.mark.ranks(2)
@pytest.mark.parametrize(("failing", "at", "goes_on_at"), [(0, 4, 4), (1, 4, 4), (0, 5, 5), (1, 6, 6)])
def test_elastic_training_goes_on_in_the_middle_of_an_accumulation(keras, hvd, failing, at, goes_on_at):
    """One rank has failed between two commits; the other is one commit ahead, since it hears of that in the next."""
    from ronde.exceptions import CollectiveError

    rank, world, batches = hvd.rank(), hvd.size(), 12
    inputs, targets = training.make_data(0, 1, steps=batches)
    size = training.GLOBAL_BATCH

    def made(distributed):
        model = training.make_model(keras)
        optimizer = keras.optimizers.SGD(0.1, gradient_accumulation_steps=3)
        model.compile(hvd.DistributedOptimizer(optimizer) if distributed else optimizer, loss="mse")
        return model

    alone, model = made(False), made(True)
    for batch in range(batches):
        alone.train_on_batch(inputs[batch * size : (batch + 1) * size], targets[batch * size : (batch + 1) * size])
    state = hvd.elastic.KerasState(model, batch=0)
    starts = []

    @hvd.elastic.run
    def train(state):
        starts.append(state.batch)
        while state.batch < batches:
            if rank == failing and state.batch == at and len(starts) == 1:
                raise CollectiveError("reading data has failed")
            own = slice(state.batch * size + rank, (state.batch + 1) * size, world)
            model.train_on_batch(inputs[own], targets[own])
            state.batch += 1
            state.commit()

    train(state)
    assert starts == [0, goes_on_at]
    for mine, expected in zip(model.get_weights(), alone.get_weights()):
        np.testing.assert_allclose(mine, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.ranks(2)
def test_elastic_training_goes_on_from_its_last_commit(keras, hvd):
    from ronde.exceptions import CollectiveError

    model = training.make_model(keras, seed=hvd.rank())
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05, momentum=0.9)), loss="mse")
    inputs, targets = training.make_data(hvd.rank(), 2, steps=6)
    state = hvd.elastic.KerasState(model, batch=0, epoch=0)
    starts = []

    class Failing(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if len(starts) == 1 and state.epoch == 1 and batch == 3:
                raise CollectiveError("a deadline has passed")

    @hvd.elastic.run
    def train(state):
        starts.append((state.epoch, state.batch, int(model.optimizer.iterations)))
        model.fit(
            inputs, targets, batch_size=training.GLOBAL_BATCH // 2, shuffle=False, verbose=0, epochs=3 - state.epoch,
            callbacks=[
                hvd.elastic.UpdateBatchStateCallback(state),
                hvd.elastic.UpdateEpochStateCallback(state),
                hvd.elastic.CommitStateCallback(state, batches_per_commit=4),
                Failing(),
            ],
        )

    train(state)
    # The commit at the end of the first epoch, after 6 batches; the fourth of the next one failed after its own commit.
    assert starts == [(0, 0, 0), (1, 4, 10)]
    assert int(model.optimizer.iterations) == 3 * 6  # an epoch that is begun again has what is left of it
    assert (state.epoch, state.batch) == (3, 0)
    everyones = hvd.allgather_object([weight.tobytes() for weight in model.get_weights()])
    assert everyones[0] == everyones[1]
