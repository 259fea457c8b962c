"""Parameters that are frozen for a while, on all ranks or on some."""

from __future__ import annotations

import pytest
import torch
from torch import nn


def frozen_everywhere(step, rank):
    return step in (1, 2)


def frozen_on_one_rank(step, rank):
    return step in (1, 3) and rank == 0


def frozen_at_first_on_one_rank(step, rank):
    return step == 0 and rank == 1


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"sparse_as_dense": True}], ids=["place", "group", "dense"])
@pytest.mark.parametrize("is_frozen", [frozen_everywhere, frozen_on_one_rank, frozen_at_first_on_one_rank])
def test_parameters_that_are_frozen_for_a_while(hvd, rank, world, options, is_frozen):
    """A rank that has one frozen has no gradient of it, and takes part all the same; where all have, it stays as it is."""
    a, b = (nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([a, b], lr=1.0, weight_decay=0.5), [("freeze.a", a), ("freeze.b", b)], **options
    )
    expected_a, expected_b = 1.0, 1.0
    for step in range(5):
        b.requires_grad_(not is_frozen(step, rank))
        optimizer.zero_grad()
        ((a + b) * 10.0**step).sum().backward()
        optimizer.step()
        having = sum(not is_frozen(step, each) for each in range(world))
        expected_a -= 10.0**step + 0.5 * expected_a
        if having:
            expected_b -= 10.0**step * having / world + 0.5 * expected_b
        assert torch.allclose(a, torch.full((2,), expected_a)), step
        assert torch.allclose(b, torch.full((2,), expected_b)), step


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "options", [{}, {"groups": 1}, {"compression": "fp16"}, {"op": "Sum"}], ids=["place", "group", "fp16", "sum"]
)
@pytest.mark.parametrize("is_used", [True, False], ids=["zeros", "unused"])
def test_who_has_it_frozen_steps_when_the_others_do(hvd, rank, world, options, is_used):
    """Also where the gradient is zero, which is one all the same: a momentum goes on by it."""
    if "compression" in options:
        options = {"compression": hvd.Compression.fp16}
    if "op" in options:
        options = {"op": hvd.Sum}
    a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
    serial = nn.Parameter(torch.ones(3))
    plain = torch.optim.SGD([serial], lr=0.1, momentum=0.9, weight_decay=0.01)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=0.1, momentum=0.9, weight_decay=0.01), **options)
    for step in range(6):
        optimizer.zero_grad()
        is_quiet = 2 <= step <= 4
        b.requires_grad_(not (is_quiet and rank == 1))
        loss = a.sum()
        if not is_quiet:
            loss = loss + 2 * b.sum()
        elif is_used and rank != 1:
            loss = loss + (0 * b).sum()
        loss.backward()
        optimizer.step()
        factor = world if "op" in options else 1
        serial.grad = torch.full((3,), 0.0 if is_quiet else 2.0 * factor)
        plain.step()
        torch.testing.assert_close(b.detach(), serial.detach(), rtol=1e-3, atol=1e-5)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Min", "Max", "Product"])
def test_what_cannot_be_told_is_a_gradient_of_zeros(hvd, rank, world, op):
    """Alike on all ranks: a frozen rank's zero is the least or the largest, or makes the product zero."""
    a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([a, b], lr=0.1, momentum=0.9, weight_decay=0.01), op=getattr(hvd, op)
    )
    for step in range(4):
        optimizer.zero_grad()
        b.requires_grad_(step == 0 or rank != 1)
        (a.sum() - b.sum()).backward()
        optimizer.step()
        everyone = hvd.allgather(b.detach().reshape(1, -1))
        assert all(torch.equal(row, everyone[0]) for row in everyone), step


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.complex64], ids=str)
@pytest.mark.parametrize("size", [1, 3, 70_000])
def test_what_is_frozen_on_all_ranks_has_no_gradient(hvd, rank, world, dtype, size):
    p, other = nn.Parameter(torch.ones(size, dtype=dtype)), nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p, other], lr=0.1, momentum=0.9))
    for step in range(4):
        optimizer.zero_grad()
        p.requires_grad_(step < 2)
        loss = other.sum()
        if step < 2:
            loss = loss + (p * p.conj()).real.sum().float()
        loss.backward()
        before = p.detach().clone()
        optimizer.step()
        assert (p.grad is None) == (step >= 2)
        assert torch.equal(p.detach(), before) == (step >= 2)


