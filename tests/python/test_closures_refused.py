"""Closures of ``step(closure)`` that reduce by themselves, and what is refused: all ranks are told."""

from __future__ import annotations

import pytest
import torch
from torch import nn


class Evaluating(torch.optim.Optimizer):
    """Evaluates as often as it is told, and steps."""

    def __init__(self, parameters, times=1):
        super().__init__(parameters, {})
        self.times = times

    def step(self, closure):
        for each in range(self.times):
            closure(each)
        with torch.no_grad():
            for each in self.param_groups[0]["params"]:
                each -= each.grad


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("count", [2, 300000])
@pytest.mark.parametrize("op", ["Average", "Sum"])
@pytest.mark.parametrize("way", ["zeroed", "none", "added"])
def test_a_pass_behind_the_closures_own_synchronize(hvd, rank, world, op, way, count):
    """Each rank stepped with its own gradients of it."""
    w = nn.Parameter(torch.zeros(count))
    named = [(f"behind.{op}.{way}.{count}", w)]
    optimizer = hvd.DistributedOptimizer(Evaluating([w]), named, op=getattr(hvd, op))

    def closure(_):
        optimizer.zero_grad()
        (w * (rank + 1)).sum().backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_([w], 1e9)
        if way == "zeroed":
            optimizer.zero_grad()
        elif way == "none":
            w.grad = None
        (w * 10 * (rank + 1)).sum().backward()

    whole = world * (world + 1) / 2 / (world if op == "Average" else 1)
    for _ in range(3):
        before = w.detach().clone()
        if op == "Sum" and way == "added":
            with pytest.raises(ValueError, match="a backward pass of the closure adds to gradients that were reduced"):
                optimizer.step(closure)
        else:
            optimizer.step(closure)
            torch.testing.assert_close(w.detach(), before - whole * (11 if way == "added" else 10))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("way", ["clipped", "replaced", "looked"])
def test_what_a_closure_does_behind_its_own_synchronize_is_no_new_gradient(hvd, rank, world, way):
    w = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(Evaluating([w], 2), [(f"own.{way}", w)], op=hvd.Sum)
    total = world * (world + 1) / 2

    def closure(evaluation):
        if evaluation == 0:
            optimizer.zero_grad()
            (w * (rank + 1)).sum().backward()
            optimizer.synchronize()
            if way == "clipped":
                w.grad.mul_(0.5)
            elif way == "replaced":
                w.grad = w.grad * 0.5

    for _ in range(3):
        before = w.detach().clone()
        optimizer.step(closure)
        torch.testing.assert_close(w.detach(), before - total * (1 if way == "looked" else 0.5))


def refuse(rank, w):
    """Adds to what was reduced."""
    (w * 100).sum().backward()


def leave(rank, w):
    """Computes the loss only."""


def replace(rank, w):
    w.grad = w.grad * 0.5


def clear_and_compute(rank, w):
    w.grad = None
    (w * (rank + 1)).sum().backward()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "of_first, of_others", [(refuse, leave), (leave, refuse), (replace, leave), (leave, clear_and_compute)]
)
def test_what_one_rank_refuses_all_are_told_and_the_next_step_is_right(hvd, rank, world, of_first, of_others):
    """The others' call met that rank's next one."""
    w = nn.Parameter(torch.zeros(2))
    name = f"told.{of_first.__name__}.{of_others.__name__}"
    optimizer = hvd.DistributedOptimizer(Evaluating([w]), [(name, w)], op=hvd.Sum)
    total = world * (world + 1) / 2
    for step in range(1, 7):

        def closure(_, step=step):
            if step % 2 == 0:
                (of_first if rank == 0 else of_others)(rank, w)
            else:
                optimizer.zero_grad()
                (w * step * (rank + 1)).sum().backward()

        before = w.detach().clone()
        if step % 2 == 0:
            with pytest.raises(ValueError, match=r"optimizer.step\(closure\).*zero_grad"):
                optimizer.step(closure)
            assert torch.equal(w.detach(), before)
        else:
            optimizer.step(closure)
            torch.testing.assert_close(w.detach(), before - step * total)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("has_closure", [False, True])
def test_a_step_that_skips_reductions_of_a_pass_behind_synchronize_is_refused(hvd, rank, world, has_closure):
    """Each rank stepped with its own gradients of it, or with memory that was being reduced."""
    w = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(Evaluating([w]), [(f"skipped.{has_closure}", w)])

    def passes(*_):
        optimizer.zero_grad()
        (w * (rank + 1)).sum().backward()
        optimizer.synchronize()
        (w * 10 * (rank + 1)).sum().backward()

    with optimizer.skip_synchronize(), pytest.raises(ValueError, match="within optimizer.skip_synchronize()"):
        if has_closure:
            optimizer.step(passes)
        else:
            passes()
            optimizer.step()
    assert w.tolist() == [0.0, 0.0]
    optimizer.synchronize()
    with optimizer.skip_synchronize():
        optimizer.step(lambda _: None)
    assert w.tolist() == [-16.5, -16.5]
