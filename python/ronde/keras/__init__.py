"""Ronde for Keras 3 on its backends TensorFlow, PyTorch and JAX, with Horovod's names: ``import ronde.keras as hvd``.

    hvd.init()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01 * hvd.size()))
    model.compile(optimizer=optimizer, loss="mse")
    model.fit(dataset, callbacks=[            # each rank reads its own share of the data
        hvd.callbacks.BroadcastGlobalVariablesCallback(0),
        hvd.callbacks.MetricAverageCallback()])

Start the script with ``ronde run -n 2 -- python script.py``; without ``ronde run`` it is a job of one rank. For Keras 2,
and for Horovod's names of TensorFlow's Keras, there is :mod:`ronde.tensorflow.keras`.

What reduces is said by ``op``: ``Average`` (the default), ``Sum``, ``Min``, ``Max``, ``Product`` or ``Adasum``. Operations are
done by ``global_process_set``, all ranks, unless a ``process_set`` is given.

Errors are those of :mod:`ronde.exceptions`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Dict, Optional, Sequence

import keras as _keras

if int(_keras.__version__.split(".")[0]) < 3:
    raise ImportError(
        f"ronde.keras needs Keras 3, and Keras {_keras.__version__} is installed: use ronde.tensorflow.keras with it"
    )

from ronde._capabilities import (  # noqa: E402 - nothing before the version is known
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from ronde._keras.job import init, shutdown  # noqa: E402
from ronde._keras.loading import load_distributed  # noqa: E402
from ronde._keras.values import allgather, allreduce, broadcast, reducescatter  # noqa: E402
from ronde._keras.variables import broadcast_variables  # noqa: E402
from ronde._objects import allgather_object, broadcast_object  # noqa: E402
from ronde._process import (  # noqa: E402
    counters,
    cross_rank,
    cross_size,
    is_initialized,
    local_rank,
    local_size,
    rank,
    size,
    start_timeline,
    stop_timeline,
)
from ronde._reduce_ops import Adasum, Average, Max, Min, Product, Sum  # noqa: E402
from ronde.exceptions import RondeError  # noqa: E402
from ronde.keras import callbacks, elastic  # noqa: E402
from ronde.keras.compression import Compression, Compressor  # noqa: E402
from ronde.keras.optimizer import DistributedOptimizer, PartialDistributedOptimizer  # noqa: E402
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set  # noqa: E402

__all__ = [
    "Adasum",
    "Average",
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "Max",
    "Min",
    "PartialDistributedOptimizer",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
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
    "counters",
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


def broadcast_global_variables(root_rank: int) -> None:
    """Raises NotImplementedError: Keras 3 keeps no list of all variables. Use
    ``broadcast_variables(model.weights, root_rank)`` with rank ``root_rank``'s, or
    :class:`ronde.keras.callbacks.BroadcastGlobalVariablesCallback`."""
    del root_rank
    raise NotImplementedError(
        "broadcast_global_variables() needs a list of all variables, which Keras 3 does not keep: use "
        "broadcast_variables(model.weights, root_rank) or callbacks.BroadcastGlobalVariablesCallback(root_rank)"
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
        filepath: as in ``keras.models.load_model``.
        custom_optimizers: classes of optimizers that are not Keras's own.
        custom_objects: other objects by name, as in ``keras.models.load_model``.
        compression: what travels, see :class:`Compression`.
        legacy_opts: accepted for compatibility.

    Raises what ``keras.models.load_model`` does.
    """
    del legacy_opts
    distribute = partial(DistributedOptimizer, compression=compression)
    return load_distributed(_keras.models.load_model, distribute, filepath, custom_optimizers, custom_objects)
