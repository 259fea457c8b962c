"""Gradients that autograd makes of one memory, or from which it has still to compute others when a reduction begins.

What the ranks' gradients are is computed beside: each rank computes every rank's loss.
"""

from __future__ import annotations

import random
import time

import pytest
import torch
from torch import nn


def parameters(*shapes):
    return [nn.Parameter(torch.randn(*shape)) for shape in shapes]


class FusedWeights:
    """Base and delta of a fused weight: the sum hands one gradient to both, of which each part is a view."""

    def __init__(self, size):
        self.parameters = parameters(*[(size,)] * 4)

    def loss(self, factor):
        q, k, dq, dk = self.parameters
        return ((torch.cat([q, k]) + torch.cat([dq, dk])).square() * factor).sum()


class LowRankDelta:
    """A fused weight and a low-rank delta, whose gradients are computed from the fused weight's."""

    def __init__(self, size):
        self.parameters = parameters((size, size), (size, size), (2 * size, 4), (4, size))

    def loss(self, factor):
        q, k, b, a = self.parameters
        images = torch.linspace(-1, 1, 8 * q.shape[1]).reshape(8, -1) * factor
        return (images @ (torch.cat([q, k]) + b @ a).t()).square().mean()


class WholeViews:
    """Gradients that are views of all of another's memory."""

    def __init__(self, size):
        self.parameters = parameters((size, 2), (2 * size,), (size, 4), (4, 2))

    def loss(self, factor):
        a, c, u, v = self.parameters
        return ((a.view(-1) + c.view(-1)) * (u @ v).view(-1) * factor).sum()


class AsViews:
    """A compressor that hands out views."""

    @staticmethod
    def compress(tensor):
        return tensor.view(-1), tensor.shape

    @staticmethod
    def decompress(tensor, shape):
        return tensor.view(shape)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("model", [FusedWeights, LowRankDelta, WholeViews])
@pytest.mark.parametrize("settings", [{}, {"groups": 1}, {"groups": 2}, {"op": "Sum"}, {"compression": AsViews}], ids=str)
def test_gradients_of_one_memory(hvd, rank, world, model, settings):
    torch.manual_seed(1)
    made = model(size=64)
    own = random.Random(rank)
    op = getattr(hvd, settings.get("op", "Average"))
    plain = torch.optim.SGD(made.parameters, lr=1e-6)
    optimizer = hvd.DistributedOptimizer(plain, **{**settings, "op": op})
    for step in range(20):
        ranks = [torch.autograd.grad(made.loss(step + other), made.parameters) for other in range(world)]
        optimizer.zero_grad()
        if own.random() < 0.5:
            time.sleep(own.random() * 0.002)  # the ranks' reductions begin at different moments of the others' passes
        made.loss(step + rank).backward()
        optimizer.synchronize()
        for parameter, *gradients in zip(made.parameters, *ranks, strict=True):
            expected = torch.stack(gradients).sum(0) / (1 if op == hvd.Sum else world)
            torch.testing.assert_close(parameter.grad, expected, rtol=1e-4, atol=1e-3)
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(2)
def test_what_gradients_are_made_of_stays_as_it_is(hvd, rank):
    """What the program has given to the pass, or seen in it."""
    a, b = made = [nn.Parameter(torch.zeros(3)) for _ in range(2)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(made, lr=0.1))
    for _ in range(4):
        optimizer.zero_grad()
        seen = []
        joined = torch.cat([a, b])
        joined.register_hook(seen.append)
        given = torch.full((6,), rank + 1.0)
        joined.backward(gradient=given)
        optimizer.synchronize()
        assert given.unique().tolist() == seen[0].unique().tolist() == [rank + 1.0]
        assert a.grad.tolist() == b.grad.tolist() == [1.5] * 3
        with optimizer.skip_synchronize():
            optimizer.step()
