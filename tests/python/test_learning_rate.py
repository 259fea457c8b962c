"""Learning rates for many ranks."""

from __future__ import annotations

import math

import numpy as np
import optax
import pytest
import torch

from ronde import learning_rate


def test_scaling():
    assert learning_rate.linear(0.1, 8) == 0.8
    assert learning_rate.square_root(0.1, 16) == 0.4
    for scaling in (learning_rate.linear, learning_rate.square_root):
        for rate, factor in ((0.0, 2), (0.1, 0), (-1.0, 2), (math.nan, 2)):
            with pytest.raises(ValueError, match="must be above 0"):
                scaling(rate, factor)


@pytest.mark.parametrize(("base", "peak", "steps"), [(0.1, 0.8, 10), (0.1, 0.3, 7), (1e-3, 1e-4, 3), (0.7, 0.7, 1)])
def test_warmup(base, peak, steps):
    """The ends exactly, a straight line between; numbers and arrays alike."""
    warmup = learning_rate.Warmup(base, peak, steps)
    assert warmup(0) == base and isinstance(warmup(0), float)
    assert all(warmup(step) == peak for step in (steps, steps + 1, 10**9))
    rates = [warmup(step) for step in range(steps + 3)]
    line = [base + (peak - base) * min(step / steps, 1.0) for step in range(steps + 3)]
    assert rates == pytest.approx(line, rel=1e-15)
    assert warmup(np.arange(steps + 3)).tolist() == rates
    with pytest.raises(ValueError, match="1 step or more"):
        learning_rate.Warmup(base, peak, 0)


def test_horovods_formula():
    """``1 / N * (epoch * (N - 1) / warmup + 1)`` of the scaled rate."""
    warmup = learning_rate.Warmup(0.1, learning_rate.linear(0.1, 4), 5)
    assert [warmup(epoch) for epoch in range(5)] == pytest.approx([0.4 / 4 * (epoch * 3 / 5 + 1) for epoch in range(5)])


def test_in_optax_and_torch():
    warmup = learning_rate.Warmup(0.25, 1.0, 3)
    optimizer = optax.sgd(warmup)
    parameters, weight = {"w": np.float32(0)}, torch.nn.Parameter(torch.zeros(()))
    state = optimizer.init(parameters)
    sgd = torch.optim.SGD([weight], lr=warmup.peak)
    scheduler = torch.optim.lr_scheduler.LambdaLR(sgd, lambda step: warmup(step) / warmup.peak)
    expected = 0.0
    for step in range(6):
        updates, state = optimizer.update({"w": np.float32(1)}, state, parameters)
        parameters = optax.apply_updates(parameters, updates)
        weight.grad = torch.ones(())
        sgd.step()
        scheduler.step()
        expected -= warmup(step)
        assert float(parameters["w"]) == weight.item() == pytest.approx(expected)


def test_momentum_correction():
    """With it an optimizer whose velocity contains the rate takes the steps of one whose velocity does not, of PyTorch's."""
    warmup = learning_rate.Warmup(0.01, 0.16, 8)
    gradients = np.random.default_rng(0).normal(size=12)
    weight = torch.nn.Parameter(torch.zeros((), dtype=torch.float64))
    sgd = torch.optim.SGD([weight], lr=1.0, momentum=0.9)
    plain, velocity, old_rate = 0.0, 0.0, warmup(0)
    for step, gradient in enumerate(gradients):
        rate = warmup(step)
        velocity = learning_rate.corrected_momentum(0.9, old_rate, rate) * velocity - rate * gradient
        plain, old_rate = plain + velocity, rate
        sgd.param_groups[0]["lr"] = rate
        weight.grad = torch.tensor(gradient, dtype=torch.float64)
        sgd.step()
        assert weight.item() == pytest.approx(plain, rel=1e-12)
    for momentum, old_rate, rate in ((-0.1, 1.0, 1.0), (0.9, 0.0, 1.0), (0.9, 1.0, -1.0)):
        with pytest.raises(ValueError):
            learning_rate.corrected_momentum(momentum, old_rate, rate)
