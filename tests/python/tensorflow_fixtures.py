"""Fixtures of tests of ``ronde.tensorflow``: modules import them by name. TensorFlow is loaded in the ranks of a pool, when
the first such test runs there: the process that they are forked from must not have its threads."""

from __future__ import annotations

import os
from typing import Any

import pytest


@pytest.fixture
def tf() -> Any:
    """TensorFlow."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@pytest.fixture
def hvd(tf: Any) -> Any:
    """``ronde.tensorflow``, in the job of the pool."""
    import ronde.tensorflow

    return ronde.tensorflow


@pytest.fixture
def rank(hvd: Any) -> int:
    """This process's rank."""
    return int(hvd.rank())
