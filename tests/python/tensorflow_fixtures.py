"""Fixtures of tests of ``ronde.tensorflow``: modules import them by name. Ranks of tests that use ``tf`` are forked from a
process that has loaded TensorFlow (conftest.py)."""

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
