"""Gradients that flow through operations, and ``DistributedGradientTape``."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures


def gradient_of(tf, function, x):
    """Of the sum of what the function makes of it."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        loss = tf.reduce_sum(function(x))
    return tape.gradient(loss, x)


def both_ways(tf, function, x):
    """Eager, and traced."""
    return [gradient_of(tf, function, x), tf.function(lambda y: gradient_of(tf, function, y))(x)]


@pytest.mark.ranks(1, 2, 3)
def test_through_allreduce(hvd, tf, rank, world):
    x = tf.constant([1.0, 2.0])
    for gradient in both_ways(tf, lambda y: hvd.allreduce(y, op=hvd.Sum) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, np.full(2, sum(range(1, world + 1))))
    for gradient in both_ways(tf, lambda y: hvd.allreduce(y) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, np.full(2, (world + 1) / 2))
    for gradient in both_ways(tf, lambda y: sum(hvd.grouped_allreduce([y, 2 * y], op=hvd.Sum)), x):
        np.testing.assert_allclose(gradient, np.full(2, 3.0 * world))
    for gradient in both_ways(tf, lambda y: hvd.allreduce(y, compression=hvd.Compression.fp16), x):
        np.testing.assert_allclose(gradient, np.ones(2))


@pytest.mark.ranks(1, 2, 3)
def test_through_gathers(hvd, tf, rank, world):
    x = tf.fill([rank + 1, 2], 1.0)
    weights = tf.range(world * (world + 1) / 2)[:, None] * (1.0 + rank)
    first = rank * (rank + 1) // 2
    expected = np.arange(first, first + rank + 1) * (world + 1) / 2
    for gradient in both_ways(tf, lambda y: hvd.allgather(y) * weights, x):
        np.testing.assert_allclose(gradient, np.stack([expected] * 2, 1))
    for gradient in both_ways(tf, lambda y: hvd.grouped_allgather([y, y])[1] * weights, x):
        np.testing.assert_allclose(gradient, np.stack([expected] * 2, 1))


@pytest.mark.ranks(2, 3)
def test_through_broadcast_alltoall_and_reducescatter(hvd, tf, rank, world):
    x = tf.fill([world], 1.0)
    for gradient in both_ways(tf, lambda y: hvd.broadcast(y, 1) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, np.full(world, (world + 1) / 2 if rank == 1 else 0.0))
    for gradient in both_ways(tf, lambda y: hvd.alltoall(y) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, np.arange(world) + 1.0)
    for gradient in both_ways(tf, lambda y: hvd.alltoall(y[:rank], splits=[rank] + [0] * (world - 1))[0] * 3.0, x):
        np.testing.assert_allclose(gradient, [3.0] * rank + [0.0] * (world - rank))
    for gradient in both_ways(tf, lambda y: hvd.reducescatter(y, op=hvd.Sum) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, world * (np.arange(world) + 1.0))
    for gradient in both_ways(tf, lambda y: hvd.reducescatter(y) * (rank + 1.0), x):
        np.testing.assert_allclose(gradient, np.arange(world) + 1.0)


