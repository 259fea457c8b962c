"""ronde.tensorflow: collectives eagerly, in tf.function and in a session of tf.compat.v1; the tape; SyncBatchNormalization."""

from __future__ import annotations

from typing import Any

import numpy as np
import ronde.tensorflow as hvd
import tensorflow as tf
import training
from checks import Checks, check_collectives

tf.get_logger().setLevel("ERROR")  # it warns of functions that are traced anew for each check
hvd.init()
checks = Checks(hvd.rank(), hvd.size())
checks.holds("two ranks", hvd.size() == 2, hvd.size())
check_collectives(checks, hvd, tf.constant, "eager")
check_collectives(checks, hvd, tf.constant, "function", lambda function, *tensors: tf.function(function)(*tensors))

slices = tf.IndexedSlices(tf.constant(checks.mine("sparse", (2, 3))), tf.constant([hvd.rank(), 2]), tf.constant([4, 3]))
reduced = hvd.allreduce(slices, op=hvd.Sum)
dense = np.zeros((4, 3), "float32")
for rank, rows in enumerate(checks.all_of("sparse", (2, 3))):
    np.add.at(dense, [rank, 2], rows)
checks.same("sparse", tf.math.unsorted_segment_sum(reduced.values, reduced.indices, 4), dense)

for traced in (False, True):
    called = tf.function(lambda x: hvd.allreduce(x, name="mismatch")) if traced else lambda x: hvd.allreduce(x, name="mismatch")
    try:
        called(tf.zeros(3 + hvd.rank()))
        found = "no error"
    except (tf.errors.OpError if traced else hvd.RondeError) as error:
        found = str(error)
    checks.holds("a mismatch is told", "mismatch" in found and "shape" in found, found)


def learn(traced: bool) -> Any:
    """The weights after all steps of this rank's part."""
    weights = tf.Variable(training.first_weights(hvd.rank()))
    velocity = tf.Variable(tf.zeros_like(weights))
    hvd.broadcast_variables([weights], root_rank=0)

    def step(inputs: Any, targets: Any) -> None:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - targets))
        [gradient] = hvd.DistributedGradientTape(tape).gradient(loss, [weights])
        velocity.assign(training.MOMENTUM * velocity + gradient)
        weights.assign_sub(training.RATE * velocity)

    called = tf.function(step) if traced else step
    for inputs, targets in training.batches(training.part(hvd.rank(), hvd.size()), hvd.size()):
        called(tf.constant(inputs), tf.constant(targets))
    return weights


checks.same("tape", learn(False), training.learnt_alone())
checks.same("tape in a function", learn(True), training.learnt_alone())

# Two calls of a function that reads a variable: in order only where TensorFlow has the chain that is thought of.
ones = tf.Variable(tf.ones(3))


@tf.function
def reduced(x: Any, late: Any) -> Any:
    """The sum, late by so many products."""
    product = tf.ones((200, 200))
    for _ in tf.range(late):
        product = tf.sin(product @ product)
    return hvd.allreduce(x + 0 * product[0, 0], op=hvd.Sum) * ones


@tf.function
def twice(x: Any, first: Any, then: Any) -> Any:
    """Of x, and of ten times that."""
    return tf.stack([reduced(x, first), reduced(10 * x, then)])


@tf.function
def products(late: Any) -> Any:
    """0, late by so many."""
    product = tf.ones((200, 200))
    for _ in tf.range(late):
        product = tf.sin(product @ product)
    return 0 * product[0, 0]


@tf.custom_gradient
def passed(x: Any, late: Any) -> Any:
    """The array, whose gradient is late."""
    return x, lambda gradient: (gradient + products(late), None)


@tf.function
def gradients(x: Any, factor: Any, first: Any, then: Any) -> Any:
    """Of x in one call of the function and in another: their calls are in order only where functions' gradients are seen."""
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        one = passed(reduced(x, 0), first) * factor
        other = passed(reduced(x, 0), then) * factor * 10.0
    return tf.stack([tape.gradient(one, x), tape.gradient(other, x)])


first, then = (tf.constant(each) for each in ((0, 100) if hvd.rank() else (100, 0)))
for _ in range(3):
    factor = tf.constant(checks.mine("nested gradients", (3,)))
    flows = np.sum(checks.all_of("nested gradients", (3,)), 0, dtype="float32")
    checks.same("nested gradients", gradients(tf.ones(3), factor, first, then), np.stack([flows, 10 * flows]), 1e-5)
    hvd.barrier()
for _ in range(3):
    total = np.sum(checks.all_of("nested", (3,)), 0, dtype="float32")
    checks.same("nested", twice(tf.constant(checks.mine("nested", (3,))), first, then), np.stack([total, 10 * total]), 1e-5)

with tf.Graph().as_default(), tf.compat.v1.Session() as session:
    result = session.run(hvd.allreduce(tf.constant(checks.mine("session", (5,))), op=hvd.Sum, name="session"))
checks.same("session", result, np.sum(checks.all_of("session", (5,)), 0, dtype="float32"))

layer = hvd.SyncBatchNormalization(momentum=0.0)
alone = tf.keras.layers.BatchNormalization(momentum=0.0)
scaled = [each * (rank + 1) for rank, each in enumerate(checks.all_of("batch", (8, 4, 3)))]
expected = alone(tf.constant(np.concatenate(scaled)), training=True)
# One row is spoiled, not the whole batch, which would come out the same.
mine = checks.mine("batch", (8, 4, 3))
mine[1:] = checks.all_of("batch", (8, 4, 3))[hvd.rank()][1:]
normalized = layer(tf.constant(mine * np.float32(hvd.rank() + 1)), training=True)
checks.same("SyncBatchNormalization", normalized, np.split(expected.numpy(), hvd.size())[hvd.rank()], 1e-4)
checks.same("its mean", layer.moving_mean, alone.moving_mean, 1e-4)
checks.same("object", np.asarray(hvd.allgather_object(float(checks.mine("object", (1,))[0])), "float32"),
            np.concatenate(checks.all_of("object", (1,))))
checks.end()
