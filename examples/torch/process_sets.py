#!/usr/bin/env python3
"""Two models trained side by side, each by half of the ranks: ronde run -n 4 -- python process_sets.py

Even ranks fit one function, odd ranks another. Each half is a process set with gradients, names and waits of its own;
at the end all ranks together compare the losses.
"""

from __future__ import annotations

import argparse
import math

import torch
from torch import nn

import ronde.torch as hvd


def target(half: int, x: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) if half == 0 else torch.cos(x)


def train(half: int, process_set: hvd.ProcessSet, steps: int) -> float:
    """Trains this half's model and returns its loss on all of [-pi, pi]."""
    torch.manual_seed(half)  # the same start within a half
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.Adam(model.parameters(), lr=0.02),
        named_parameters=model.named_parameters(),
        process_set=process_set,  # gradients are averaged within it
    )
    samples = torch.Generator().manual_seed(1000 + hvd.rank())  # each rank its own share of the data
    for _ in range(steps):
        x = math.pi * (2 * torch.rand(64, 1, generator=samples) - 1)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), target(half, x)).backward()
        optimizer.step()
    x = torch.linspace(-math.pi, math.pi, 200).reshape(-1, 1)
    with torch.no_grad():
        return float(nn.functional.mse_loss(model(x), target(half, x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300, help="how many steps each half trains (default: 300)")
    options = parser.parse_args()

    hvd.init()
    if hvd.size() < 3:
        raise SystemExit(f"two halves need at least 3 ranks, this job has {hvd.size()}: ronde run -n 4 -- python ...")
    # Every rank adds every set, in the same order, whether it belongs to it or not.
    halves = [hvd.add_process_set(range(first, hvd.size(), 2)) for first in (0, 1)]
    half = hvd.rank() % 2
    loss = train(half, halves[half], options.steps)

    losses = hvd.allgather(torch.tensor([loss]))  # of all ranks
    if hvd.rank() == 0:
        for which, process_set in enumerate(halves):
            values = losses[process_set.ranks].tolist()
            assert min(values) == max(values), "the ranks of a half must end with the same weights"
            print(f"{('sine', 'cosine')[which]}: ranks {process_set.ranks}, loss {values[0]:.5f}")
    hvd.shutdown()


if __name__ == "__main__":
    main()