@pytest.mark.ranks(2)
def test_second_derivatives(hvd, tf, rank):
    x = tf.constant(3.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            total = hvd.allreduce(x, op=hvd.Sum)
            y = total * total
        first = inner.gradient(y, x)  # of both ranks' y
    np.testing.assert_allclose(first, 2 * 2 * 6.0)
    np.testing.assert_allclose(outer.gradient(first, x), 2 * 2 * 2.0)


def gradients_of_tape(hvd, tf, rank, x, variables, **arguments):
    with tf.GradientTape() as tape:
        loss = sum(tf.reduce_sum(variable * x) for variable in variables[:2])
    tape = hvd.DistributedGradientTape(tape, **arguments)
    assert isinstance(tape, tf.GradientTape)
    return tape.gradient(loss, variables)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
def test_tape(hvd, tf, rank, world, traced):
    variables = [tf.Variable(tf.ones([n])) for n in (1, 4, 2)]  # the third has no gradient
    arguments = (
        {},
        {"groups": 1},
        {"groups": 2},
        {"num_groups": 5},
        {"groups": [[variables[1], variables[0]]]},
        {"groups": [[variables[1]]]},
        {"gradient_predivide_factor": 2.0},
        {"compression": hvd.Compression.fp16},
        {"op": hvd.Sum},
    )
    for given in arguments:

        def gradients(x, given=given):
            return gradients_of_tape(hvd, tf, rank, x, variables, **given)

        function = tf.function(gradients) if traced else gradients
        for _ in range(2):
            result = function(tf.constant(rank + 1.0))
            factor = world if given.get("op") == hvd.Sum else 1
            assert result[2] is None
            np.testing.assert_allclose(result[0], [factor * (world + 1) / 2], rtol=1e-3)
            np.testing.assert_allclose(result[1], np.full(4, factor * (world + 1) / 2), rtol=1e-3)


@pytest.mark.ranks(2)
def test_structures_and_ways_to_open_a_tape(hvd, tf, rank):
    x = tf.Variable([1.0 + rank])
    with hvd.DistributedGradientTape(tf.GradientTape(persistent=True)) as tape:
        y = x * x
    nested = tape.gradient(y, {"a": x, "b": [x]})
    np.testing.assert_allclose(nested["a"], [3.0])
    np.testing.assert_allclose(nested["b"][0], [3.0])
    np.testing.assert_allclose(tape.gradient(y, x, output_gradients=tf.constant([2.0])), [6.0])
    local, reduced = tape.get_local_and_global_gradients(y, [x])
    np.testing.assert_allclose(local[0], [2.0 * (1 + rank)])
    np.testing.assert_allclose(reduced[0], [3.0])
    with tf.GradientTape() as tape:  # wrapped before the block ends
        tape = hvd.DistributedGradientTape(tape)
        y = x * x
    np.testing.assert_allclose(tape.gradient(y, x), [3.0])
    with pytest.raises(ValueError, match="takes a tf.GradientTape, not int"):
        hvd.DistributedGradientTape(3)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("scale", [True, False])
def test_local_sources(hvd, tf, rank, scale):
    variables = [tf.Variable([1.0]), tf.Variable([1.0])]
    with tf.GradientTape() as tape:
        y = sum(variables) * (rank + 1.0)
    tape = hvd.DistributedGradientTape(tape, scale_local_gradients=scale)
    tape.register_local_source(variables[1])
    reduced = tape.gradient(y, variables)
    np.testing.assert_allclose(reduced[0], [1.5])
    np.testing.assert_allclose(reduced[1], [(rank + 1.0) / (2 if scale else 1)])


@pytest.mark.ranks(2)
def test_local_layers(hvd, tf, rank):
    layers = [tf.keras.layers.Dense(1, use_bias=False) for _ in range(2)]
    model = tf.keras.Sequential([tf.keras.Input((1,)), *layers])
    for variable in model.trainable_variables:
        variable.assign(tf.ones_like(variable))
    with tf.GradientTape() as tape:
        y = model(tf.constant([[1.0 + rank]]))
    tape = hvd.PartialDistributedGradientTape(tape, local_layers=layers[0], scale_local_gradients=False)
    reduced = tape.gradient(y, model.trainable_variables)
    np.testing.assert_allclose(reduced[0], [[1.0 + rank]])
    np.testing.assert_allclose(reduced[1], [[1.5]])
    with pytest.raises(ValueError, match="layers of Keras, not str"):
        hvd.PartialDistributedGradientTape(tf.GradientTape(), local_layers="dense")


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("dense", [False, True], ids=["slices", "dense"])
def test_slices_of_an_embedding(hvd, tf, rank, world, traced, dense):
    table = tf.Variable(tf.ones([world + 1, 2]))
    weight = tf.Variable([1.0])

    def gradients():
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.gather(table, [rank, rank, world])) * weight
        tape = hvd.DistributedGradientTape(tape, sparse_as_dense=dense)
        return tape.gradient(y, [table, weight])

    for _ in range(2):
        of_table, of_weight = (tf.function(gradients) if traced else gradients)()
        assert isinstance(of_table, tf.IndexedSlices) != dense
        expected = np.full((world + 1, 2), 2.0 / world)
        expected[world] = 1.0
        np.testing.assert_allclose(tf.convert_to_tensor(of_table), expected, rtol=1e-6)
        np.testing.assert_allclose(of_weight, [6.0], rtol=1e-6)


@pytest.mark.ranks(2)
def test_arguments_that_do_not_fit(hvd, tf):
    tape = tf.GradientTape()
    for arguments, text in (
        ({"gradient_predivide_factor": 2.0, "op": hvd.Sum}, "needs op=Average"),
        ({"gradient_predivide_factor": 0.0}, "is 0"),
        ({"num_groups": 2, "groups": 1}, "not both"),
        ({"groups": -1}, "expected 0"),
        ({"op": 99}, "none of Average"),
    ):
        with pytest.raises(ValueError, match=text):
            hvd.DistributedGradientTape(tape, **arguments)


