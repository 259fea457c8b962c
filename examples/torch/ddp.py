#!/usr/bin/env python3
"""PyTorch's DistributedDataParallel over Ronde: ronde run -n 2 -- python ddp.py

A small network learns a function; each rank reads its own share of the samples. `torchrun --nproc-per-node 2 ddp.py`
starts it as well. What differs from a script for Gloo is marked with (1) and (2).
"""

from __future__ import annotations

import argparse

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

import ronde.torch  # noqa: F401  (1) makes the backend's name known

SAMPLES = 960
BATCH = 16


def make_data() -> TensorDataset:
    """The same on every rank: points of the plane and a function of them."""
    points = torch.rand(SAMPLES, 2, generator=torch.Generator().manual_seed(0)) * 2 - 1
    return TensorDataset(points, torch.sin(3 * points[:, :1]) * points[:, 1:])


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small network with DistributedDataParallel.")
    parser.add_argument("--epochs", type=int, default=8)
    options = parser.parse_args()

    dist.init_process_group("ronde")  # (2) instead of "gloo"
    torch.manual_seed(dist.get_rank())  # DistributedDataParallel starts all ranks from rank 0's weights
    network = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    model = DistributedDataParallel(network)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    data = make_data()
    sampler: DistributedSampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=BATCH, sampler=sampler)
    for epoch in range(1, options.epochs + 1):
        sampler.set_epoch(epoch)
        total = torch.zeros(2)
        for points, values in loader:
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(points), values)
            loss.backward()
            optimizer.step()
            total += torch.tensor([loss.item() * len(points), len(points)])
        dist.all_reduce(total)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {total[0] / total[1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
