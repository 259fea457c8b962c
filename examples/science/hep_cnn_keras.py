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
from typing import Any

os.environ["KERAS_BACKEND"] = "tensorflow"  # the step below is TensorFlow's

import keras
import numpy as np
import tensorflow as tf

import program
import ronde.keras as hvd
import scaling

Batch = tuple[Any, ...]  # pictures, what they show


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


def tensors(batch: tuple[np.ndarray, ...]) -> Batch:
    return tuple(tf.constant(each) for each in batch)


def main() -> None:
    options = program.hep_cnn_options(__doc__)
    if scaling.is_asked_for(options):
        scaling.run(options, "HEP-CNN in Keras")
        return
    tf.config.threading.set_intra_op_parallelism_threads(options.threads)
    tf.config.threading.set_inter_op_parallelism_threads(options.threads)
    program.train(
        options,
        hvd,
        lambda is_averaging: Training(options, is_averaging),
        lambda rank, size: map(tensors, program.hep_cnn_batches(options, rank, size)),
        program.describe_hep_cnn,
    )


if __name__ == "__main__":
    main()
