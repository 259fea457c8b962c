"""Backward passes that run in several threads at once, into the gradients of one optimizer."""

from __future__ import annotations

import copy
import threading

import pytest
import torch
from torch import nn

THREADS = 3
STEPS = 60


def in_threads(work):
    threads = [threading.Thread(target=work, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"sparse_as_dense": True}], ids=["place", "group", "dense"])
def test_nothing_that_a_pass_adds_is_lost(hvd, rank, world, options):
    """A gradient may go to its place only when the last pass has added to it: PyTorch calls hooks outside of its lock."""
    torch.manual_seed(1)
    model = nn.Sequential(*[nn.Linear(16, 16) for _ in range(6)]).double()
    alone = copy.deepcopy(model)
    named = [(f"at once.{name}", parameter) for name, parameter in model.named_parameters()]
    sgd = torch.optim.SGD(model.parameters(), lr=0.05)
    optimizer = hvd.DistributedOptimizer(sgd, named, backward_passes_per_step=THREADS, **options)
    reference = torch.optim.SGD(alone.parameters(), lr=0.05)
    data = torch.randn(STEPS, world, THREADS, 3, 16, dtype=torch.float64)
    for step in range(STEPS):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        in_threads(lambda number: model(data[step, rank, number]).square().mean().backward())
        optimizer.step()
        reference.zero_grad()
        for part in data[step].flatten(0, 1):
            (alone(part).square().mean() / world).backward()
        reference.step()
        for parameter, expected in zip(model.parameters(), alone.parameters()):
            torch.testing.assert_close(parameter, expected, rtol=1e-9, atol=1e-11, msg=f"step {step}")


@pytest.mark.ranks(2)
def test_parts_of_a_model_in_threads_of_their_own(hvd, rank, world):
    parts = [nn.Linear(8, 8).double() for _ in range(THREADS)]
    for part in parts:
        hvd.broadcast_parameters(part.state_dict(), 0)
    parameters = [parameter for part in parts for parameter in part.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), op=hvd.Sum)
    ones = torch.ones(1, 8, dtype=torch.float64)
    for step in range(STEPS):
        optimizer.zero_grad()
        in_threads(lambda number: (parts[number](ones) * (rank + 1 + number + step)).sum().backward())
        optimizer.step()
        for number, part in enumerate(parts):
            expected = world * (world + 1) / 2 + world * (number + step)
            assert part.bias.grad.tolist() == [expected] * 8, (step, number)
            assert part.weight.grad.tolist() == [[expected] * 8] * 8, (step, number)