@pytest.mark.ranks(2)
def test_ranks_with_other_gradients_are_told(hvd, tf, rank):
    """In eager mode at once; a gradient that is missing must not make the other rank wait."""
    variables = [tf.Variable([1.0]), tf.Variable([1.0])]
    with tf.GradientTape() as tape:
        y = variables[0] * (variables[1] if rank == 0 else 1.0)
    with pytest.raises(hvd.HorovodInternalError, match="the ranks disagree|did not"):
        hvd.DistributedGradientTape(tape).gradient(y, variables)
    assert hvd.allreduce(tf.constant(1.0), op=hvd.Sum, name="after").numpy() == 2.0


@pytest.mark.ranks(1)
def test_one_request_for_several_gradients_is_known_by_all_their_places(hvd, tf):
    """It was by the first: a rank's second gradient was added to another one of another rank, with success."""
    from ronde.tensorflow._gradients import _text_of

    assert _text_of([0]) == _text_of([0, 1]) == _text_of([0, 1, 2]) == "0"  # these differ in number, which is compared
    assert _text_of([3, 4]) == "3"
    others = [_text_of(places) for places in ([0, 2], [0, 3], [0, 1, 3], [1, 3])]
    assert len({"0", *others}) == 5 and all(each.startswith(("0.", "1.")) for each in others)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("traced", [False, True], ids=["eager", "traced"])
@pytest.mark.parametrize("is_sparse", [False, True], ids=["dense", "sparse"])
def test_gradients_of_gradients(hvd, tf, rank, world, traced, is_sparse):
    """A penalty on the gradients of all ranks, as one process with all batches has it."""
    inputs = np.random.default_rng(3).normal(size=(2 * world, 3)).astype("float32")
    rows = np.random.default_rng(5).integers(0, 4, size=2 * world)
    table = tf.Variable(np.random.default_rng(4).normal(size=(4, 3)).astype("float32"))
    bias = tf.Variable(tf.ones([3]))
    variables = [table, bias]

    def slope_of_penalty(batch, picked, distributed):
        with tf.GradientTape() as outer:
            with tf.GradientTape() as inner:
                weights = tf.gather(table, picked) if is_sparse else tf.matmul(batch, table, transpose_b=True)[:, :3]
                loss = tf.reduce_mean(tf.exp(weights * batch * 0.3 + bias * 0.1) ** 2)
            if distributed:
                inner = hvd.DistributedGradientTape(inner, num_groups=0 if is_sparse else 1)
            slopes = inner.gradient(loss, variables)
            assert not is_sparse or isinstance(slopes[0], tf.IndexedSlices)
            penalty = tf.add_n([tf.reduce_sum(tf.convert_to_tensor(slope) ** 2 * (1.0 + place))
                                for place, slope in enumerate(slopes)])
        if distributed:
            outer = hvd.DistributedGradientTape(outer, sparse_as_dense=True)
        return [tf.convert_to_tensor(each) for each in outer.gradient(penalty, variables)]

    function = tf.function(slope_of_penalty) if traced else slope_of_penalty
    expected = slope_of_penalty(tf.constant(inputs), tf.constant(rows), False)
    own = slice(2 * rank, 2 * rank + 2)
    for mine, alone in zip(function(tf.constant(inputs[own]), tf.constant(rows[own]), True), expected):
        np.testing.assert_allclose(mine, alone, rtol=1e-4, atol=1e-6)


@pytest.mark.ranks(2)
def test_forward_mode(hvd, tf, rank, world):
    """In eager mode TensorFlow reduced the tangents twice, with success."""
    def tangent_of(function):
        x, tangent = tf.constant([1.0 + rank]), tf.constant([10.0 + rank])
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            y = function(x)
        return np.asarray(accumulator.jvp(y))

    def total(x):
        return hvd.allreduce(x, op=hvd.Sum)

    np.testing.assert_array_equal(tangent_of(tf.function(total)), [21.0])
    with pytest.raises(NotImplementedError, match="forward-mode.*put them in a tf.function"):
        tangent_of(total)

    def within(x, tangent, function):
        with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
            y = function(x)
        return accumulator.jvp(y)

    traced = tf.function(within, autograph=False)
    given = tf.constant([1.0 + rank]), tf.constant([10.0 + rank])
    np.testing.assert_array_equal(traced(*given, tf.function(total)), [21.0])
    with pytest.raises(NotImplementedError, match="forward-mode"):
        traced(*given, total)
    with pytest.raises(NotImplementedError, match="forward-mode"):
        tangent_of(lambda x: hvd.allgather(2.0 * x))
    assert float(total(tf.constant(1.0))) == world
