"""Batch normalisation over all ranks: that of :mod:`ronde.torch`."""

from __future__ import annotations

from typing import Any

import ronde.torch as _module


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
