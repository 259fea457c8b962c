"""Ronde for TensorFlow, with Horovod's names: ``import ronde.tensorflow as hvd``.

    hvd.init()
    optimizer = keras.optimizers.SGD(0.01 * hvd.size())
    for images, labels in dataset:           # each rank reads its own share of the data
        with tf.GradientTape() as tape:
            loss = compute_loss(model, images, labels)
        tape = hvd.DistributedGradientTape(tape)
        optimizer.apply_gradients(zip(tape.gradient(loss, model.trainable_variables), model.trainable_variables))
        if first_batch:
            hvd.broadcast_variables(model.variables, root_rank=0)
            hvd.broadcast_variables(optimizer.variables, root_rank=0)

Start the script with ``ronde run -n 2 -- python script.py``; without ``ronde run`` it is a job of one rank.

Operations work in eager mode, in ``tf.function`` and in graphs of ``tf.compat.v1``. They are done by ``global_process_set``,
all ranks, unless a ``process_set`` is given, and are run on the processor. ``jit_compile=True`` is refused.

What reduces is said by ``op``: ``Average`` (the sum divided by the number of ranks; of integers truncated towards zero),
``Sum`` (in rank order; integers wrap), ``Min`` and ``Max`` (NaN if there is one), ``Product``, ``Adasum`` (of floats: what
gradients have in common counts once, what differs is added), ``BitAnd``, ``BitOr`` and ``BitXor`` (of integers and bool). Of
bool, ``Sum`` and ``Max`` are "any", ``Product`` and ``Min`` "all".

``SyncBatchNormalization`` is a layer of Keras: ``BatchNormalization`` over the batches of all ranks together.

In eager mode operations raise the errors of :mod:`ronde.exceptions`; ``HorovodInternalError`` is
:class:`ronde.exceptions.CollectiveError`. What fails inside a function or session comes as one of ``tf.errors`` with the same
sentence, which ``elastic.run`` understands.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Callable, List

import tensorflow as _tf

from ronde._capabilities import (
    ccl_built,
    cuda_built,
    ddl_built,
    gloo_built,
    gloo_enabled,
    is_homogeneous,
    mpi_built,
    mpi_enabled,
    mpi_threads_supported,
    nccl_built,
    rocm_built,
)
from ronde._process import (
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
from ronde.exceptions import CollectiveError as HorovodInternalError
from ronde.exceptions import RondeError
from ronde.tensorflow import _autograph

_autograph.keep_out()

from ronde.tensorflow import elastic  # noqa: E402 - AutoGraph must not see what follows
from ronde.tensorflow._job import init, shutdown  # noqa: E402
from ronde.tensorflow.compression import Compression, Compressor  # noqa: E402
from ronde.tensorflow.functions import (  # noqa: E402
    BroadcastGlobalVariablesHook,
    allgather_object,
    broadcast_global_variables,
    broadcast_object,
    broadcast_object_fn,
    broadcast_variables,
)
from ronde.tensorflow.gradient_aggregation import LocalGradientAggregationHelper  # noqa: E402
from ronde.tensorflow.gradient_tape import DistributedGradientTape, PartialDistributedGradientTape  # noqa: E402
from ronde.tensorflow.mpi_ops import (  # noqa: E402
    Adasum,
    Average,
    BitAnd,
    BitOr,
    BitXor,
    Max,
    Min,
    Product,
    Sum,
    allgather,
    allreduce,
    alltoall,
    barrier,
    broadcast,
    broadcast_,
    grouped_allgather,
    grouped_allreduce,
    grouped_reducescatter,
    join,
    local_rank_op,
    local_size_op,
    process_set_included_op,
    rank_op,
    reducescatter,
    size_op,
)
from ronde.tensorflow.optimizer import DistributedOptimizer  # noqa: E402
from ronde.tensorflow.process_sets import (  # noqa: E402
    ProcessSet,
    add_process_set,
    global_process_set,
    remove_process_set,
)

if TYPE_CHECKING:
    from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "BroadcastGlobalVariablesHook",
    "Compression",
    "Compressor",
    "DistributedGradientTape",
    "DistributedOptimizer",
    "HorovodInternalError",
    "LocalGradientAggregationHelper",
    "Max",
    "Min",
    "PartialDistributedGradientTape",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
    "SyncBatchNormalization",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_global_variables",
    "broadcast_object",
    "broadcast_object_fn",
    "broadcast_variables",
    "ccl_built",
    "check_num_rank_power_of_2",
    "counters",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "elastic",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "gpu_available",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "local_rank",
    "local_rank_op",
    "local_size",
    "local_size_op",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "process_set_included_op",
    "rank",
    "rank_op",
    "reducescatter",
    "refs_to_vars",
    "remove_process_set",
    "rocm_built",
    "shutdown",
    "size",
    "size_op",
    "start_timeline",
    "stop_timeline",
    "vars_to_refs",
]


def check_num_rank_power_of_2(num_rank: int) -> bool:
    """Whether ``num_rank`` is 1, 2, 4, 8, ... Adasum takes any number here. Raises nothing."""
    return num_rank > 0 and num_rank & (num_rank - 1) == 0


def gpu_available() -> bool:
    """Whether TensorFlow sees a GPU. Raises nothing."""
    return bool(_tf.config.list_physical_devices("GPU"))


def vars_to_refs(vars: Any) -> Any:
    """Of variables (``vars``: one, or lists of them) what can be a key of a dict. Raises AttributeError for what is no
    variable."""
    return _each(vars, lambda variable: variable.ref())


def refs_to_vars(refs: Any) -> Any:
    """The reverse, of ``refs``. Raises AttributeError for what is none."""
    return _each(refs, lambda ref: ref.deref())


def _each(given: Any, do: Callable[[Any], Any]) -> Any:
    if isinstance(given, (list, tuple)):
        made: List[Any] = [_each(each, do) for each in given]
        return tuple(made) if isinstance(given, tuple) else made
    return do(given)


def _executing_eagerly() -> bool:
    """Whether operations run at once. Programs written for Horovod ask."""
    return bool(_tf.executing_eagerly())


def __getattr__(name: str) -> Any:
    # A layer of Keras, which takes a second to load.
    if name == "SyncBatchNormalization":
        from ronde.tensorflow.sync_batch_norm import SyncBatchNormalization

        return SyncBatchNormalization
    raise AttributeError(f"module 'ronde.tensorflow' has no attribute {name!r}")
