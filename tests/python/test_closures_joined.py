"""Closures of ``step(closure)`` while a rank has joined: it adds nothing to averages, and counts."""

from __future__ import annotations

import pytest
import torch
from torch import nn


class Looks(torch.optim.Optimizer):
    """Once with a backward pass, then so often at the loss only."""

    def __init__(self, parameters, times):
        super().__init__(parameters, {})
        self.times = times

    def step(self, closure):
        closure(True)
        for _ in range(self.times):
            closure(False)
        with torch.no_grad():
            for each in self.param_groups[0]["params"]:
                each -= 0.1 * each.grad


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("compression", ["none", "fp16"])
@pytest.mark.parametrize("way", ["backward", "assigned", "summed"])
@pytest.mark.parametrize("times", [0, 1, 3])
def test_averages_that_a_look_at_the_loss_leaves_stay_while_a_rank_has_joined(hvd, rank, world, compression, way, times):
    """Who has joined adds nothing and counts: averaged once more they became less."""
    w = nn.Parameter(torch.zeros(2))
    named = [(f"joined.{compression}.{way}.{times}", w)]
    op = hvd.Sum if way == "summed" else hvd.Average
    compressor = getattr(hvd.Compression, compression)
    optimizer = hvd.DistributedOptimizer(Looks([w], times), named, op=op, compression=compressor)

    def closure(has_gradients):
        if has_gradients:
            optimizer.zero_grad()
        if has_gradients and way == "assigned":
            w.grad = torch.full((2,), 4.0)
        elif has_gradients:
            (w * 4).sum().backward()
        return w.detach().sum()

    each_counts = 4.0 if way == "summed" else 4.0 / world
    for n_present in (world, world - 1, world - 1, world):
        if rank < n_present:
            for step in range(3):
                before = w.detach().clone()
                optimizer.step(closure)
                assert w.grad.tolist() == pytest.approx([each_counts * n_present] * 2, rel=1e-3), (n_present, step)
                torch.testing.assert_close(w.detach(), before - 0.1 * w.grad)
        hvd.join()


@pytest.mark.ranks(2, 3)
def test_averages_of_which_nobody_can_say_whether_they_are_reduced_are_refused_while_a_rank_has_joined(hvd, rank, world):
    w = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(Looks([w], 0), [("joined asking", w)])
    (w * 4).sum().backward()
    optimizer.step(lambda _: 0.0)
    optimizer.step(lambda _: 0.0)  # the average of averages
    assert w.grad.tolist() == [4.0, 4.0]
    if rank < world - 1:
        with pytest.raises(ValueError, match="whether the gradients that are there were reduced already cannot be told"):
            optimizer.step(lambda _: 0.0)
        assert w.grad.tolist() == [4.0, 4.0]

        def written(_):
            w.grad.fill_(3.0)
            return 0.0

        optimizer.zero_grad()
        w.grad = torch.full((2,), 4.0)
        optimizer.step(written)
        optimizer.zero_grad()
        w.grad = torch.full((2,), 4.0)
        optimizer.step(lambda _: 0.0)
        with pytest.raises(ValueError, match="has written to gradients that were reduced already"):
            optimizer.step(written)
    hvd.join()
