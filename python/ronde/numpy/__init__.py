"""Ronde for NumPy and everything else that lies in host memory: ``import ronde.numpy as rnp``.

    rnp.init()
    total = rnp.allreduce(numpy.arange(3.0), op=rnp.Sum)       # a new array
    rnp.allreduce_(gradient)                                   # in place; the average
    everyones = rnp.allgather(rows)

Start the script with ``ronde run -n 2 -- python script.py``; without ``ronde run`` it is a job of one rank.

An array is a ``numpy.ndarray``, or what has an array's memory: by the buffer protocol (``array.array``, ``bytearray``, ...),
``__array_interface__`` or DLPack (PyTorch's tensors in host memory). Where nothing is written also numbers, lists of
numbers and JAX's arrays. Elements are floats of 16, 32 and 64 bits, integers of 8 to 64 bits with and without sign, bool, complex64 and
complex128, and ``bfloat16``, ``float8_e4m3fn`` and ``float8_e5m2`` of the package ml_dtypes. Arrays that are not
contiguous are copied; results are contiguous.

What reduces is said by ``op``: ``Average`` (the sum divided by the number of ranks; of integers truncated towards zero),
``Sum`` (in rank order; integers wrap), ``Min`` and ``Max`` (NaN if there is one), ``Product``, ``Adasum`` (of floats: what
gradients have in common counts once, what differs is added), ``BitAnd``, ``BitOr`` and ``BitXor`` (of integers and bool). Of
bool, ``Sum`` and ``Max`` are "any", ``Product`` and ``Min`` "all".

Operations are done by ``global_process_set``, all ranks, unless a ``process_set`` is given. Those that end in ``_`` write
into their argument, those with ``async`` return a :class:`Handle` at once. All may be called from any thread. Errors are
those of :mod:`ronde.exceptions`.
"""

from __future__ import annotations

from ronde._handle import Handle, poll, synchronize
from ronde._job import init, shutdown
from ronde._objects import allgather_object, broadcast_object
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
from ronde._reduce_ops import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum
from ronde.exceptions import CollectiveError, RondeError
from ronde.numpy._everyone import barrier, empty_shared, join
from ronde.numpy._pairs import recv, recv_async, send, send_async
from ronde.numpy._persistent import PersistentAllreduce, allreduce_init
from ronde.numpy._prefixes import (
    exscan,
    exscan_,
    exscan_async,
    exscan_async_,
    scan,
    scan_,
    scan_async,
    scan_async_,
)
from ronde.numpy._reductions import (
    allreduce,
    allreduce_,
    allreduce_async,
    allreduce_async_,
    grouped_allreduce,
    grouped_allreduce_,
    grouped_allreduce_async,
    grouped_allreduce_async_,
)
from ronde.numpy._rooted import (
    broadcast,
    broadcast_,
    broadcast_async,
    broadcast_async_,
    gather,
    gather_async,
    reduce,
    reduce_,
    reduce_async,
    reduce_async_,
    scatter,
    scatter_async,
)
from ronde.numpy._rows import (
    allgather,
    allgather_async,
    alltoall,
    alltoall_async,
    grouped_allgather,
    grouped_allgather_async,
    grouped_reducescatter,
    grouped_reducescatter_async,
    reducescatter,
    reducescatter_async,
)
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "CollectiveError",
    "Handle",
    "Max",
    "Min",
    "PersistentAllreduce",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_async",
    "allgather_object",
    "allreduce",
    "allreduce_",
    "allreduce_async",
    "allreduce_async_",
    "allreduce_init",
    "alltoall",
    "alltoall_async",
    "barrier",
    "broadcast",
    "broadcast_",
    "broadcast_async",
    "broadcast_async_",
    "broadcast_object",
    "counters",
    "cross_rank",
    "cross_size",
    "empty_shared",
    "exscan",
    "exscan_",
    "exscan_async",
    "exscan_async_",
    "gather",
    "gather_async",
    "global_process_set",
    "grouped_allgather",
    "grouped_allgather_async",
    "grouped_allreduce",
    "grouped_allreduce_",
    "grouped_allreduce_async",
    "grouped_allreduce_async_",
    "grouped_reducescatter",
    "grouped_reducescatter_async",
    "init",
    "is_initialized",
    "join",
    "local_rank",
    "local_size",
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
    "start_timeline",
    "stop_timeline",
    "synchronize",
]
