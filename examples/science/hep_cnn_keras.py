#!/usr/bin/env python3
"""HEP-CNN in Keras 3 on TensorFlow: a network that tells collisions with new particles from others, on made pictures.

    ronde run -n 2 -- python hep_cnn_keras.py                                trains on two ranks
    python hep_cnn_keras.py --scaling strong --small --width 16              measures 1, 2 and 4 ranks, and plots

The network is that of Kurth et al. (arXiv 1708.05256): 4 or, with --small, 3 convolutions, Adam. The ranks share each batch of
--batch pictures, so without dropout one rank and several take the same steps, but for rounding.
"""

from __future__ import annotations

import argparse
import os
from typing import Any, Iterator

os.environ["KERAS_BACKEND"] = "tensorflow"  # the step below is TensorFlow's

import keras
import numpy as np
import tensorflow as tf

import made_data
import ronde.keras as hvd
import scaling

Batch = tuple[Any, Any]


def make_model(side: int, width: int = 128, dropout: float = 0.5, is_small: bool = False) -> Any:
    """For pictures of ``side`` x ``side`` pixels. ``width``: filters of each convolution."""
    layers = [keras.Input((side, side, 3))]
    convolution = {"padding": "same", "activation": "relu", "kernel_initializer": "he_normal"}
    for _ in range(3 if is_small else 4):
        layers += [keras.layers.Conv2D(width, 3, **convolution), keras.layers.MaxPooling2D(2), keras.layers.Dropout(dropout)]
    if is_small:
        layers += [keras.layers.Flatten()]
        layers += [keras.layers.Dense(4 * width, activation="relu", kernel_initializer="he_normal")]
    else:
        layers += [keras.layers.Conv2D(width, 3, **convolution), keras.layers.GlobalAveragePooling2D()]
    return keras.Sequential([*layers, keras.layers.Dense(2, kernel_initializer="he_normal")])


class Training:
    """A model and its optimizer, which averages gradients over the ranks or leaves each rank alone."""

    def __init__(self, options: argparse.Namespace, is_averaging: bool = True) -> None:
        keras.utils.set_random_seed(options.seed + hvd.rank())  # all take rank 0's weights
        self.model = make_model(options.image, options.width, options.dropout, options.small)
        self.optimizer = keras.optimizers.Adam(options.rate, epsilon=1e-8)
        if is_averaging:
            self.optimizer = hvd.DistributedOptimizer(self.optimizer)
        self.optimizer.build(self.model.trainable_variables)
        if is_averaging:
            hvd.broadcast_variables(self.model.variables, root_rank=0)
            hvd.broadcast_variables(self.optimizer.variables, root_rank=0)
        self._traced = tf.function(self._step)

    def _step(self, pictures: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            found = self.model(pictures, training=True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, found))
        variables = self.model.trainable_variables
        self.optimizer.apply(tape.gradient(loss, variables), variables)
        return tf.stack([loss, tf.reduce_mean(tf.cast(tf.argmax(found, 1, tf.int32) == labels, tf.float32))])

    def step(self, batch: Batch) -> np.ndarray:
        """Trains on this rank's share of a batch. Returns its loss and which part of it was told right."""
        return np.asarray(self._traced(*batch))  # waits for it


def batches(options: argparse.Namespace) -> Iterator[Batch]:
    """This rank's share of batch after batch, without end."""
    pictures, labels = made_data.jets(options.samples, options.image, options.seed)
    order = np.random.default_rng(options.seed)
    while True:
        mine = made_data.share(order.integers(0, options.samples, options.batch), hvd.rank(), hvd.size())
        yield tf.constant(pictures[mine]), tf.constant(labels[mine])


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="the small variant, for pictures of 64 x 64")
    parser.add_argument("--image", type=int, help="pixels of a picture's side (default 224, with --small 64)")
    parser.add_argument("--width", type=int, default=128, help="filters of each convolution (default 128)")
    parser.add_argument("--dropout", type=float, default=0.5, help="which part of the values is left out (default 0.5)")
    parser.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate (default 0.001)")
    scaling.add_options(parser, batch=64)
    options = parser.parse_args()
    options.image = options.image or (64 if options.small else 224)
    return options


def main() -> None:
    options = parse_options()
    if scaling.is_asked_for(options):
        scaling.run(options, "HEP-CNN in Keras")
        return
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    hvd.init()
    scaling.check_shares(options, hvd.size())
    training = Training(options)
    shares = batches(options)
    if options.result:
        alone = Training(options, is_averaging=False)
        scaling.measure(options, hvd, shares, training.step, alone.step)
        return
    for number in range(options.steps):
        found = training.step(next(shares))
        if number % options.report == 0 or number == options.steps - 1:
            loss, right = hvd.allreduce(found, name="metrics")
            if hvd.rank() == 0:
                print(f"step {number}: loss {loss:.7f}, {100 * right:.1f} % right", flush=True)


if __name__ == "__main__":
    main()
