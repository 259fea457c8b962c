"""Many collectives that wait at once, in small pools of TensorFlow's threads; several frameworks in one process."""

from __future__ import annotations

import os

import numpy as np
import pytest

MANY = 40


def check_many(tf, hvd, world):
    """Lists, single calls, rows, and calls that do not depend on one another; rank 1 comes late to some."""
    rank = hvd.rank()
    variables = [tf.Variable(tf.ones([3 + i])) for i in range(MANY)]

    @tf.function
    def function(x):
        with tf.GradientTape() as tape:
            loss = sum(tf.reduce_sum(variable * x) for variable in variables)
        gradients = hvd.DistributedGradientTape(tape).gradient(loss, variables)
        singles = [hvd.allreduce(x + i, op=hvd.Sum) for i in range(MANY)]
        rows = [hvd.allgather(tf.fill([i % 3 + rank], x)) for i in range(MANY)]
        slices = tf.IndexedSlices(tf.fill([2, 2], x), tf.constant([0, rank]), tf.constant([2, 2]))
        return gradients, singles, rows, hvd.allreduce(slices).values

    total = sum(range(1, world + 1))
    for _ in range(5):
        gradients, singles, rows, slices = function(tf.constant(rank + 1.0))
        for gradient in gradients:
            np.testing.assert_allclose(gradient, np.full(gradient.shape, total / world))
        np.testing.assert_allclose(singles, [total + world * i for i in range(MANY)])
        assert [len(each) for each in rows] == [sum(i % 3 + of for of in range(world)) for i in range(MANY)]
        assert slices.shape == (2 * world, 2)


def check_several_frameworks(tf, hvd):
    """One engine for all: calls of PyTorch, NumPy and TensorFlow in turn, and a gradient of each in one loop."""
    import torch

    import ronde.numpy
    import ronde.torch

    assert ronde.torch.rank() == hvd.rank() == ronde.numpy.rank()
    for i in range(20):
        handle = ronde.torch.allreduce_async(torch.full([3], float(i)), op=ronde.torch.Sum, name="several")
        from_tensorflow = hvd.allreduce(tf.fill([3], float(i)), op=hvd.Sum, name="of tensorflow")
        from_numpy = ronde.numpy.allreduce(np.full(3, float(i)), op=ronde.numpy.Sum, name="of numpy")
        for each in (ronde.torch.synchronize(handle), from_tensorflow, from_numpy):
            np.testing.assert_allclose(each, np.full(3, 2.0 * i))
    assert hvd.allreduce(tf.constant(1.0)).numpy() == ronde.torch.allreduce(torch.tensor(1.0)).item() == 1.0


@pytest.mark.ranks(2, fresh=True)
@pytest.mark.parametrize("threads", [1, pytest.param(2, marks=pytest.mark.long)])
def test_a_pool_of_few_threads(world, threads):
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    tf.config.threading.set_inter_op_parallelism_threads(threads)
    tf.config.threading.set_intra_op_parallelism_threads(1)
    import ronde.tensorflow as hvd

    check_many(tf, hvd, world)
    if threads == 2:
        check_several_frameworks(tf, hvd)


@pytest.mark.long
@pytest.mark.ranks(2, fresh=True)
def test_independent_calls_of_a_session(world):
    """A graph of version 1 runs in any order, with one thread too; the ranks make what they reduce in opposite orders."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    import ronde.tensorflow as hvd

    v1 = tf.compat.v1
    order = range(MANY) if hvd.rank() == 0 else reversed(range(MANY))
    with tf.Graph().as_default():
        x = v1.placeholder(tf.float32, [2])
        gradients = {i: x * i for i in order}
        from ronde.tensorflow._gradients import Settings, reduce_gradients

        reduced = reduce_gradients(Settings("lists"), [gradients[i] for i in range(MANY)])
        config = v1.ConfigProto(inter_op_parallelism_threads=1, intra_op_parallelism_threads=1)
        with v1.Session(config=config) as session:
            for _ in range(5):
                results = session.run(reduced, {x: [1.0, 1.0 + hvd.rank()]})
                for i, result in enumerate(results):
                    np.testing.assert_allclose(result, [i, 1.5 * i])
