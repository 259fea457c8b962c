"""The operations of :mod:`ronde.tensorflow.mpi_ops`, and who this process is: the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.tensorflow as _package
import ronde.tensorflow.mpi_ops as _module
from ronde.tensorflow.mpi_ops import *  # noqa: F403


def __getattr__(name: str) -> Any:
    # Horovod's private functions of one tensor.
    if name in ("_allreduce", "_allgather", "_broadcast"):
        return getattr(_module, name[1:])
    return getattr(_module, name) if hasattr(_module, name) else getattr(_package, name)
