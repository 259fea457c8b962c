"""ronde.tensorflow: calls in functions that a tf.function calls, which TensorFlow runs at once where they read a variable."""

from __future__ import annotations

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures


def late(tf, iterations):
    """Nothing, as late as so many products of matrices make it."""
    product = tf.ones((200, 200))
    for _ in tf.range(iterations):
        product = tf.sin(product @ product)
    return 0 * product[0, 0]


def makers(hvd, tf, folder):
    """Functions of an array and of how late they are that make a call, and read a variable."""
    variable = tf.Variable(tf.ones(3))
    signature = [tf.TensorSpec([3]), tf.TensorSpec([], tf.int32)]

    def plain(x, iterations):
        return hvd.allreduce(x + late(tf, iterations), op=hvd.Sum) * variable

    def branch(x, iterations):
        if x[0] > -1.0:
            y = hvd.allreduce(x + late(tf, iterations), op=hvd.Sum) * variable
        else:
            y = variable
        return y

    def loop(x, iterations):
        y = x
        for _ in tf.range(1):
            y = hvd.allreduce(x + late(tf, iterations), op=hvd.Sum) * variable
        return y

    functions = {
        each.__name__: tf.function(each, input_signature=signature, autograph=True) for each in (plain, branch, loop)
    }
    module = tf.Module()
    module.variable, module.function = variable, functions["plain"]
    tf.saved_model.save(module, str(folder))
    loaded = tf.saved_model.load(str(folder))
    loaded.function.keeps = loaded  # its variable with it
    return {**functions, "loaded": loaded.function}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("which", ["plain", "branch", "loop", "loaded"])
def test_a_function_that_is_called_twice(hvd, tf, rank, world, tmp_path, which):
    """Its calls have one name: sums of the two were the result, with success, where ranks came to them in another order."""
    function = makers(hvd, tf, tmp_path / str(rank))[which]

    @tf.function
    def twice(x, first, then):
        return function(x, first), function(10 * x, then)

    @tf.function
    def beside(x, first, then):
        return function(x, first), hvd.allreduce(10 * x + late(tf, then), op=hvd.Sum)

    x = tf.fill([3], rank + 1.0)
    first, then = (tf.constant(each) for each in ((0, 100) if rank else (100, 0)))
    found = []
    for step in (twice, beside, twice, beside, twice):
        found.append([np.asarray(each) for each in step(x, first, then)])
        hvd.barrier()
    total = world * (world + 1) / 2
    np.testing.assert_array_equal(found, [[[total] * 3, [10 * total] * 3]] * 5)


@pytest.mark.ranks(2)
def test_gradients_of_a_function_that_is_called_twice(hvd, tf, rank, world, tmp_path):
    function = makers(hvd, tf, tmp_path / str(rank))["plain"]

    @tf.function
    def gradients(x, y, first, then):
        with tf.GradientTape() as tape:
            tape.watch([x, y])
            total = tf.reduce_sum(function(x, first) * x) + tf.reduce_sum(function(y, then) * (rank + 1.0))
        return tape.gradient(total, [x, y])

    x, y = tf.fill([3], rank + 1.0), tf.fill([3], 2.0)
    first, then = (tf.constant(each) for each in ((0, 100) if rank else (100, 0)))
    sums = world * (world + 1) / 2
    for _ in range(3):
        of_x, of_y = gradients(x, y, first, then)
        np.testing.assert_array_equal(of_x, np.full(3, sums + sums))
        np.testing.assert_array_equal(of_y, np.full(3, sums))
        hvd.barrier()


def with_late_gradient(tf, x, iterations):
    """The array, whose gradient is there so late."""
    identity = tf.custom_gradient(lambda x: (x, lambda gradient: gradient + late(tf, iterations)))
    return identity(x)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("tapes", ["one", "persistent", "two", "none"])
def test_gradients_that_are_there_at_different_moments(hvd, tf, rank, world, tapes):
    """TensorFlow chains nothing in a function's gradient: it ran twice at once, with one name, and gave sums of the two."""
    @tf.function
    def inner(x):
        return hvd.allreduce(x, op=hvd.Sum) * 3.0 + hvd.allreduce(2.0 * x, op=hvd.Sum)

    outer = tf.function(lambda x: inner(x) + inner(0.0 * x))

    def parts(function, x, y, first, then):
        of_x = tf.reduce_sum(with_late_gradient(tf, function(x), first))
        return of_x, tf.reduce_sum(with_late_gradient(tf, function(y), then) * (rank + 1.0))

    def gradients(function, x, y, *when):
        if tapes == "none":
            return tf.gradients(sum(parts(function, x, y, *when)), [x, y])
        if tapes == "two":
            with tf.GradientTape() as of_x, tf.GradientTape() as of_y:
                of_x.watch(x)
                of_y.watch(y)
                first, then = parts(function, x, y, *when)
            return of_x.gradient(first, x), of_y.gradient(then, y)
        with tf.GradientTape(persistent=tapes == "persistent") as tape:
            tape.watch([x, y])
            first, then = parts(function, x, y, *when)
            total = first + then
        return tape.gradient(total, [x, y]) if tapes == "one" else (tape.gradient(first, x), tape.gradient(then, y))

    steps = [tf.function(lambda *given, each=each: gradients(each, *given)) for each in (inner, outer)]
    when = [tf.constant(each) for each in ((0, 100) if rank else (100, 0))]
    x, y = tf.fill([3], rank + 1.0), tf.fill([3], 5.0)
    found = []
    for step in 2 * steps:
        found.append([np.asarray(each) for each in step(x, y, *when)])
        hvd.barrier()
    expected = [[5.0 * world] * 3, [5.0 * world * (world + 1) / 2] * 3]
    np.testing.assert_array_equal(found, [expected] * 4)


