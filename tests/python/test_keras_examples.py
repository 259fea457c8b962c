"""The examples of TensorFlow and Keras: one rank and several do the same on the same data."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from launching import run_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def losses(ranks, *command, **environment):
    ended = run_job(ranks, *map(str, command), **environment)
    assert ended.code == 0, ended.output
    return [float(re.search(r"loss ([\d.]+)", line)[1]) for line in [*ended.lines("step "), *ended.lines("epoch ")]]


@pytest.mark.long
def test_tensorflow_loop():
    command = EXAMPLES / "tensorflow" / "mnist.py", "--steps", "21", "--batch", "64"
    alone = losses(1, *command)
    assert len(alone) == 3 and alone[-1] < alone[0]
    assert losses(2, *command) == pytest.approx(alone, rel=1e-4)


@pytest.mark.parametrize("backend", ["tensorflow", pytest.param("torch", marks=pytest.mark.long),
                                     pytest.param("jax", marks=pytest.mark.long)])
def test_keras_fit(backend):
    command = EXAMPLES / "keras" / "mnist.py", "--images", "1024", "--epochs", "2"
    alone = losses(1, *command, KERAS_BACKEND=backend)
    assert len(alone) == 2 and alone[-1] < alone[0]
    assert losses(2, *command, KERAS_BACKEND=backend) == pytest.approx(alone, rel=1e-5)
