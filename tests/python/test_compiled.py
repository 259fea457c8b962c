"""Functions under ``torch.compile`` that call Ronde."""

from __future__ import annotations

import pytest
import torch


def compiled(function):
    return torch.compile(function, backend="eager")  # what is followed and what is not, without a C++ compiler


@pytest.mark.ranks(1, 2, 3)
def test_calls_are_made_each_time(hvd, rank, world):
    def mean(x):
        return hvd.allreduce(x * 2, op=hvd.Sum) + 1

    step = compiled(mean)
    for turn in range(5):
        expected = 2.0 * sum(r + turn for r in range(world)) + 1
        assert torch.equal(step(torch.full((4,), float(rank + turn))), torch.full((4,), expected))


@pytest.mark.ranks(2, 3)
def test_names_handles_and_lists(hvd, rank, world):
    def exchange(x, turn):
        handle = hvd.allreduce_async(x, op=hvd.Sum, name="compiled.x")
        gathered = hvd.allgather(x.view(1, -1) + turn)
        broadcast = hvd.broadcast(x, world - 1)
        a, b = hvd.grouped_allreduce([x, x + 1], op=hvd.Max)
        return hvd.synchronize(handle), gathered, broadcast, a, b

    step = compiled(exchange)
    for turn in range(4):
        total, gathered, broadcast, a, b = step(torch.full((3,), float(rank)), turn)
        assert total.tolist() == [float(sum(range(world)))] * 3
        assert gathered[:, 0].tolist() == [float(r + turn) for r in range(world)]
        assert broadcast.tolist() == a.tolist() == [world - 1.0] * 3 and b.tolist() == [float(world)] * 3


@pytest.mark.ranks(2)
def test_gradients_flow_through(hvd, rank, world):
    def loss(x):
        return (hvd.allreduce(x, op=hvd.Sum) * 3).sum()

    step = compiled(loss)
    for _ in range(3):
        x = torch.ones(3, requires_grad=True)
        step(x).backward()
        assert x.grad.tolist() == [6.0] * 3


@pytest.mark.ranks(2)
def test_a_compiled_model_with_the_optimizer(hvd, rank, world):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    plain = torch.optim.SGD(model.parameters(), lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    fast = compiled(model)
    for turn in range(4):
        torch.manual_seed(10 * turn + rank)
        optimizer.zero_grad()
        fast(torch.randn(5, 4)).square().mean().backward()
        optimizer.step()
    flat = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    everywhere = hvd.allgather(flat.unsqueeze(0))
    assert torch.equal(everywhere[0], everywhere[1])
