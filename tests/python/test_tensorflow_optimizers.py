"""Optimizers, layers and states of TensorFlow outside of ``model.fit``: custom loops, and sessions of ``tf.compat.v1``."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures
from test_adasum import tree


@pytest.mark.ranks(2, 3)
def test_a_custom_loop_steps_alike_on_all_ranks(hvd, tf, rank, world):
    """Each rank's own batches; the same as one process with all of them."""
    inputs = np.random.default_rng(3).normal(size=(6 * world, 4)).astype("float32")

    def train(examples, distributed):
        weights = tf.Variable(tf.ones([4, 1]) * (1.0 + rank * distributed))
        optimizer = tf.keras.optimizers.SGD(0.1, momentum=0.9)
        if distributed:
            hvd.broadcast_variables([weights], root_rank=0)

        @tf.function
        def step(batch):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(batch @ weights - tf.reduce_sum(batch, 1, keepdims=True) * 2))
            if distributed:
                tape = hvd.DistributedGradientTape(tape)
            optimizer.apply_gradients([(tape.gradient(loss, weights), weights)])
            return loss

        for _ in range(10):
            step(tf.constant(examples))
        return weights.numpy()

    np.testing.assert_allclose(train(inputs[rank::world], True), train(inputs, False), rtol=1e-5)


@pytest.mark.ranks(2)
def test_sessions(hvd, tf, rank, world):
    """Public scripts of TensorFlow 1: an optimizer, a hook, and operations in a graph."""
    v1 = tf.compat.v1
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        weights = v1.get_variable("weights", initializer=tf.fill([2], 1.0 + rank))
        loss = tf.reduce_sum(weights * x)
        optimizer = hvd.DistributedOptimizer(v1.train.MomentumOptimizer(0.5, 0.9))
        step = optimizer.minimize(loss, global_step=v1.train.get_or_create_global_step())
        total, rows = hvd.allreduce(x, op=hvd.Sum), hvd.allgather(x, name="rows")
        assert total.shape == (2,) and hvd.size_op().shape == ()
        assert optimizer.get_slot_names() == ["momentum"]
        with v1.train.MonitoredTrainingSession(hooks=[hvd.BroadcastGlobalVariablesHook(0)]) as session:
            np.testing.assert_allclose(session.run(weights), [1.0, 1.0])
            for _ in range(2):
                _, summed, gathered = session.run([step, total, rows], {x: [1.0, 2.0 + rank]})
                np.testing.assert_allclose(summed, [2.0, 5.0])
                np.testing.assert_allclose(gathered, [1.0, 2.0, 1.0, 3.0])
            # Two steps of momentum with the gradient [1, 2.5].
            np.testing.assert_allclose(session.run(weights), 1 - 0.5 * np.array([1.0, 2.5]) * (1 + 1.9), rtol=1e-6)
    with tf.Graph().as_default(), v1.Session() as session:
        variable = v1.get_variable("v", initializer=float(rank))
        broadcast = hvd.broadcast_global_variables(1)
        session.run(v1.global_variables_initializer())
        session.run(broadcast)
        assert session.run(variable) == 1.0
        state = hvd.elastic.TensorFlowState(session=session, step=rank)
        session.run(variable.assign(5.0 + rank))
        state.restore()
        assert session.run(variable) == 1.0
        session.run(variable.assign(5.0 + rank))
        state.sync()
        assert session.run(variable) == 5.0 and state.step == 0


@pytest.mark.ranks(2)
def test_passes_and_adasum_of_version_1(hvd, tf, rank):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [])
        weights = v1.get_variable("weights", initializer=0.0)
        optimizer = hvd.DistributedOptimizer(
            v1.train.GradientDescentOptimizer(1.0), backward_passes_per_step=2, average_aggregated_gradients=True
        )
        step = optimizer.minimize(weights * x)
        session.run(v1.global_variables_initializer())
        seen = []
        for value in (1.0, 3.0, 5.0, 7.0):
            session.run(step, {x: value + rank})
            seen.append(float(session.run(weights)))
        np.testing.assert_allclose(seen, [0.0, -2.5, -2.5, -9.0])
    weights = tf.Variable([1.0, 1.0])
    optimizer = hvd.DistributedOptimizer(v1.train.GradientDescentOptimizer(1.0), op=hvd.Adasum)
    gradient = tf.constant([1.0, 0.0] if rank == 0 else [0.0, 2.0])  # orthogonal: both count in full
    optimizer.apply_gradients([(gradient, weights)])
    np.testing.assert_allclose(weights, [0.0, -1.0], rtol=1e-6)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("use_resource", [False, True], ids=["reference", "resource"])
