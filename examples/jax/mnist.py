"""A network that reads digits, with JAX and optax: each rank has its part of every batch, and gradients are averaged.

    ronde run -n 2 -- python examples/jax/mnist.py

The images are made, in the form of MNIST (28 x 28, ten classes); with --data FOLDER they are read from the files of MNIST or
Fashion-MNIST (train-images-idx3-ubyte.gz and train-labels-idx1-ubyte.gz). The ranks share each batch of --batch images, so one rank
and several take the same steps, but for rounding.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path
from typing import Any, Iterator

import jax
import jax.numpy as jnp
import numpy as np
import optax

import ronde.jax as rj

Batch = tuple[np.ndarray, np.ndarray]


def made_images(count: int, seed: int) -> Batch:
    """Ten patterns, moved and under noise: images of float32 from 0 to 1, and their classes."""
    generator = np.random.default_rng(seed)
    patterns = np.kron(generator.uniform(0.0, 1.0, (10, 7, 7)), np.ones((4, 4)))
    labels = generator.integers(0, 10, count)
    moved = [np.roll(patterns[label], generator.integers(-2, 3, 2), (0, 1)) for label in labels]
    images = 0.6 * np.stack(moved) + 0.4 * generator.uniform(0.0, 1.0, (count, 28, 28))
    return images.astype(np.float32), labels.astype(np.int32)


def images_in(folder: Path) -> Batch:
    """The same of the files of MNIST."""
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read(), np.uint8, offset=16).reshape(-1, 28, 28)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read(), np.uint8, offset=8)
    return images.astype(np.float32) / 255.0, labels.astype(np.int32)


def make_parameters(seed: int) -> dict[str, jax.Array]:
    """Of a convolution of 3 x 3, one hidden layer, and ten outputs."""
    first, second, third = jax.random.split(jax.random.key(seed), 3)
    return {
        "filters": jax.random.normal(first, (3, 3, 1, 8)) / 3.0,
        "hidden": jax.random.normal(second, (14 * 14 * 8, 64)) / jnp.sqrt(14.0 * 14.0 * 8.0),
        "hidden_bias": jnp.zeros(64),
        "out": jax.random.normal(third, (64, 10)) / 8.0,
        "out_bias": jnp.zeros(10),
    }


def loss_and_hits(parameters: dict[str, jax.Array], images: jax.Array, labels: jax.Array) -> tuple[jax.Array, jax.Array]:
    """The mean cross entropy, and the part of the images whose class is found."""
    found = jax.lax.conv_general_dilated(
        images[..., None], parameters["filters"], (2, 2), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
    )
    found = jax.nn.relu(found).reshape(images.shape[0], -1)
    found = jax.nn.relu(found @ parameters["hidden"] + parameters["hidden_bias"])
    logits = found @ parameters["out"] + parameters["out_bias"]
    loss = optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()
    return loss, (logits.argmax(1) == labels).mean()


def shares(data: Batch, batch: int, steps: int, seed: int) -> Iterator[Batch]:
    """This rank's equal part of each batch; the batches are the same whatever the number of ranks."""
    images, labels = data
    order = np.random.default_rng(seed)
    for _ in range(steps):
        mine = np.split(order.choice(len(images), batch, replace=False), rj.size())[rj.rank()]
        yield images[mine], labels[mine]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help="a folder with MNIST's files; without it images are made")
    parser.add_argument("--batch", type=int, default=128, help="images a step, of all ranks together (default 128)")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--rate", type=float, default=0.05, help="the learning rate (default 0.05)")
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()

    rj.init()
    if arguments.batch % rj.size() != 0:
        raise SystemExit(f"{rj.size()} ranks cannot share {arguments.batch} images equally: give another --batch")
    data = images_in(arguments.data) if arguments.data else made_images(4096, arguments.seed)
    optimizer = rj.DistributedOptimizer(optax.sgd(arguments.rate, momentum=0.9))
    # Each rank would begin with weights of its own: all take rank 0's.
    parameters: Any = rj.broadcast_parameters(make_parameters(arguments.seed + rj.rank()))
    state = optimizer.init(parameters)

    @jax.jit
    def step(parameters: Any, state: Any, images: jax.Array, labels: jax.Array) -> tuple[Any, Any, Any]:
        (loss, hits), gradients = jax.value_and_grad(loss_and_hits, has_aux=True)(parameters, images, labels)
        updates, state = optimizer.update(gradients, state, parameters)
        return optax.apply_updates(parameters, updates), state, rj.allreduce((loss, hits))

    for number, (images, labels) in enumerate(shares(data, arguments.batch, arguments.steps, arguments.seed)):
        parameters, state, (loss, hits) = step(parameters, state, images, labels)
        if rj.rank() == 0 and (number % 10 == 0 or number == arguments.steps - 1):
            print(f"step {number}: loss {loss:.7f}, {100 * hits:.1f} % right", flush=True)


if __name__ == "__main__":
    main()
