"""Gradients that have a graph (``backward(create_graph=True)``), and optimizers that differentiate them."""

from __future__ import annotations

import pytest
import torch
from torch import nn

pytestmark = pytest.mark.filterwarnings("ignore:Using backward")


class SecondOrder(torch.optim.Optimizer):
    """Steps by the gradient over the Hessian's row sums, as AdaHessian (Yao et al., 2020) does by its diagonal."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        with torch.enable_grad():
            if closure is not None:
                closure()
            own = self.param_groups[0]["params"]
            rows = torch.autograd.grad([each.grad.sum() for each in own], own)
        with torch.no_grad():
            for each, row in zip(own, rows):
                each -= 0.1 * each.grad / (row.abs() + 1)


def losses(w, ranks):
    return sum(((w - each) ** 4).mean() * (each + 1) for each in ranks)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("count", [3, 100000])
@pytest.mark.parametrize("way", ["closure", "plain", "skip", "group"])
def test_reduced_gradients_are_not_differentiated(hvd, rank, world, count, way):
    """They had the values of all ranks and the graph of one, so ranks went apart."""
    w, v = (nn.Parameter(torch.linspace(-1, 1, count, dtype=torch.float64)) for _ in range(2))
    named = [(f"second.{way}.{count}", w), (f"second.{way}.{count}.v", v)]
    groups = [[w, v]] if way == "group" else None
    optimizer = hvd.DistributedOptimizer(SecondOrder([w, v]), named, groups=groups)

    def closure():
        optimizer.zero_grad()
        loss = losses(w, [rank]) + losses(v, [rank])
        loss.backward(create_graph=True)
        return loss

    with pytest.raises(ValueError, match="is differentiated.*allreduce"):
        if way == "closure":
            optimizer.step(closure)
        elif way == "skip":
            closure()
            optimizer.synchronize()
            with optimizer.skip_synchronize():
                optimizer.step()
        else:
            closure()
            optimizer.step()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("zeroes", ["none", "zeros", "no"])
def test_what_is_differentiated_before_is_right(hvd, rank, world, zeroes):
    """A penalty on the gradient's square, of gradients that are then clipped in place."""

    def train(make, ranks):
        w = nn.Parameter(torch.linspace(-1, 1, 7, dtype=torch.float64))
        optimizer = make(w)
        for step in range(3):
            if zeroes != "no":
                optimizer.zero_grad(set_to_none=zeroes == "none")
            for each in ranks:
                loss = losses(w, [each]) / len(ranks)
                (gradient,) = torch.autograd.grad(loss, w, create_graph=True)
                (loss + gradient.square().sum() * len(ranks) / 100).backward(create_graph=step % 2 == 0)
            if len(ranks) == 1 and world > 1:
                optimizer.synchronize()
            nn.utils.clip_grad_norm_([w], 100.0)
            w.grad.data.mul_(0.5)
            with torch.no_grad():
                w.grad.mul_(2.0)
            with optimizer.skip_synchronize() if len(ranks) == 1 else torch.enable_grad():
                optimizer.step()
        return w.detach()

    found = train(lambda w: hvd.DistributedOptimizer(torch.optim.SGD([w], lr=0.01), [(f"before.{zeroes}", w)]), [rank])
    expected = train(lambda w: torch.optim.SGD([w], lr=0.01), range(world))
    torch.testing.assert_close(found, expected)
