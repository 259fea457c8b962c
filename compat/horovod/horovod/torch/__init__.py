"""``import horovod.torch as hvd``: the names of :mod:`ronde.torch`, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.torch as _ronde_torch
from ronde.torch import *  # noqa: F403
from ronde.torch import _check_has_gpu
from ronde.torch.optimizer import _DistributedOptimizer  # programs ask whether an optimizer is one

# Programs say horovod.common.exceptions without an import of their own.
import horovod.common.exceptions  # noqa: F401
import horovod.common.util  # noqa: F401

# After the names, of which `elastic` is one, whose place this takes; `from horovod.torch import elastic` would find that one.
import horovod.torch.compression as compression  # noqa: E402
import horovod.torch.elastic as elastic  # type: ignore[no-redef] # noqa: E402 - takes its place
import horovod.torch.functions as functions  # noqa: E402
import horovod.torch.mpi_ops as mpi_ops  # noqa: E402
import horovod.torch.optimizer as optimizer  # noqa: E402
import horovod.torch.sync_batch_norm as sync_batch_norm  # noqa: E402

__all__ = list(_ronde_torch.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_ronde_torch, name)
