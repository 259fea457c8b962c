"""The operations of :mod:`ronde.torch.mpi_ops`, and who this process is: the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch as _package
import ronde.torch.mpi_ops as _module
from ronde.torch.mpi_ops import *  # noqa: F403


def __getattr__(name: str) -> Any:
    return getattr(_module, name) if hasattr(_module, name) else getattr(_package, name)
