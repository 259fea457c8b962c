#!/usr/bin/env python3
"""PyTorch's fully sharded training (FSDP2) over Ronde: ronde run -n 2 -- python fsdp.py

Each rank keeps its share of every layer's weights and of the optimizer's state; a layer is put together when it is
computed. At the end the shards are saved, read into a second model, and its loss is shown to be the same.
"""

from __future__ import annotations

import argparse
import tempfile

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as checkpoint
from torch import nn
from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
from torch.distributed.fsdp import fully_shard

import ronde.torch  # noqa: F401  makes the backend's name known

WIDTH = 64
LAYERS = 3
BATCH = 32


def make_model() -> nn.Sequential:
    """Sharded layer by layer."""
    hidden = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Tanh()) for _ in range(LAYERS)]
    model = nn.Sequential(nn.Linear(2, WIDTH), *hidden, nn.Linear(WIDTH, 1))
    for layer in model:
        fully_shard(layer)
    return fully_shard(model)


def loss_of(model: nn.Module, generator: torch.Generator) -> torch.Tensor:
    """On fresh samples."""
    points = torch.rand(BATCH, 2, generator=generator) * 2 - 1
    return nn.functional.mse_loss(model(points), torch.sin(3 * points[:, :1]) * points[:, 1:])


def mean_over_ranks(loss: torch.Tensor) -> float:
    """Of a number that each rank has."""
    mean = loss.detach().clone()
    dist.all_reduce(mean, op=dist.ReduceOp.AVG)
    return mean.item()


def save_and_load(model: nn.Module, folder: str) -> nn.Module:
    """A second model with the first one's weights. Each rank writes and reads its shards."""
    checkpoint.save({"model": get_model_state_dict(model)}, checkpoint_id=folder)
    other = make_model()
    state = {"model": get_model_state_dict(other)}
    checkpoint.load(state, checkpoint_id=folder)
    set_model_state_dict(other, state["model"])
    return other


def main() -> None:
    parser = argparse.ArgumentParser(description="Trains a small network with fully_shard.")
    parser.add_argument("--steps", type=int, default=60)
    options = parser.parse_args()

    dist.init_process_group("ronde")
    torch.manual_seed(0)  # the same weights on every rank, before they are sharded
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    samples = torch.Generator().manual_seed(1 + dist.get_rank())
    for step in range(1, options.steps + 1):
        optimizer.zero_grad()
        loss = loss_of(model, samples)
        loss.backward()
        optimizer.step()
        mean = mean_over_ranks(loss)
        if dist.get_rank() == 0 and step % 10 == 0:
            print(f"step {step}: loss {mean:.4f}", flush=True)

    folder = [tempfile.mkdtemp() if dist.get_rank() == 0 else ""]
    dist.broadcast_object_list(folder)
    other = save_and_load(model, folder[0])
    losses = [mean_over_ranks(loss_of(each, torch.Generator().manual_seed(9))) for each in (model, other)]
    if dist.get_rank() == 0:
        print(f"saved in {folder[0]}: loss {losses[0]:.4f}, read again: {losses[1]:.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
