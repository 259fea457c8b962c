"""A network that reads digits, in a loop of one's own with TensorFlow: a tape whose gradients are averaged over the ranks.

    ronde run -n 2 -- python examples/tensorflow/mnist.py

The images are made, in the form of MNIST (28 x 28, ten classes). The ranks share each batch of --batch images, so one rank and several take
the same steps, but for rounding.
"""

from __future__ import annotations

import argparse
from typing import Iterator

import numpy as np
import tensorflow as tf

import ronde.tensorflow as hvd

Batch = tuple[np.ndarray, np.ndarray]


def made_images(count: int, seed: int) -> Batch:
    """Ten patterns, moved and under noise: images of float32 from 0 to 1, and their classes."""
    generator = np.random.default_rng(seed)
    patterns = np.kron(generator.uniform(0.0, 1.0, (10, 7, 7)), np.ones((4, 4)))
    labels = generator.integers(0, 10, count)
    moved = np.stack([np.roll(patterns[label], generator.integers(-2, 3, 2), (0, 1)) for label in labels])
    return (0.6 * moved + 0.4 * generator.uniform(size=moved.shape)).astype(np.float32), labels.astype(np.int32)


class Network(tf.Module):
    """A convolution of 3 x 3, one hidden layer, and ten outputs."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        generator = tf.random.Generator.from_seed(seed)
        self.filters = tf.Variable(generator.normal([3, 3, 1, 8]) / 3.0)
        self.hidden = tf.Variable(generator.normal([14 * 14 * 8, 64]) / 40.0)
        self.hidden_bias = tf.Variable(tf.zeros([64]))
        self.out = tf.Variable(generator.normal([64, 10]) / 8.0)
        self.out_bias = tf.Variable(tf.zeros([10]))

    def __call__(self, images: tf.Tensor) -> tf.Tensor:
        found = tf.nn.relu(tf.nn.conv2d(images[..., tf.newaxis], self.filters, 2, "SAME"))
        found = tf.nn.relu(tf.reshape(found, [-1, 14 * 14 * 8]) @ self.hidden + self.hidden_bias)
        return found @ self.out + self.out_bias


def shares(data: Batch, batch: int, steps: int, seed: int) -> Iterator[Batch]:
    """This rank's equal part of each batch; the batches are the same whatever the number of ranks."""
    images, labels = data
    order = np.random.default_rng(seed)
    for _ in range(steps):
        mine = np.split(order.choice(len(images), batch, replace=False), hvd.size())[hvd.rank()]
        yield images[mine], labels[mine]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128, help="images a step, of all ranks together (default 128)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate (default 0.05)")
    arguments = parser.parse_args()

    hvd.init()
    if arguments.batch % hvd.size() != 0:
        raise SystemExit(f"{hvd.size()} ranks cannot share {arguments.batch} images equally: give another --batch")
    network = Network(seed=1 + hvd.rank())
    hvd.broadcast_variables(network.variables, root_rank=0)  # each rank would begin with weights of its own
    velocity = [tf.Variable(tf.zeros_like(each)) for each in network.variables]

    @tf.function
    def step(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        with tf.GradientTape() as tape:
            logits = network(images)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))
        tape = hvd.DistributedGradientTape(tape)
        for variable, momentum, gradient in zip(network.variables, velocity, tape.gradient(loss, network.variables)):
            momentum.assign(0.9 * momentum + gradient)
            variable.assign_sub(arguments.rate * momentum)
        right = tf.reduce_mean(tf.cast(tf.argmax(logits, 1, tf.int32) == labels, tf.float32))
        return hvd.allreduce(loss), hvd.allreduce(right)

    for number, batch in enumerate(shares(made_images(4096, seed=1), arguments.batch, arguments.steps, seed=2)):
        loss, right = step(*map(tf.convert_to_tensor, batch))
        if hvd.rank() == 0 and (number % 10 == 0 or number == arguments.steps - 1):
            print(f"step {number}: loss {float(loss):.7f}, {100 * float(right):.1f} % right", flush=True)


if __name__ == "__main__":
    main()