class SharpnessAware(torch.optim.Optimizer):
    """Climbs by the gradients of the pass before, then steps by those of the closure."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})

    @torch.no_grad()
    def step(self, closure):
        listed = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in listed]).norm()
        starts = [p.clone() for p in listed]
        for p in listed:
            p.add_(p.grad * (0.5 / norm))
            p.grad = None
        torch.enable_grad()(closure)()
        for p, start in zip(listed, starts):
            p.copy_(start - 0.1 * p.grad)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("is_frozen", [True, False])
def test_a_pass_before_the_closure_counts_where_all_was_frozen_before(hvd, rank, world, is_frozen):
    def made():
        return [nn.Parameter(torch.arange(3.0) + i, requires_grad=not is_frozen) for i in range(2)]

    def loss_of(parameters, r):
        return (parameters[0] * (r + 1)).sin().sum() + (parameters[1] * (r + 2)).cos().sum()

    mine, serial = made(), made()
    optimizer = hvd.DistributedOptimizer(SharpnessAware(mine))
    plain = SharpnessAware(serial)
    for p in mine + serial:
        p.requires_grad_(True)

    def train(optimizer, loss):
        def closure():
            optimizer.zero_grad()
            loss().backward()

        closure()
        optimizer.step(closure)

    for _ in range(3):
        train(optimizer, lambda: loss_of(mine, rank))
        train(plain, lambda: sum(loss_of(serial, r) for r in range(world)) / world)
        for p, expected in zip(mine, serial):
            torch.testing.assert_close(p.detach(), expected.detach())


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("is_frozen_by_all", [True, False])
@pytest.mark.parametrize("kind", ["SGD", "SparseAdam"])
def test_an_embedding_that_is_frozen_steps_when_the_others_do(hvd, rank, world, kind, is_frozen_by_all):
    """Also by a gradient without a row: a momentum goes on by it, and so does the count of steps."""

    def made(weight):
        if kind == "SGD":
            return torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        return torch.optim.SparseAdam([weight], lr=0.1)

    embedding, serial = nn.Embedding(4, 2, sparse=True), nn.Embedding(4, 2, sparse=True)
    for each in (embedding, serial):
        each.weight.data.fill_(1.0)
    optimizer, plain = hvd.DistributedOptimizer(made(embedding.weight), [("embedding", embedding.weight)]), made(serial.weight)
    other = nn.Parameter(torch.ones(2))  # a pass without the embedding
    for step in range(6):
        optimizer.zero_grad()
        plain.zero_grad()
        is_quiet = 2 <= step <= 4
        embedding.weight.requires_grad_(not (is_quiet and (is_frozen_by_all or rank == 1)))
        (other.sum() if is_quiet else embedding(torch.tensor([1, 2])).sum()).backward()
        optimizer.step()
        if not is_quiet:
            serial(torch.tensor([1, 2])).sum().backward()
        elif not is_frozen_by_all:
            empty = torch.empty((1, 0), dtype=torch.int64)
            serial.weight.grad = torch.sparse_coo_tensor(empty, torch.empty((0, 2)), (4, 2), is_coalesced=True)
        plain.step()
        torch.testing.assert_close(embedding.weight.detach(), serial.weight.detach())


@pytest.mark.ranks(2, 3)
def test_what_is_frozen_stays_when_a_rank_has_joined(hvd, rank, world):
    a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=0.1, momentum=0.9, weight_decay=0.1))
    for step in range(6 if rank == 0 else 3):
        optimizer.zero_grad()
        b.requires_grad_(step < 1)
        (a.sum() + (b.sum() if step < 1 else 0)).backward()
        optimizer.step()
        if step == 0:
            frozen = b.detach().clone()
    hvd.join()
    assert torch.equal(b.detach(), frozen)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"sparse_as_dense": True}], ids=["place", "group", "dense"])
def test_ranks_that_have_frozen_others_but_as_many(hvd, rank, options):
    """A rank's count of what it reduces says nothing: two ranks may lack a parameter each, and not the same."""
    parameters = [nn.Parameter(torch.zeros(3)) for _ in range(3)]
    parameters[rank % 3].requires_grad_(False)
    named = [(f"as_many.{i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, op=hvd.Sum, **options)
    for step in range(1, 4):
        optimizer.zero_grad()
        sum(parameters).sum().backward()
        optimizer.step()
        for i, parameter in enumerate(parameters):
            having = sum(each % 3 != i for each in range(hvd.size()))
            assert parameter.tolist() == [-1.0 * having * step] * 3, (step, i)
