"""Learning rates for the large batches of many ranks. For every framework: plain arithmetic, importing none.

    peak = learning_rate.linear(0.1, hvd.size())                  # Goyal et al. 2017; with Adam mostly square_root
    warmup = learning_rate.Warmup(0.1, peak, steps=5 * steps_per_epoch)
    for step in ...:
        set_learning_rate(optimizer, warmup(step))

A :class:`Warmup` is also a schedule as optax takes it, and ``torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step:
warmup(step) / warmup.peak)`` has it in PyTorch, for an optimizer that was made with the peak.
"""

from __future__ import annotations

import math
from typing import Any

from ronde.exceptions import InvalidArgumentError

__all__ = ["Warmup", "corrected_momentum", "linear", "square_root"]


def linear(rate: float, factor: float) -> float:
    """The rate for a batch ``factor`` times as large, for SGD: ``rate * factor``.

    Args:
        rate: what is good for one rank's batch, > 0.
        factor: mostly the number of ranks, > 0.

    Raises ValueError for numbers that are not above 0.
    """
    return _above_zero(rate, "rate") * _above_zero(factor, "factor")


def square_root(rate: float, factor: float) -> float:
    """The rate for a batch ``factor`` times as large, mostly for Adam, LAMB and the like: ``rate * sqrt(factor)``, by which
    the variance of a step stays what it is.

    Args:
        rate: what is good for one rank's batch, > 0.
        factor: mostly the number of ranks, > 0.

    Raises ValueError for numbers that are not above 0.
    """
    return _above_zero(rate, "rate") * math.sqrt(_above_zero(factor, "factor"))


class Warmup:
    """A schedule that goes in a straight line from one rate to another and then stays: called with the number of the
    step, from 0, it returns that step's rate.

    Attributes:
        base: the rate of step 0, mostly one rank's.
        peak: the rate of step ``steps`` and all after it.
        steps: how many steps it takes to get there.
    """

    __slots__ = ("base", "peak", "steps")

    def __init__(self, base: float, peak: float, steps: int) -> None:
        """From ``base`` to ``peak`` in ``steps`` steps. Raises ValueError for rates that are not above 0, and for less than 1
        step."""
        self.base = _above_zero(base, "base")
        self.peak = _above_zero(peak, "peak")
        if steps < 1:
            raise InvalidArgumentError(f"steps is {steps}: a warm-up takes 1 step or more", 1)
        self.steps = steps

    def __call__(self, step: Any) -> Any:
        """The rate of a ``step``: a number, or an array of NumPy's or JAX's, also in a traced function; then as an array.
        Exactly ``base`` in step 0 and exactly ``peak`` from step ``steps`` on. Raises nothing."""
        under_way = step < self.steps
        part = under_way * (step / self.steps) + (1 - under_way * 1) * 1.0
        return self.base * (1.0 - part) + self.peak * part


def corrected_momentum(momentum: float, old_rate: float, new_rate: float) -> float:
    """The momentum for the first step with a new rate, in optimizers whose velocity contains the rate
    (``v = momentum * v - rate * gradient``, as in Keras and TensorFlow): ``momentum * new_rate / old_rate``. The steps after
    it, while the rate stays, take the plain momentum.

    Args:
        momentum: the optimizer's, >= 0.
        old_rate: the rate of the step before, > 0.
        new_rate: the rate of this step, >= 0.

    Without it the velocity of before goes on at the old rate. The velocity of ``torch.optim.SGD`` and ``optax.sgd`` is free
    of the rate, and they need none. Raises ValueError for numbers out of these ranges.
    """
    if momentum < 0 or new_rate < 0:
        raise InvalidArgumentError(f"momentum {momentum} and new_rate {new_rate} must not be below 0", 1)
    return momentum * new_rate / _above_zero(old_rate, "old_rate")


def _above_zero(value: float, what: str) -> float:
    if not value > 0:
        raise InvalidArgumentError(f"{what} is {value}: it must be above 0", 1)
    return value
