"""``import horovod.tensorflow.keras as hvd``: the names of :mod:`ronde.tensorflow.keras`, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.tensorflow.keras as _ronde_keras
from ronde.tensorflow.keras import *  # noqa: F403

import horovod.common.exceptions  # noqa: F401 - programs say it without an import of their own
import horovod.tensorflow.keras.callbacks as callbacks  # type: ignore[no-redef] # takes its place
import horovod.tensorflow.keras.elastic as elastic  # type: ignore[no-redef] # takes its place

__all__ = list(_ronde_keras.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_ronde_keras, name)
