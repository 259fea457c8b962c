#!/usr/bin/env python3
"""CosmoGAN in PyTorch: of two networks one learns to make maps of matter, the other to tell them from true ones.

    ronde run -n 2 -- python cosmogan_torch.py --image 64 --width 16         trains on two ranks, in a small size
    python cosmogan_torch.py --scaling weak --image 64 --width 16 --batch 8  measures 1, 2 and 4 ranks, and plots

The networks are those of Mustafa et al. (arXiv 1706.02390), the true maps are made. Two distributed optimizers step in turn.
The ranks share each batch of --batch maps; with --sync-batch-norm one rank and several take the same steps, but for rounding.
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
from program import LATENT

Batch = tuple[torch.Tensor, torch.Tensor, torch.Tensor]  # true maps, latent vectors, which labels are flipped


def normalisation(channels: int, is_synchronised: bool) -> nn.Module:
    return hvd.SyncBatchNorm(channels) if is_synchronised else nn.BatchNorm2d(channels)


def make_generator(side: int, width: int = 64, is_synchronised: bool = False) -> nn.Sequential:
    """Makes maps of ``side`` x ``side``, a multiple of 16. ``width``: channels of the last layer but one."""
    start, channels = side // 16, 8 * width
    layers: list[nn.Module] = [
        nn.Linear(LATENT, channels * start * start), nn.Unflatten(1, (channels, start, start)),
        normalisation(channels, is_synchronised), nn.ReLU(),
    ]  # fmt: skip
    for outputs in (4 * width, 2 * width, width):
        layers += [nn.ConvTranspose2d(channels, outputs, 5, stride=2, padding=2, output_padding=1)]
        layers += [normalisation(outputs, is_synchronised), nn.ReLU()]
        channels = outputs
    layers += [nn.ConvTranspose2d(channels, 1, 5, stride=2, padding=2, output_padding=1), nn.Tanh()]
    return with_weights(nn.Sequential(*layers))


def make_discriminator(side: int, width: int = 64, is_synchronised: bool = False) -> nn.Sequential:
    """Gives maps a number, the larger the truer. ``width``: channels of the first layer."""
    layers: list[nn.Module] = [nn.Conv2d(1, width, 5, stride=2, padding=2), nn.LeakyReLU(0.2)]
    channels = width
    for outputs in (2 * width, 4 * width, 6 * width):
        layers += [nn.Conv2d(channels, outputs, 5, stride=2, padding=2)]
        layers += [normalisation(outputs, is_synchronised), nn.LeakyReLU(0.2)]
        channels = outputs
    layers += [nn.Flatten(), nn.Linear(channels * (side // 16) ** 2, 1)]
    return with_weights(nn.Sequential(*layers))


def with_weights(model: nn.Sequential) -> nn.Sequential:
    """Small ones, as those of a DCGAN; normalisations keep theirs."""
    for layer in model:
        if isinstance(layer, (nn.Conv2d, nn.ConvTranspose2d, nn.Linear)):
            nn.init.normal_(layer.weight, std=0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)
    return model


class Training:
    """Both networks and their optimizers, which average gradients over the ranks or leave each rank alone."""

    def __init__(self, options: argparse.Namespace, is_averaging: bool = True) -> None:
        torch.manual_seed(options.seed + hvd.rank())  # each rank would begin with weights of its own: all take rank 0's
        is_synchronised = options.sync_batch_norm and is_averaging
        self.generator = make_generator(options.image, options.width, is_synchronised)
        self.discriminator = make_discriminator(options.image, options.width, is_synchronised)
        self.generator_optimizer = self._optimizer("generator", self.generator, options.rate, is_averaging)
        self.discriminator_optimizer = self._optimizer("discriminator", self.discriminator, options.rate, is_averaging)

    def _optimizer(self, name: str, model: nn.Module, rate: float, is_averaging: bool) -> torch.optim.Optimizer:
        """``name``: goes before those of the gradients, so that the two networks' layers are not taken for each other."""
        optimizer: torch.optim.Optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=(0.5, 0.999))
        if is_averaging:
            named = [(f"{name}.{own}", parameter) for own, parameter in model.named_parameters()]
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)
            hvd.broadcast_parameters(model.state_dict(), root_rank=0)
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        return optimizer

    def step(self, batch: Batch) -> torch.Tensor:
        """Both networks on this rank's share of a batch: first the discriminator, then the generator against it. Returns
        their losses."""
        true, latent, flips = batch
        made = self.generator(latent)
        on_true, on_made = self.discriminator(true), self.discriminator(made.detach())
        loss = F.binary_cross_entropy_with_logits(on_true, 1.0 - flips[:, :1])
        loss = loss + F.binary_cross_entropy_with_logits(on_made, flips[:, 1:])
        self.discriminator_optimizer.zero_grad()
        loss.backward()
        self.discriminator_optimizer.step()

        on_made = self.discriminator(made)
        against = F.binary_cross_entropy_with_logits(on_made, torch.ones_like(on_made))
        self.generator_optimizer.zero_grad()
        # Only the generator's: a gradient of the discriminator would be averaged too, for nothing.
        against.backward(inputs=list(self.generator.parameters()))
        self.generator_optimizer.step()
        return torch.stack([loss.detach(), against.detach()])


def tensors(batch: tuple[np.ndarray, ...]) -> Batch:
    """PyTorch has channels before rows."""
    true, latent, flips = batch
    return torch.from_numpy(true.transpose(0, 3, 1, 2).copy()), torch.from_numpy(latent), torch.from_numpy(flips)


def main() -> None:
    options = program.cosmogan_options(__doc__)
    if scaling.is_asked_for(options):
        scaling.run(options, "CosmoGAN in PyTorch")
        return
    torch.set_num_threads(options.threads)
    program.train(
        options,
        hvd,
        lambda is_averaging: Training(options, is_averaging),
        lambda rank, size: map(tensors, program.cosmogan_batches(options, rank, size)),
        program.describe_cosmogan,
    )


if __name__ == "__main__":
    main()
