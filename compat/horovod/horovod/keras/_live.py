"""Which Keras the program works with."""

from __future__ import annotations

import importlib
import importlib.metadata
import os
from typing import Any


def _is_version_2() -> bool:
    if os.environ.get("TF_USE_LEGACY_KERAS", "").lower() in ("1", "true"):
        return True
    try:
        return int(importlib.metadata.version("keras").split(".")[0]) < 3
    except importlib.metadata.PackageNotFoundError:  # only tf.keras is there, in TensorFlow itself
        return True


#: Ronde's module for it.
ronde_keras: Any = importlib.import_module("ronde.tensorflow.keras" if _is_version_2() else "ronde.keras")
