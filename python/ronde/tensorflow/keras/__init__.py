"""Ronde for TensorFlow's own Keras, with Horovod's names: ``import ronde.tensorflow.keras as hvd``.

It is for the Keras that ``tf.keras`` is: Keras 3, or Keras 2 with ``TF_USE_LEGACY_KERAS=1`` and before TensorFlow 2.16. Used as
:mod:`ronde.keras`, which also knows the other backends of Keras 3.

What reduces is said by ``op``: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``. Operations are
done by ``global_process_set``, all ranks, unless a ``process_set`` is given.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Optional, Sequence

import tensorflow as _tf

from ronde._keras.loading import load_distributed
from ronde._keras.values import allgather, allreduce, broadcast, reducescatter
from ronde.tensorflow import (
    Adasum,
    Average,
    Compression,
    Compressor,
    Max,
    Min,
    ProcessSet,
    Product,
    RondeError,
    Sum,
    add_process_set,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_variables,
    ccl_built,
    cross_rank,
    cross_size,
    cuda_built,
    ddl_built,
    global_process_set,
    gloo_built,
    gloo_enabled,
    init,
    is_initialized,
    local_rank,
    local_size,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rank,
    remove_process_set,
    rocm_built,
    shutdown,
    size,
    start_timeline,
    stop_timeline,
)
from ronde.tensorflow import DistributedOptimizer as _of_tensorflow
from ronde.tensorflow._gradients import Groups as _Groups
from ronde.tensorflow.keras import callbacks, elastic
from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "broadcast",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_variables",
    "callbacks",
    "ccl_built",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "init",
    "is_initialized",
    "load_model",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rank",
    "reducescatter",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Optional[_Groups] = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """:func:`ronde.tensorflow.DistributedOptimizer` with the order of arguments that Horovod has here: ``optimizer``,
    ``name``, ``device_dense``, ``device_sparse``, ``compression``, ``sparse_as_dense``, ``gradient_predivide_factor``,
    ``op``, ``backward_passes_per_step``, ``average_aggregated_gradients``, ``num_groups``, ``groups``, ``process_set``,
    ``scale_local_gradients``. Raises as that does."""
    return _of_tensorflow(
        optimizer, name, False, device_dense, device_sparse, compression, sparse_as_dense, backward_passes_per_step, op,
        gradient_predivide_factor, average_aggregated_gradients, num_groups, groups, process_set, scale_local_gradients,
    )


def load_model(
    filepath: Any,
    custom_optimizers: Optional[Sequence[Any]] = None,
    custom_objects: Optional[Dict[str, Any]] = None,
    compression: Any = Compression.none,
    legacy_opts: bool = False,
) -> Any:
    """Loads a model and makes its optimizer a :func:`DistributedOptimizer`, which goes on where it was saved.

    Args:
        filepath: as in ``tf.keras.models.load_model``.
        custom_optimizers: classes of optimizers that are not Keras's own.
        custom_objects: other objects by name, as in ``tf.keras.models.load_model``.
        compression: what travels, see :class:`Compression`.
        legacy_opts: accepted for compatibility.

    Raises what ``tf.keras.models.load_model`` does.
    """
    del legacy_opts
    distribute = partial(DistributedOptimizer, compression=compression)
    return load_distributed(_tf.keras.models.load_model, distribute, filepath, custom_optimizers, custom_objects)
