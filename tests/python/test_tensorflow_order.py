"""Calls of several process sets in functions, whose order may differ from rank to rank, and what keeps its order all the same."""

from __future__ import annotations

import random
import time

import numpy as np
import pytest
from tensorflow_fixtures import hvd, rank, tf  # noqa: F401 - fixtures

MANY = 12


@pytest.fixture
def pair(hvd, rank):
    """Whose calls beside those of all ranks let a function run its calls in any order."""
    members = hvd.add_process_set([0, 1])
    yield members
    hvd.remove_process_set(members)


@pytest.fixture
def late(tf, rank):
    """Hands a tensor on, at times later: so ranks compute what they reduce in different orders."""
    delays = random.Random(rank)

    def wait(value):
        time.sleep(delays.choice([0.0, 0.0, 0.002]))
        return value

    def of(x):
        result = tf.numpy_function(wait, [x], tf.float32)
        result.set_shape(x.shape)
        return result

    return of


@pytest.mark.ranks(3)
def test_calls_of_a_set_in_a_gradient_beside_calls_of_all(hvd, tf, rank, world, pair):
    """The tape decides where the members' calls stand in the backward pass; ranks that are none make fewer."""
    of_all, of_members = tf.Variable(tf.ones([3])), tf.Variable(tf.ones([5]))

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(hvd.allreduce(of_all * x, op=hvd.Sum, name="all")) + tf.reduce_sum(of_members * x)
            if rank < 2:
                loss += tf.reduce_sum(hvd.allreduce(of_members * x, op=hvd.Sum, process_set=pair, name="set"))
        return tape.gradient(loss, [of_members, of_all])

    for _ in range(10):
        of_set, everyones = step(tf.constant(rank + 1.0))
        np.testing.assert_allclose(everyones, np.full(3, world * (rank + 1.0)))
        np.testing.assert_allclose(of_set, np.full(5, (rank + 1.0) * (3 if rank < 2 else 1)))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("what", ["reduced", "rows", "gradients"])
def test_calls_of_all_and_of_a_set_in_opposite_orders(hvd, tf, rank, world, what, pair):
    def one(x, i):
        group = {"name": f"opposite.{i}", "process_set": pair if i % 2 else hvd.global_process_set}
        if what == "rows":
            return hvd.allgather(x + float(i), **group)
        if what == "reduced":
            return hvd.allreduce(x + float(i), op=hvd.Sum, **group)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(hvd.allreduce(x * float(i), op=hvd.Sum, **group)) * (rank + 1.0)
        return tape.gradient(y, x)

    @tf.function
    def function(x):
        mine = [i for i in range(MANY) if rank < 2 or i % 2 == 0]
        return {str(i): one(x, i) for i in (mine if rank % 2 == 0 else reversed(mine))}

    for k in range(5):
        for i, result in function(tf.constant([float(rank + k)])).items():
            values = [of + k + int(i) for of in range(2 if int(i) % 2 else world)]
            gradient = [int(i) * sum(range(1, len(values) + 1))]
            np.testing.assert_allclose(result, {"reduced": [sum(values)], "rows": values, "gradients": gradient}[what])


