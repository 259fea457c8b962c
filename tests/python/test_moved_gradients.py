"""Gradients whose memory changes between a backward pass and the optimizer's step."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn


def other_storage(model):
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data.clone()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("move", [other_storage, nn.Module.double], ids=["data", "double"])
def test_gradients_that_are_moved_while_under_way(hvd, rank, world, move):
    """The same tensor then has another storage: what was sent is reduced where it was, and the result comes over."""
    for _ in range(2):  # in another's memory, if the first one's was let go too early
        model = nn.Linear(1000, 3)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.full((1, 1000), float(rank + 1), dtype=model.weight.dtype)).sum().backward()
            move(model)
            optimizer.synchronize()
            mean = (world + 1) / 2
            assert bool((model.weight.grad == mean).all()) and bool((model.bias.grad == 1).all())
            with optimizer.skip_synchronize():
                optimizer.step()


@pytest.mark.ranks(2)
def test_new_places_in_the_middle_of_a_step(hvd, rank, world):
    """What was submitted before all places were made anew goes with its step, and nothing of it is waited for again."""
    model = nn.ModuleList([nn.Linear(4, 2, bias=False), nn.Linear(4, 2, bias=False)])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def backward(*used):
        optimizer.zero_grad()
        sum(model[index](torch.full((1, 4), float(rank + 1))).sum() for index in used).backward()

    for _ in range(3):
        backward(0, 1)
        optimizer.step()
    for _ in range(2):
        backward(0)
        hvd.shutdown()
        hvd.init()
        optimizer.step()  # the first was reduced before, the second has never been; all have new places now
        assert bool((model[0].weight.grad == 1.5).all()) and not model[1].weight.grad.any()
        gc.collect()
        for _ in range(3):
            backward(0, 1)
            optimizer.synchronize()
            assert all(bool((each.weight.grad == 1.5).all()) for each in model)
            with optimizer.skip_synchronize():
                optimizer.step()
