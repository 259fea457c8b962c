"""``import horovod.keras as hvd``: the names of :mod:`ronde.keras`, the very same objects; of :mod:`ronde.tensorflow.keras`
where the program's Keras is version 2 (``TF_USE_LEGACY_KERAS=1``, or TensorFlow before 2.16)."""

from __future__ import annotations

from typing import Any

from horovod.keras._live import ronde_keras as _ronde_keras

import horovod.common.exceptions  # noqa: F401 - programs say it without an import of their own
import horovod.keras.callbacks as callbacks
import horovod.keras.elastic as elastic

__all__ = list(_ronde_keras.__all__)

globals().update({name: getattr(_ronde_keras, name) for name in __all__ if name not in ("callbacks", "elastic")})


def __getattr__(name: str) -> Any:
    return getattr(_ronde_keras, name)