@pytest.mark.ranks(3)
def test_a_function_called_again_meets_itself(hvd, tf, rank, world, late, pair):
    """It has one name for each of its calls: those of two of its runs must not change places."""

    @tf.function
    def inner(x):
        if rank < 2:
            hvd.allreduce(x, process_set=pair, name="of the pair")
        return hvd.allreduce(late(x), op=hvd.Sum, name="inner"), hvd.allgather(late(x), name="inner.rows")

    inner(tf.constant([0.0]))  # traced outside of what calls it

    @tf.function
    def several(x):
        return [inner(x + float(i)) for i in range(6)]

    @tf.function
    def loop(x):
        results = tf.TensorArray(tf.float32, 6)
        for i in tf.range(6):
            tf.autograph.experimental.set_loop_options(parallel_iterations=6)
            results = results.write(i, inner(x + tf.cast(i, tf.float32))[0])
        return results.stack()

    @tf.function
    def mapped(x):
        return tf.map_fn(lambda i: inner(x + i)[0], tf.range(6.0), parallel_iterations=6)

    @tf.function
    def mapped_itself(x):
        return tf.map_fn(lambda i: hvd.allreduce(late(x + i), op=hvd.Sum, name="m"), tf.range(6.0), parallel_iterations=6)

    for k in range(5):
        x = tf.constant([float(rank + k)])
        sums = [sum(of + k + i for of in range(world)) for i in range(6)]
        for i, (reduced, rows) in enumerate(several(x)):
            np.testing.assert_allclose(reduced, [sums[i]])
            np.testing.assert_allclose(rows, [of + k + i for of in range(world)])
        for function in (loop, mapped, mapped_itself):
            np.testing.assert_allclose(function(x)[:, 0], sums)


@pytest.mark.ranks(3)
def test_barriers_keep_their_place(hvd, tf, rank, world, late, pair):
    """What was made before a barrier has ended on this rank, and what was made after it has not begun."""
    ended = []

    def note(value):
        ended.append(float(value[0]))
        return value

    @tf.function
    def function(x):
        first = tf.numpy_function(note, [hvd.allreduce(late(x), op=hvd.Sum, name="before")], tf.float32)
        with tf.control_dependencies([first]):
            hvd.barrier()
        if rank < 2:
            hvd.allreduce(x, process_set=pair, name="of the pair")
        return first, hvd.allreduce(late(x + 1.0), op=hvd.Sum, name="after")

    for k in range(5):
        ended.clear()
        first, second = function(tf.constant([float(rank + k)]))
        total = sum(of + k for of in range(world))
        assert ended == [total]
        np.testing.assert_allclose(first, [total])
        np.testing.assert_allclose(second, [total + world])


@pytest.mark.ranks(3)
def test_join_comes_after_what_was_made_before_it(hvd, tf, rank, world, late, pair):
    """The joined rank makes nothing more: a call that came after the join would be one without this rank's values."""

    @tf.function
    def function(x):
        if rank < 2:
            hvd.allreduce(x, process_set=pair, name="of the pair")
        results = [hvd.allreduce(late(x + float(i)), op=hvd.Sum, name=f"before.{i}") for i in range(4)]
        return results, hvd.join()

    for k in range(5):
        results, last = function(tf.constant([float(rank + k)]))
        for i, result in enumerate(results):
            np.testing.assert_allclose(result, [sum(of + k + i for of in range(world))])
        assert 0 <= int(last) < world


@pytest.mark.ranks(2, 3)
def test_a_call_whose_result_nobody_uses_is_made(hvd, tf, rank, world):
    @tf.function
    def function(x):
        hvd.allreduce(x, op=hvd.Sum, name="nobody's")
        return x + 1.0

    for k in range(3):
        x = tf.constant([float(rank + k)])
        if rank == 0:
            np.testing.assert_allclose(function(x), x + 1.0)
        else:  # would wait for rank 0 until the limit
            np.testing.assert_allclose(hvd.allreduce(x, op=hvd.Sum, name="nobody's"), [sum(of + k for of in range(world))])


@pytest.mark.ranks(3)
def test_an_error_in_a_function_of_several_sets_is_told_on_all_ranks(hvd, tf, rank, world, pair):
    """Also where its operations hold no thread, and the next step is right."""

    @tf.function(input_signature=[tf.TensorSpec([None], tf.float32)])
    def function(x):
        if rank < 2:
            hvd.allreduce(x, process_set=pair, name="of the pair")
        return hvd.allreduce(x, op=hvd.Sum, name="of all")

    for k in range(3):
        with pytest.raises(tf.errors.InvalidArgumentError, match="of all"):
            function(tf.ones([3 if rank == 2 else 2]))
        np.testing.assert_allclose(function(tf.fill([4], float(rank + k))), np.full(4, sum(of + k for of in range(world))))
