"""A network that reads digits, by Keras's `model.fit`: the same file on TensorFlow, PyTorch and JAX.

    ronde run -n 2 -- python examples/keras/mnist.py
    KERAS_BACKEND=torch ronde run -n 2 -- python examples/keras/mnist.py
    KERAS_BACKEND=jax ronde run -n 2 -- python examples/keras/mnist.py

The images are made, in the form of MNIST (28 x 28, ten classes). The ranks share each batch of --batch images, so one rank and several take
the same steps, but for rounding.
"""

from __future__ import annotations

import argparse

import keras
import numpy as np

import ronde.keras as hvd


def made_images(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Ten patterns, moved and under noise: images of float32 from 0 to 1, and their classes."""
    generator = np.random.default_rng(seed)
    patterns = np.kron(generator.uniform(0.0, 1.0, (10, 7, 7)), np.ones((4, 4)))
    labels = generator.integers(0, 10, count)
    moved = np.stack([np.roll(patterns[label], generator.integers(-2, 3, 2), (0, 1)) for label in labels])
    return (0.6 * moved + 0.4 * generator.uniform(size=moved.shape)).astype(np.float32)[..., None], labels.astype(np.int32)


def shares(images: np.ndarray, batch: int) -> np.ndarray:
    """This rank's equal part of each batch, batch after batch: what `model.fit` without shuffling then takes."""
    batches = images[: len(images) // batch * batch].reshape(-1, batch, *images.shape[1:])
    mine = np.split(batches, hvd.size(), axis=1)[hvd.rank()]
    return mine.reshape(-1, *images.shape[1:])


def make_model() -> keras.Model:
    return keras.Sequential([
        keras.Input((28, 28, 1)),
        keras.layers.Conv2D(8, 3, strides=2, padding="same", activation="relu"),
        keras.layers.Flatten(),
        keras.layers.Dense(64, activation="relu"),
        keras.layers.Dense(10),
    ])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128, help="images a step, of all ranks together (default 128)")
    parser.add_argument("--images", type=int, default=4096)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate (default 0.05)")
    arguments = parser.parse_args()

    hvd.init()
    if arguments.batch % hvd.size() != 0:
        raise SystemExit(f"{hvd.size()} ranks cannot share {arguments.batch} images equally: give another --batch")
    keras.utils.set_random_seed(1 + hvd.rank())  # each rank would begin with weights of its own: all take rank 0's
    images, labels = made_images(arguments.images, seed=1)
    model = make_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(arguments.rate, momentum=0.9))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=optimizer, loss=loss, metrics=["accuracy"])
    history = model.fit(
        shares(images, arguments.batch), shares(labels, arguments.batch), batch_size=arguments.batch // hvd.size(),
        epochs=arguments.epochs, shuffle=False, verbose=0,
        callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()])
    if hvd.rank() == 0:
        for epoch, (value, right) in enumerate(zip(history.history["loss"], history.history["accuracy"])):
            print(f"epoch {epoch}: loss {value:.7f}, {100 * right:.1f} % right ({keras.backend.backend()})", flush=True)


if __name__ == "__main__":
    main()
