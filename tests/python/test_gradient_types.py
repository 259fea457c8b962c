"""Gradients of another type than their parameter, which PyTorch allows by ``grad_dtype``."""

from __future__ import annotations

import pytest
import torch

#: 1 + this is not 1 in float32, and is in bfloat16.
FINE = 2.0**-12


def wide_model(grad_dtype):
    model = torch.nn.Linear(3, 2, bias=False).to(torch.bfloat16)
    model.weight.grad_dtype = grad_dtype
    return model


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("settings", [{}, {"groups": 1}, {"sparse_as_dense": True}], ids=["place", "group", "dense"])
def test_they_are_reduced_in_their_own_type(hvd, rank, world, settings):
    model = wide_model(torch.float32)
    model.other = torch.nn.Parameter(torch.ones(3, dtype=torch.float32))
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum, **settings)

    def accumulate(parameter):
        parameter.grad.add_(FINE)

    model.weight.register_post_accumulate_grad_hook(accumulate)
    for _ in range(3):
        model.zero_grad()
        (model.weight.float().sum() + model.other.sum()).backward()
        optimizer.synchronize()
        assert model.weight.grad.dtype is torch.float32
        assert torch.equal(model.weight.grad, torch.full((2, 3), world * (1 + FINE)))
        assert torch.equal(model.other.grad, torch.full((3,), float(world)))


@pytest.mark.ranks(2)
def test_any_type_is_allowed(hvd, rank, world):
    model = wide_model(None)
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum)
    for dtype in (torch.float32, torch.float64, torch.bfloat16):
        model.weight.grad = torch.full((2, 3), 1.0 if dtype is torch.bfloat16 else 1.0 + FINE, dtype=dtype)
        optimizer.synchronize()
        assert model.weight.grad.dtype is dtype
        expected = 2.0 if dtype is torch.bfloat16 else 2.0 + 2 * FINE
        assert torch.equal(model.weight.grad, torch.full((2, 3), expected, dtype=dtype))


@pytest.mark.ranks(2)
def test_unused_on_one_rank(hvd, rank, world):
    model = wide_model(torch.float32)
    plain = torch.optim.SGD(model.parameters(), lr=0.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum)
    for turn in range(2):
        model.zero_grad()
        if rank == turn:
            model.weight.grad = torch.full((2, 3), 1.0 + FINE)
        optimizer.synchronize()
        assert torch.equal(model.weight.grad, torch.full((2, 3), 1.0 + FINE))
