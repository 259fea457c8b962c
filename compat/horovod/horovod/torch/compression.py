"""What :mod:`ronde.torch.compression` has, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch.compression as _module
from ronde.torch.compression import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
