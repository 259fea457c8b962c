"""What :mod:`ronde.torch.optimizer` has, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch.optimizer as _module
from ronde.torch.adasum_optimizer import _AdasumOptimizer as _DistributedAdasumOptimizer
from ronde.torch.optimizer import *  # noqa: F403
from ronde.torch.optimizer import _DistributedOptimizer


__all__ = ["DistributedOptimizer", "_DistributedAdasumOptimizer", "_DistributedOptimizer"]


def __getattr__(name: str) -> Any:
    return getattr(_module, name)
