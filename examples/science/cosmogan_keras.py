#!/usr/bin/env python3
"""CosmoGAN in Keras 3 on TensorFlow: of two networks one learns to make maps of matter, the other to tell them from true ones.

    ronde run -n 2 -- python cosmogan_keras.py --image 64 --width 16         trains on two ranks, in a small size
    python cosmogan_keras.py --scaling weak --image 64 --width 16 --batch 8  measures 1, 2 and 4 ranks, and plots

The networks are those of Mustafa et al. (arXiv 1706.02390), the true maps are made. Two distributed optimizers step in turn.
The ranks share each batch of --batch maps; with --sync-batch-norm one rank and several take the same steps, but for rounding.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"  # the step below is TensorFlow's

import keras
import numpy as np
import tensorflow as tf

import program
import ronde.keras as hvd
import scaling
from program import LATENT
from ronde.tensorflow import SyncBatchNormalization

Batch = tuple[Any, ...]  # true maps, latent vectors, which labels are flipped


def normalisation(is_synchronised: bool) -> Any:
    kind = SyncBatchNormalization if is_synchronised else keras.layers.BatchNormalization
    return kind(momentum=0.9, epsilon=1e-5)


def small() -> Any:
    """How a layer's weights begin, as those of a DCGAN."""
    return keras.initializers.RandomNormal(stddev=0.02)


def make_generator(side: int, width: int = 64, is_synchronised: bool = False) -> Any:
    """Makes maps of ``side`` x ``side``, a multiple of 16. ``width``: channels of the last layer but one."""
    start, channels = side // 16, 8 * width
    layers = [
        keras.Input((LATENT,)), keras.layers.Dense(channels * start * start, kernel_initializer=small()),
        keras.layers.Reshape((start, start, channels)), normalisation(is_synchronised), keras.layers.ReLU(),
    ]  # fmt: skip
    for outputs in (4 * width, 2 * width, width):
        layers += [keras.layers.Conv2DTranspose(outputs, 5, strides=2, padding="same", kernel_initializer=small())]
        layers += [normalisation(is_synchronised), keras.layers.ReLU()]
    layers += [keras.layers.Conv2DTranspose(1, 5, strides=2, padding="same", kernel_initializer=small())]
    return keras.Sequential([*layers, keras.layers.Activation("tanh")], name="generator")


def make_discriminator(side: int, width: int = 64, is_synchronised: bool = False) -> Any:
    """Gives maps a number, the larger the truer. ``width``: channels of the first layer."""
    layers = [keras.Input((side, side, 1))]
    layers += [keras.layers.Conv2D(width, 5, strides=2, padding="same", kernel_initializer=small())]
    layers += [keras.layers.LeakyReLU(negative_slope=0.2)]
    for outputs in (2 * width, 4 * width, 6 * width):
        layers += [keras.layers.Conv2D(outputs, 5, strides=2, padding="same", kernel_initializer=small())]
        layers += [normalisation(is_synchronised), keras.layers.LeakyReLU(negative_slope=0.2)]
    layers += [keras.layers.Flatten(), keras.layers.Dense(1, kernel_initializer=small())]
    return keras.Sequential(layers, name="discriminator")


class Training:
    """Both networks and their optimizers, which average gradients over the ranks or leave each rank alone."""

    def __init__(self, options: argparse.Namespace, is_averaging: bool = True) -> None:
        keras.utils.set_random_seed(options.seed + hvd.rank())  # all take rank 0's weights
        is_synchronised = options.sync_batch_norm and is_averaging
        self.generator = make_generator(options.image, options.width, is_synchronised)
        self.discriminator = make_discriminator(options.image, options.width, is_synchronised)
        self.generator_optimizer = self._optimizer("generator", self.generator, options.rate, is_averaging)
        self.discriminator_optimizer = self._optimizer("discriminator", self.discriminator, options.rate, is_averaging)
        self._traced = tf.function(self._step)

    def _optimizer(self, name: str, model: Any, rate: float, is_averaging: bool) -> Any:
        """``name``: by which the ranks' gradients meet, so that the two networks' are not taken for each other."""
        optimizer = keras.optimizers.Adam(rate, beta_1=0.5, epsilon=1e-8)
        if is_averaging:
            optimizer = hvd.DistributedOptimizer(optimizer, name=name)
        optimizer.build(model.trainable_variables)
        if is_averaging:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)
        return optimizer

    def _step(self, true: Any, latent: Any, flips: Any) -> Any:
        of_generator, of_discriminator = self.generator.trainable_variables, self.discriminator.trainable_variables
        with tf.GradientTape() as tape:
            made = self.generator(latent, training=True)
        with tf.GradientTape() as own_tape:
            on_true = self.discriminator(true, training=True)
            on_made = self.discriminator(tf.stop_gradient(made), training=True)
            loss = cross_entropy(1.0 - flips[:, :1], on_true) + cross_entropy(flips[:, 1:], on_made)
        self.discriminator_optimizer.apply(own_tape.gradient(loss, of_discriminator), of_discriminator)
        with tape:  # goes on, by the discriminator that has just learnt
            on_made = self.discriminator(made, training=True)
            against = cross_entropy(tf.ones_like(on_made), on_made)
        self.generator_optimizer.apply(tape.gradient(against, of_generator), of_generator)
        return tf.stack([loss, against])

    def step(self, batch: Batch) -> np.ndarray:
        """Both networks on this rank's share of a batch: first the discriminator, then the generator against it. Returns
        their losses."""
        return np.asarray(self._traced(*batch))  # waits for it


def cross_entropy(labels: Any, found: Any) -> Any:
    return tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, found))


def tensors(batch: tuple[np.ndarray, ...]) -> Batch:
    return tuple(tf.constant(each) for each in batch)


def main() -> None:
    options = program.cosmogan_options(__doc__)
    if scaling.is_asked_for(options):
        scaling.run(options, "CosmoGAN in Keras")
        return
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    program.train(
        options,
        hvd,
        lambda is_averaging: Training(options, is_averaging),
        lambda rank, size: map(tensors, program.cosmogan_batches(options, rank, size)),
        program.describe_cosmogan,
    )


if __name__ == "__main__":
    main()
