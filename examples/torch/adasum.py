#!/usr/bin/env python3
"""Adasum beside averaging, at the same learning rate: ronde run -n 2 -- python adasum.py

Averaging needs a learning rate scaled with the number of ranks; Adasum adds what gradients have not in common and averages
what they have, so one learning rate serves any number of ranks (Maleki et al., "Scaling Distributed Training with Adaptive
Summation", 2020). Both train the same network on the same data; rank 0 prints the losses.
"""

from __future__ import annotations

import argparse

import torch
from torch import nn

import ronde.torch as hvd


def train(op: int, steps: int, learning_rate: float) -> float:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 1))
    truth = nn.Linear(10, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=learning_rate), named_parameters=model.named_parameters(), op=op
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    samples = torch.Generator().manual_seed(1 + hvd.rank())
    for _ in range(steps):
        x = torch.randn(32, 10, generator=samples)
        optimizer.zero_grad()
        nn.functional.mse_loss(model(x), truth(x).detach()).backward()
        optimizer.step()
    x = torch.randn(1000, 10, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        return float(nn.functional.mse_loss(model(x), truth(x)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=200, help="default: 200")
    parser.add_argument("--lr", type=float, default=0.05, help="learning rate for both (default: 0.05)")
    options = parser.parse_args()

    hvd.init()
    ways = {"Average": hvd.Average, "Adasum": hvd.Adasum}
    losses = {name: train(op, options.steps, options.lr) for name, op in ways.items()}
    if hvd.rank() == 0:
        for name, loss in losses.items():
            print(f"{name}: loss {loss:.5f} after {options.steps} steps on {hvd.size()} ranks")
    hvd.shutdown()


if __name__ == "__main__":
    main()
