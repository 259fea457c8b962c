"""Ronde for PyTorch, with Horovod's names: ``import ronde.torch as hvd``.

    hvd.init()
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01 * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    ...                                  # train as ever; each rank reads its own share of the data

Start the script with ``ronde run -n 2 -- python script.py``; without ``ronde run`` it is a job of one rank.

What reduces is said by ``op``: ``Average`` (the sum divided by the number of ranks; of integers truncated towards zero),
``Sum`` (in rank order; integers wrap), ``Min`` and ``Max`` (NaN if there is one), ``Product``, ``Adasum`` (of floats: what
gradients have in common counts once, what differs is added), ``BitAnd``, ``BitOr`` and ``BitXor`` (of integers and bool). Of
bool, ``Sum`` and ``Max`` are "any", ``Product`` and ``Min`` "all".

Operations are done by ``global_process_set``, all ranks, unless a ``process_set`` is given. Those that end in ``_`` write
into their argument, those with ``async`` return a :class:`Handle` at once. All may be called from any thread.

Errors are those of :mod:`ronde.exceptions`; ``HorovodInternalError`` is :class:`ronde.exceptions.CollectiveError`.
"""

from __future__ import annotations

from typing import Optional, Sequence, Union

import torch as _torch

from ronde import _abi, _process
from ronde import process_sets as _process_sets
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
from ronde._handle import Handle
from ronde._job import begin as _job_begin
from ronde._job import shutdown
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
from ronde.exceptions import InitializationError as _InitializationError
from ronde.exceptions import RondeError
from ronde.torch import _compiling, _freed_memory, distributed, elastic, large_batch
from ronde.torch._buckets import empty_shared
from ronde.torch.compression import Compression, Compressor
from ronde.torch.functions import (
    allgather_object,
    broadcast_object,
    broadcast_optimizer_state,
    broadcast_parameters,
)
from ronde.torch.mpi_ops import (
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
    allgather_async,
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    alltoall,
    alltoall_async,
    barrier,
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    gather,
    gather_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
    grouped_reducescatter,
    grouped_reducescatter_async,
    join,
    poll,
    recv,
    recv_async,
    reduce,
    reduce_,
    reduce_async,
    reduce_async_,
    reducescatter,
    reducescatter_async,
    scatter,
    scatter_async,
    send,
    send_async,
    sparse_allreduce_async,
    synchronize,
)
from ronde.torch.optimizer import DistributedOptimizer
from ronde.torch.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set
from ronde.torch.scan_ops import (
    exscan,
    exscan_,
    exscan_async,
    exscan_async_,
    scan,
    scan_,
    scan_async,
    scan_async_,
)
from ronde.torch.sync_batch_norm import SyncBatchNorm

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Compression",
    "Compressor",
    "DistributedOptimizer",
    "Handle",
    "HorovodInternalError",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
    "SyncBatchNorm",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "broadcast_optimizer_state",
    "broadcast_parameters",
    "ccl_built",
    "counters",
    "cross_rank",
    "cross_size",
    "cuda_built",
    "ddl_built",
    "distributed",
    "elastic",
    "empty_shared",
    "exscan",
    "exscan_",
    "exscan_async",
    "exscan_async_",
    "gather",
    "gather_async",
    "global_process_set",
    "gloo_built",
    "gloo_enabled",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_homogeneous",
    "is_initialized",
    "join",
    "large_batch",
    "local_rank",
    "local_size",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "poll",
    "rank",
    "recv",
    "recv_async",
    "reduce",
    "reduce_",
    "reduce_async",
    "reduce_async_",
    "reducescatter",
    "reducescatter_async",
    "remove_process_set",
    "rocm_built",
    "scan",
    "scan_",
    "scan_async",
    "scan_async_",
    "scatter",
    "scatter_async",
    "send",
    "send_async",
    "shutdown",
    "size",
    "sparse_allreduce_async",
    "start_timeline",
    "stop_timeline",
    "synchronize",
]


_NO_COMM = (
    "init(comm=...) is not supported: a job has the ranks that the launcher has started. Use process sets for some of them"
)


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job that ``ronde run`` describes; alone without it. Collective; does nothing if already initialised.

    Args:
        comm: None, or a list of all ranks; some of them, or an MPI communicator, raise NotImplementedError.
        process_sets: sets to register, the same on every rank in the same order; or "dynamic", which changes nothing,
            since sets can be added at any time.

    Raises InitializationError (a ValueError), naming the ranks that have not come, after RONDE_INIT_TIMEOUT_S seconds, and
    in a forked child of a rank; ValueError for two sets of the same ranks; ImportError if Ronde's library cannot be loaded.
    """
    if comm is not None and not isinstance(comm, (list, tuple)):
        raise NotImplementedError(_NO_COMM)
    if _process.is_rank():
        return
    _begin(None, None)
    try:
        if comm is not None and list(comm) != list(range(size())):
            raise NotImplementedError(_NO_COMM)
        _process_sets.begin_job(process_sets)
    except BaseException:
        shutdown()
        raise


def _begin(options: Optional[_abi.Options], process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """``options``: what the job is, where the environment does not say it."""
    try:
        _freed_memory.bytes_to_keep()
    except ValueError as error:
        raise _InitializationError(str(error), _abi.INVALID_ARGUMENT) from error
    _job_begin(options, process_sets)


def _check_has_gpu() -> bool:
    """Whether PyTorch sees a GPU. Scripts written for Horovod's tests ask."""
    return bool(_torch.cuda.is_available())


distributed.register()
_compiling.keep_out()
