"""What the same network's programs in PyTorch and in Keras have in common: their options, what is drawn for a batch, the loop."""

from __future__ import annotations

import argparse
from typing import Any, Callable, Iterator

import numpy as np

import made_data
import scaling

LATENT = 64  # numbers of which CosmoGAN makes a map


def _parser(description: str | None) -> argparse.ArgumentParser:
    return argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)


def hep_cnn_options(description: str | None) -> argparse.Namespace:
    """Of the command line. ``description``: the program's, for ``--help``."""
    parser = _parser(description)
    parser.add_argument("--small", action="store_true", help="the small variant, for pictures of 64 x 64")
    parser.add_argument("--image", type=int, help="pixels of a picture's side (default 224, with --small 64)")
    parser.add_argument("--width", type=int, default=128, help="filters of each convolution (default 128)")
    parser.add_argument("--dropout", type=float, default=0.5, help="which part of the values is left out (default 0.5)")
    parser.add_argument("--rate", type=float, default=1e-3, help="Adam's learning rate (default 0.001)")
    scaling.add_options(parser, batch=64)
    options = parser.parse_args()
    options.image = options.image or (64 if options.small else 224)
    return options


def cosmogan_options(description: str | None) -> argparse.Namespace:
    """Of the command line. ``description``: the program's, for ``--help``."""
    parser = _parser(description)
    parser.add_argument("--image", type=int, default=256, help="pixels of a map's side, a multiple of 16 (default 256)")
    parser.add_argument("--width", type=int, default=64, help="channels of the outermost layers (default 64)")
    parser.add_argument("--flip", type=float, default=0.01, help="which part of the labels is false (default 0.01)")
    parser.add_argument("--rate", type=float, default=2e-4, help="Adam's learning rate (default 0.0002)")
    parser.add_argument("--sync-batch-norm", action="store_true",
                        help="normalise over the batches of all ranks; without it each rank over its own")
    scaling.add_options(parser, batch=64)
    options = parser.parse_args()
    if options.image < 16 or options.image % 16 != 0:
        parser.error(f"--image is {options.image}: a multiple of 16")
    return options


def hep_cnn_batches(options: argparse.Namespace, rank: int, size: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The rank's share of batch after batch, without end: pictures and what they show, as ``made_data.jets`` has them."""
    pictures, labels = made_data.jets(options.samples, options.image, options.seed)
    random = np.random.default_rng(options.seed)
    while True:
        mine = made_data.share(random.integers(0, options.samples, options.batch), rank, size)
        yield pictures[mine], labels[mine]


def cosmogan_batches(options: argparse.Namespace, rank: int, size: int) -> Iterator[tuple[np.ndarray, ...]]:
    """The rank's share of batch after batch, without end: true maps, as ``made_data.maps`` has them, latent vectors of
    LATENT numbers, and which labels are flipped, [2] for each sample: the true map's and the made one's."""
    true = made_data.maps(options.samples, options.image, options.seed)
    random = np.random.default_rng(options.seed)
    while True:
        order = random.integers(0, options.samples, options.batch)
        latent = random.uniform(-1.0, 1.0, (options.batch, LATENT)).astype(np.float32)
        flips = (random.uniform(size=(options.batch, 2)) < options.flip).astype(np.float32)
        mine, latent, flips = (made_data.share(each, rank, size) for each in (order, latent, flips))
        yield true[mine], latent, flips


def train(
    options: argparse.Namespace,
    hvd: Any,
    make_training: Callable[[bool], Any],
    make_batches: Callable[[int, int], Iterator[Any]],
    describe: Callable[..., str],
) -> None:
    """Trains, or is timed where ``--scaling`` has started this process. In the job: ``hvd`` is initialised here.

    Args:
        hvd: Ronde's module for the framework.
        make_training: an object with ``step(batch)``, which returns some numbers; told whether it averages gradients.
        make_batches: this rank's batches, told its rank and how many ranks there are.
        describe: a line's text of these numbers, averaged over the ranks.
    """
    hvd.init()
    scaling.check_shares(options, hvd.size())
    training = make_training(True)
    batches = make_batches(hvd.rank(), hvd.size())
    if options.result:
        scaling.measure(options, hvd, batches, training.step, make_training(False).step)
        return
    for number in range(options.steps):
        found = training.step(next(batches))
        if number % options.report == 0 or number == options.steps - 1:
            averages = np.asarray(hvd.allreduce(found, name="metrics")).tolist()
            if hvd.rank() == 0:
                print(f"step {number}: {describe(*averages)}", flush=True)


def describe_hep_cnn(loss: float, right: float) -> str:
    return f"loss {loss:.7f}, {100 * right:.1f} % right"


def describe_cosmogan(loss: float, against: float) -> str:
    return f"loss {loss:.7f} of the discriminator, loss {against:.7f} of the generator"
