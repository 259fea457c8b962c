"""A regression that every face learns: the whole batches, a rank's part of them, and what NumPy makes of them alone."""

from __future__ import annotations

from typing import Any, List, Tuple

import numpy as np
from checks import spoiled

INPUTS = 6
#: Of all ranks together.
BATCH = 24
STEPS = 10
RATE, MOMENTUM = 0.05, 0.9


def whole() -> Tuple[Any, Any]:
    """Inputs and targets of all steps, the batches one after the other."""
    generator = np.random.default_rng(7)
    inputs = generator.normal(size=(BATCH * STEPS, INPUTS)).astype("float32")
    return inputs, np.sin(inputs.sum(1, keepdims=True)).astype("float32")


def part(rank: int, size: int) -> Tuple[Any, Any]:
    """Every size-th example from the rank-th on, so that ranks together read the batches that one process reads."""
    inputs, targets = whole()
    return inputs[rank::size], spoiled(targets[rank::size])


def batches(data: Tuple[Any, Any], size: int) -> List[Tuple[Any, Any]]:
    """The same, batch by batch."""
    each = BATCH // size
    inputs, targets = data
    return [(inputs[at : at + each], targets[at : at + each]) for at in range(0, len(inputs), each)]


def first_weights(rank: int = 0) -> Any:
    """What each rank begins with; all are to have rank 0's."""
    return np.random.default_rng(rank).normal(size=(INPUTS, 1)).astype("float32")


def learnt_alone() -> Any:
    """The weights of a linear model after all steps of SGD with momentum, by one process, in double."""
    weights, velocity = first_weights().astype("float64"), np.zeros((INPUTS, 1))
    for inputs, targets in batches(whole(), 1):
        gradient = 2 * inputs.T.astype("float64") @ (inputs @ weights - targets) / len(inputs)
        velocity = MOMENTUM * velocity + gradient
        weights = weights - RATE * velocity
    return weights.astype("float32")