def test_adasum_of_version_1_is_of_what_steps_have_changed(hvd, tf, rank, world, use_resource):
    """Each rank's momentum is its own; what Adasum makes of the ranks' steps is in NumPy here."""
    v1 = tf.compat.v1
    steps = np.random.default_rng(4).normal(size=(5, world, 3)).astype("float32") + 0.5
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [3])
        weights = v1.get_variable("weights", initializer=tf.ones([3]), use_resource=use_resource)
        table = v1.get_variable("table", initializer=tf.ones([4, 3]), use_resource=use_resource)
        optimizer = hvd.DistributedOptimizer(v1.train.MomentumOptimizer(0.5, 0.9), op=hvd.Adasum)
        step = optimizer.minimize(tf.reduce_sum(weights * x) + tf.reduce_sum(tf.gather(table, [1]) * x))
        session.run(v1.global_variables_initializer())
        expected = np.ones(3)
        momentum = np.zeros((world, 3))
        for gradients in steps:
            session.run(step, {x: gradients[rank]})
            momentum = 0.9 * momentum + gradients
            expected = expected + tree(list(-0.5 * momentum))
            rows = session.run(table)
            np.testing.assert_allclose(session.run(weights), expected, rtol=1e-5)
            np.testing.assert_allclose(rows, [[1.0] * 3, expected, [1.0] * 3, [1.0] * 3], rtol=1e-5)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_gradients_are_added_up(hvd, tf, rank, traced):
    reductions = []

    def reduce(gradients, variables):
        reductions.append(len(gradients))
        return [hvd.allreduce(gradient, name=f"added.{i}") for i, gradient in enumerate(gradients)]

    helper = hvd.LocalGradientAggregationHelper(2, reduce, average_aggregated_gradients=False)
    variables = [tf.Variable([1.0]), tf.Variable([0.0])]

    def step(x):
        added = helper.compute_gradients([x, None], variables)
        helper.apply_gradients(lambda: variables[0].assign(-added[0]))
        return added[0]

    function = tf.function(step) if traced else step
    for x, expected in ((1.0, 1.0), (2.0, -4.0), (5.0, -4.0), (6.0, -12.0)):
        function(tf.constant([x + rank]))
        np.testing.assert_allclose(variables[0], [expected])
    with pytest.raises(ValueError, match="expected 1 or more"):
        hvd.LocalGradientAggregationHelper(0, reduce)


@pytest.mark.ranks(2)
def test_a_gradient_of_an_earlier_pass_counts_in_its_step(hvd, tf, rank):
    """The last pass of a step may have none for a variable that the first had one for, and a step none at all."""

    def reduce(gradients, variables):
        return [hvd.allreduce(gradient, op=hvd.Sum, name=variable.name) for gradient, variable in zip(gradients, variables)]

    helper = hvd.LocalGradientAggregationHelper(2, reduce)
    variables = [tf.Variable([0.0], name="always"), tf.Variable([0.0], name="sometimes")]
    for first, last, expected in ((1.0, None, 3.0), (None, None, None), (None, 2.0, 5.0), (1.0, 1.0, 6.0)):
        given = [None if each is None else tf.constant([each + rank]) for each in (first, last)]
        assert helper.compute_gradients([tf.ones(1), given[0]], variables)[1] is None or first is not None
        always, sometimes = helper.compute_gradients([tf.ones(1), given[1]], variables)
        assert float(always[0]) == 4.0
        assert sometimes is None if expected is None else float(sometimes[0]) == expected


@pytest.mark.ranks(1, 2, 3)
def test_batch_normalisation_over_all_ranks(hvd, tf, rank, world):
    batches = [np.random.default_rng(of).normal(of, 1 + of, size=(4 + of, 3)).astype("float32") for of in range(world)]
    weights = np.random.default_rng(9).normal(size=(sum(map(len, batches)), 3)).astype("float32")
    first = sum(map(len, batches[:rank]))

    def run(layer, batch, factors):
        x = tf.constant(batch)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = layer(x, training=True)
            loss = tf.reduce_sum(y * factors)
        return y, tape.gradient(loss, x), layer.moving_mean.numpy()

    alone = run(tf.keras.layers.BatchNormalization(), np.concatenate(batches), weights)
    mine = run(hvd.SyncBatchNormalization(name="sync"), batches[rank], weights[first : first + len(batches[rank])])
    own = slice(first, first + len(batches[rank]))
    np.testing.assert_allclose(mine[0], alone[0][own], atol=1e-4)
    np.testing.assert_allclose(mine[1], alone[1][own], atol=1e-4)
    np.testing.assert_allclose(mine[2], alone[2], atol=1e-5)


@pytest.mark.ranks(2)
def test_an_elastic_state_of_keras(hvd, tf, rank):
    from ronde.exceptions import CollectiveError

    model = tf.keras.Sequential([tf.keras.Input((2,)), tf.keras.layers.Dense(1, use_bias=False)])
    optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.1))
    model.layers[0].kernel.assign([[1.0 + rank], [2.0]])
    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0)
    starts = []

    @tf.function
    def failing():
        return hvd.allreduce(tf.zeros([1 + rank]), name=f"failing.{len(starts)}")

    @hvd.elastic.run
    def train(state):
        starts.append(state.batch)
        optimizer.apply([tf.ones([2, 1])], model.trainable_variables)
        state.batch += 1
        if len(starts) == 1:
            state.commit()
            model.layers[0].kernel.assign([[9.0], [9.0]])
            state.batch = 77
            raise CollectiveError("a deadline has passed")
        return model.layers[0].kernel.numpy()

    kernel = train(state)
    assert starts == [0, 1]
    np.testing.assert_allclose(kernel, [[0.8], [1.8]], atol=1e-4)
    with pytest.raises(CollectiveError, match="disagree"):  # TensorFlow's error is taken as Ronde's, and not tried again
        hvd.elastic.run(lambda _: failing())(state)
