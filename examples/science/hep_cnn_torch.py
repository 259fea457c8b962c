#!/usr/bin/env python3
"""HEP-CNN in PyTorch: a network that tells collisions with new particles from others, on made pictures of a detector.

    ronde run -n 2 -- python hep_cnn_torch.py                                trains on two ranks
    python hep_cnn_torch.py --scaling strong --small --width 16              measures 1, 2 and 4 ranks, and plots

The network is that of Kurth et al. (arXiv 1708.05256): 4 or, with --small, 3 convolutions, Adam. The ranks share each batch of
--batch pictures, so without dropout one rank and several take the same steps, but for rounding.
"""

from __future__ import annotations

import argparse
from typing import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import made_data
import ronde.torch as hvd
import scaling

Batch = tuple[torch.Tensor, torch.Tensor]


def make_model(side: int, width: int = 128, dropout: float = 0.5, is_small: bool = False) -> nn.Sequential:
    """For pictures of ``side`` x ``side`` pixels. ``width``: filters of each convolution."""
    layers: list[nn.Module] = []
    channels = 3
    for _ in range(3 if is_small else 4):
        layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Dropout(dropout)]
        channels = width
    if is_small:
        layers += [nn.Flatten(), nn.Linear((side // 8) ** 2 * width, 4 * width), nn.ReLU(), nn.Linear(4 * width, 2)]
    else:
        layers += [nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()]
        layers += [nn.Linear(width, 2)]
    model = nn.Sequential(*layers)
    for name, parameter in model.named_parameters():
        if name.endswith("weight"):
            nn.init.kaiming_normal_(parameter, nonlinearity="relu")
        else:
            nn.init.zeros_(parameter)
    return model


class Training:
    """A model and its optimizer, which averages gradients over the ranks or leaves each rank alone."""

    def __init__(self, options: argparse.Namespace, is_averaging: bool = True) -> None:
        torch.manual_seed(options.seed + hvd.rank())  # each rank would begin with weights of its own: all take rank 0's
        self.model = make_model(options.image, options.width, options.dropout, options.small)
        self.optimizer: torch.optim.Optimizer = torch.optim.Adam(self.model.parameters(), lr=options.rate)
        if is_averaging:
            self.optimizer = hvd.DistributedOptimizer(self.optimizer, named_parameters=self.model.named_parameters())
            hvd.broadcast_parameters(self.model.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(self.optimizer, root_rank=0)

    def step(self, batch: Batch) -> torch.Tensor:
        """Trains on this rank's share of a batch. Returns its loss and which part of it was told right."""
        pictures, labels = batch
        self.optimizer.zero_grad()
        found = self.model(pictures)
        loss = F.cross_entropy(found, labels)
        loss.backward()
        self.optimizer.step()
        return torch.stack([loss.detach(), (found.argmax(1) == labels).float().mean()])


def batches(options: argparse.Namespace) -> Iterator[Batch]:
    """This rank's share of batch after batch, without end."""
    pictures, labels = made_data.jets(options.samples, options.image, options.seed)
    order = np.random.default_rng(options.seed)
    while True:
        mine = made_data.share(order.integers(0, options.samples, options.batch), hvd.rank(), hvd.size())
        shared = torch.from_numpy(pictures[mine].transpose(0, 3, 1, 2).copy())
        yield shared, torch.from_numpy(labels[mine]).long()


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
        scaling.run(options, "HEP-CNN in PyTorch")
        return
    hvd.init()
    scaling.check_shares(options, hvd.size())
    torch.set_num_threads(options.threads)
    training = Training(options)
    shares = batches(options)
    if options.result:
        alone = Training(options, is_averaging=False)
        scaling.measure(options, hvd, shares, training.step, alone.step)
        return
    for number in range(options.steps):
        found = training.step(next(shares))
        if number % options.report == 0 or number == options.steps - 1:
            loss, right = hvd.allreduce(found, name="metrics").tolist()
            if hvd.rank() == 0:
                print(f"step {number}: loss {loss:.7f}, {100 * right:.1f} % right", flush=True)


if __name__ == "__main__":
    main()
