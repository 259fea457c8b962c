"""What :mod:`ronde.torch.optimizer` has, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch.optimizer as _module
from ronde.torch.optimizer import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