@pytest.mark.ranks(2)
def test_training_functions_of_different_variables(hvd, tf, rank, world):
    """TensorFlow ordered them by their variables only, and their gradients have the same names."""
    def trainer(variable, scale):
        def train(x, iterations):
            with tf.GradientTape() as tape:
                loss = tf.reduce_sum(variable * (scale * x + late(tf, iterations)))
            [gradient] = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, [variable])
            variable.assign_sub(gradient)
            return gradient

        return tf.function(train)

    variables = [tf.Variable(tf.zeros(3)) for _ in range(2)]
    one, other = trainer(variables[0], 1.0), trainer(variables[1], 10.0)

    @tf.function
    def step(x, first, then):
        return one(x, first), other(x, then)

    x = tf.fill([3], rank + 1.0)
    first, then = (tf.constant(each) for each in ((0, 100) if rank else (100, 0)))
    found = []
    for _ in range(5):
        found.append([np.asarray(each) for each in step(x, first, then)])
        hvd.barrier()
    total = world * (world + 1) / 2
    np.testing.assert_array_equal(found, [[[total] * 3, [10 * total] * 3]] * 5)
    np.testing.assert_array_equal([np.asarray(each) for each in variables], [[-5 * total] * 3, [-50 * total] * 3])


@pytest.mark.ranks(2)
def test_a_function_that_one_rank_has_traced_before(hvd, tf, rank, world):
    """Another rank, whose batch has another size, traces it within a second function: the call had that one's name there."""
    @tf.function
    def mean_loss(x):
        return hvd.allreduce(tf.reduce_mean(x))

    @tf.function
    def step(x):
        return 2 * mean_loss(x)

    assert float(mean_loss(tf.ones(8))) == 1.0
    for _ in range(3):
        assert float(step(tf.ones(5 if rank == 0 else 8))) == 2.0


@pytest.mark.ranks(2)
@pytest.mark.parametrize("which", ["plain", "loop", "branch", "nested", "recomputed", "twice"])
def test_a_call_in_a_gradient_has_one_name_whatever_a_rank_has_done(hvd, tf, rank, world, which):
    """TensorFlow's name of a function's gradient, of which the call's is made, has a number that counts what the process has
    done: the ranks' calls did not meet, or met those of another function's gradient, with success."""
    @tf.custom_gradient
    def scaled(x):
        return 1.0 * x, lambda gradient: hvd.allreduce(gradient, op=hvd.Sum)

    def loop(x):
        for _ in tf.range(2):
            x = scaled(x)
        return x

    def branch(x):
        if x[0] > 0.0:
            y = scaled(x)
        else:
            y = x
        return y

    inner = tf.function(scaled)
    functions = {
        "plain": scaled, "loop": loop, "branch": branch, "nested": lambda x: inner(x) + 1.0,
        "recomputed": tf.recompute_grad(lambda x: scaled(tf.identity(x))), "twice": lambda x: inner(x) + inner(2.0 * x),
    }
    function = tf.function(functions[which])
    times = {"loop": world**2, "twice": 3 * world}.get(which, world)
    count = tf.Variable(0)
    for number in range(3):
        for _ in range(5 * rank):
            count.assign_add(1)
        x = tf.fill([3 + (number == 1) * rank], 2.0)  # the second is traced anew on one rank
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(function(x)[:3] * (number + 1.0))
        if number != 1:
            np.testing.assert_array_equal(tape.gradient(y, x), np.full(3, times * (number + 1.0)))


@pytest.mark.ranks(2)
def test_gradients_of_calls_in_py_functions(hvd, tf, rank, world):
    """They ran at once, in another order on each rank, and were added to each other's."""

    def total(value):
        return hvd.allreduce(value, op=hvd.Sum)

    @tf.function
    def weighed(x, y, z):
        a, b, c = [tf.py_function(total, [value], tf.float32) for value in (x, y, z)]
        return 2 * a + 3 * b + 5 * c

    found = []
    for step in range(40):
        inputs = [tf.constant([first + rank + step * 1.0]) for first in (1, 10, 100)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            result = weighed(*inputs)
        found.append((float(result[0]), [float(each[0]) for each in tape.gradient(result, inputs)]))
    for step, (result, gradients) in enumerate(found):
        assert result == sum(weight * (2 * first + 2 * step + 1) for weight, first in ((2, 1), (3, 10), (5, 100)))
        assert gradients == [4.0, 6.0, 10.0], step
