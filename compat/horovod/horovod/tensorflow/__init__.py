"""``import horovod.tensorflow as hvd``: the names of :mod:`ronde.tensorflow`, the very same objects."""

from __future__ import annotations

from typing import Any

import ronde.tensorflow as _ronde_tensorflow
from ronde.tensorflow import *  # noqa: F403
from ronde.tensorflow import _executing_eagerly  # noqa: F401 - programs ask
import tensorflow as _tf

# Programs say horovod.common.exceptions without an import of their own.
import horovod.common.exceptions  # noqa: F401
import horovod.common.util

# After the names, of which `elastic` is one, whose place this takes.
import horovod.tensorflow.compression as compression  # noqa: E402
import horovod.tensorflow.elastic as elastic  # type: ignore[no-redef] # noqa: E402 - takes its place
import horovod.tensorflow.functions as functions  # noqa: E402
import horovod.tensorflow.gradient_aggregation as gradient_aggregation  # noqa: E402
import horovod.tensorflow.gradient_aggregation_eager as gradient_aggregation_eager  # noqa: E402
import horovod.tensorflow.mpi_ops as mpi_ops  # noqa: E402
import horovod.tensorflow.util as util  # noqa: E402

_cache = horovod.common.util.cache
_make_subgraph = _tf.function
_DistributedOptimizer = DistributedOptimizer  # noqa: F405 - as some programs call it, with the same arguments
handle_average_backwards_compatibility = horovod.common.util.get_average_backwards_compatibility_fun(_ronde_tensorflow)

__all__ = list(_ronde_tensorflow.__all__)


def __getattr__(name: str) -> Any:
    return getattr(_ronde_tensorflow, name)
