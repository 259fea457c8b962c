"""Gradients of parameters that lie in memory in other orders than the plain one: channels last, transposed, and whatever else."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from ronde.torch._tensors import as_sent, memory_order

LAST, SWAPPED = (0, 2, 3, 1), (1, 0, 2, 3)


def laid_out(tensor, order):
    """The same values, in memory in this order of dimensions."""
    return tensor.permute(order).contiguous().permute([order.index(d) for d in range(tensor.dim())])


@pytest.mark.parametrize("dimensions", [2, 3, 4])
def test_every_order_travels_in_a_shape_of_its_own(dimensions):
    shapes = set()
    for order in itertools.permutations(range(dimensions)):
        tensor = laid_out(torch.arange(3.0**dimensions).reshape((3,) * dimensions), order)
        assert memory_order(tensor) == (None if tensor.is_contiguous() else order)
        sent = as_sent(tensor, memory_order(tensor))
        assert sent.is_contiguous() and sent.data_ptr() == tensor.data_ptr()
        shapes.add(tuple(sent.shape))
    assert len(shapes) == len(list(itertools.permutations(range(dimensions))))


def test_an_order_that_no_shape_could_tell_is_none():
    """It has too many before it: what has no order travels as a copy in the plain one."""
    last = torch.zeros(2, 3, 4, 5, 6).to(memory_format=torch.channels_last_3d)
    assert memory_order(last) == (0, 2, 3, 4, 1)
    assert memory_order(laid_out(torch.zeros(2, 3, 4, 5, 6), (4, 3, 2, 1, 0))) is None
    assert memory_order(laid_out(torch.zeros((2,) * 7), (6, 5, 4, 3, 2, 1, 0))) is None


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_ranks_whose_orders_differ_are_told_so(hvd, rank, options):
    w = nn.Parameter(laid_out(torch.zeros(3, 3, 3, 3), LAST if rank == 0 else SWAPPED))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("orders.w", w)], op=hvd.Sum, **options)
    (w * torch.arange(81.0).reshape(3, 3, 3, 3)).sum().backward()
    with pytest.raises(hvd.HorovodInternalError, match="disagree about the shape"):
        optimizer.step()
    assert w.count_nonzero() == 0


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("order", [LAST, SWAPPED, (3, 2, 1, 0)], ids=str)
@pytest.mark.parametrize("dimensions", [4, 5])
def test_all_ranks_in_one_order(hvd, rank, world, order, dimensions):
    """Of five dimensions there are orders that cannot be told from each other."""
    if dimensions == 5:
        order = tuple(4 - d for d in order) + (0,)
    w = nn.Parameter(laid_out(torch.zeros((3,) * dimensions), order))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("order.w", w)], op=hvd.Sum)
    values = torch.arange(3.0**dimensions).reshape(w.shape)
    for step in range(1, 4):
        optimizer.zero_grad(set_to_none=step % 2 == 0)
        (w * values).sum().backward()
        optimizer.step()
        assert torch.equal(w.detach(), -values * world * step), step


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("before, behind", [((0, 1, 2, 3), LAST), (LAST, SWAPPED), (LAST, (0, 1, 2, 3))])
def test_the_order_changes_where_a_rank_does_not_use_the_parameter(hvd, rank, world, before, behind):
    """On all ranks alike, while the gradients of the step before lie in their places and were zeroed there."""
    w = nn.Parameter(laid_out(torch.zeros(3, 3, 3, 3), before))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("order.changes.w", w)], op=hvd.Sum)
    values = torch.arange(81.0).reshape(3, 3, 3, 3)
    expected = torch.zeros(3, 3, 3, 3)
    for step in range(5):
        optimizer.zero_grad(set_to_none=False)
        if step == 2:
            w.data = laid_out(w.data.contiguous(), behind)
        users = 1 if step == 2 else world
        if rank < users:
            (w * values).sum().backward()
        optimizer.step()
        expected -= values * users
        assert torch.equal(w.detach(), expected), step
