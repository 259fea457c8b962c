"""Gradients through collectives."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.ranks(1, 2, 3)
def test_allreduce(hvd, rank, world):
    for op, factor in ((hvd.Sum, world), (hvd.Average, 1)):
        x = torch.full((3,), rank + 1.0, requires_grad=True)
        y = hvd.allreduce(x, op=op, prescale_factor=0.5, postscale_factor=4.0)
        assert y.requires_grad
        (y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        # Each rank's gradient is reduced with the same operation and factors.
        assert torch.allclose(x.grad, 2.0 * factor * torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.ranks(1, 2)
def test_grouped(hvd, rank, world):
    a, b = (torch.full((2,), float(i), requires_grad=True) for i in range(2))
    c, d = hvd.grouped_allreduce([a, b], op=hvd.Sum)
    (c.sum() + 2 * d.sum()).backward()
    assert bool((a.grad == world).all()) and bool((b.grad == 2 * world).all())


@pytest.mark.ranks(1, 2, 3)
def test_allgather(hvd, rank, world):
    x = torch.full((rank + 1, 2), 1.0, requires_grad=True)
    gathered = hvd.allgather(x)
    weights = torch.arange(gathered.numel(), dtype=torch.float32).reshape(gathered.shape)
    (gathered * weights).sum().backward()
    first = rank * (rank + 1) // 2
    assert torch.equal(x.grad, weights[first : first + rank + 1])  # the average of equal gradients


@pytest.mark.ranks(1, 2, 3)
def test_broadcast(hvd, rank, world):
    x = torch.ones(3, requires_grad=True)
    (hvd.broadcast(x, 0) * (rank + 1.0)).sum().backward()
    expected = sum(range(1, world + 1)) / world if rank == 0 else 0.0
    assert torch.allclose(x.grad, torch.full((3,), expected))


@pytest.mark.ranks(2)
def test_backward_need_not_run_in_the_same_order(hvd, rank):
    x = torch.ones(2, requires_grad=True)
    losses = [hvd.allreduce(x, op=hvd.Sum).sum() * (i + 1) for i in range(4)]
    handles = losses if rank == 0 else losses
    for loss in handles:
        loss.backward()
    assert x.grad.tolist() == [20.0, 20.0]


@pytest.mark.ranks(2)
def test_no_graph_without_need(hvd):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(x).requires_grad
    assert not hvd.allreduce(torch.ones(2)).requires_grad
