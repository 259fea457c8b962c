#!/usr/bin/env python3
"""HEP-CNN in PyTorch: a network that tells collisions with new particles from others, on made pictures of a detector.

    ronde run -n 2 -- python hep_cnn_torch.py                                trains on two ranks
    python hep_cnn_torch.py --scaling strong --small --width 16              measures 1, 2 and 4 ranks, and plots

The network is that of Kurth et al. (arXiv 1708.05256): 4 or, with --small, 3 convolutions, Adam. The ranks share each batch of
--batch pictures, so without dropout one rank and several take the same steps, but for rounding.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import program
import ronde.torch as hvd
import scaling

Batch = tuple[torch.Tensor, torch.Tensor]  # pictures, what they show


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


def tensors(batch: tuple[np.ndarray, np.ndarray]) -> Batch:
    """PyTorch has channels before rows."""
    pictures, labels = batch
    return torch.from_numpy(pictures.transpose(0, 3, 1, 2).copy()), torch.from_numpy(labels).long()


def main() -> None:
    options = program.hep_cnn_options(__doc__)
    if scaling.is_asked_for(options):
        scaling.run(options, "HEP-CNN in PyTorch")
        return
    torch.set_num_threads(options.threads)
    program.train(
        options,
        hvd,
        lambda is_averaging: Training(options, is_averaging),
        lambda rank, size: map(tensors, program.hep_cnn_batches(options, rank, size)),
        program.describe_hep_cnn,
    )


if __name__ == "__main__":
    main()
