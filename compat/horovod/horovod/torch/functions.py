"""What :mod:`ronde.torch.functions` has, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch.functions as _module
from ronde.torch.functions import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
