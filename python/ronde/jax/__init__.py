"""Ronde for JAX on CPUs: ``import ronde.jax as rj``.

    rj.init()
    optimizer = rj.DistributedOptimizer(optax.sgd(0.1))
    params = rj.broadcast_parameters(params)              # all begin with rank 0's weights

    @jax.jit
    def step(params, state, batch):                       # each rank's own share of the data
        loss, gradients = jax.value_and_grad(loss_of)(params, batch)
        updates, state = optimizer.update(gradients, state, params)
        return optax.apply_updates(params, updates), state, rj.allreduce(loss)

Start the script with ``ronde run -n 2 -- python script.py``; without ``ronde run`` it is a job of one rank.

Collectives work in ``jax.jit``, where XLA calls Ronde's library directly, under ``grad``, ``vmap``, ``scan``,
``checkpoint`` and in ``cond`` where every rank takes the same branch, and at once, outside traced functions. In a
compiled program they go on beside the computation, in whatever order their operands come: ranks meet by name. A call
without a name gets one from the compiled function and the order of calls in the whole program, the same on ranks that
compile the same functions, whatever each has traced before.

What reduces is said by ``op``: ``Average``, ``Sum``, ``Min``, ``Max``, ``Product``, ``Adasum``, ``BitAnd``, ``BitOr``,
``BitXor``, as in :mod:`ronde.numpy`. Elements are floats of 8 to 64 bits, integers of 8 to 64 bits with and without sign,
bool and complex numbers. Errors are those of :mod:`ronde.exceptions`, in a compiled program
``jax.errors.JaxRuntimeError`` with the same text, raised where the result is waited for.
"""

from __future__ import annotations

from ronde.jax import _oldest  # noqa: F401 - first, since older ones lack what the others import
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
from ronde.jax._operations import allgather, allreduce, alltoall, barrier, broadcast, grouped_allreduce, reducescatter
from ronde.jax._optimizer import DistributedOptimizer, GradientTransformation, average_gradients
from ronde.jax._parameters import broadcast_parameters
from ronde.process_sets import ProcessSet, add_process_set, global_process_set, remove_process_set

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "CollectiveError",
    "DistributedOptimizer",
    "GradientTransformation",
    "Max",
    "Min",
    "ProcessSet",
    "Product",
    "RondeError",
    "Sum",
    "add_process_set",
    "allgather",
    "allgather_object",
    "allreduce",
    "alltoall",
    "average_gradients",
    "barrier",
    "broadcast",
    "broadcast_object",
    "broadcast_parameters",
    "counters",
    "cross_rank",
    "cross_size",
    "global_process_set",
    "grouped_allreduce",
    "init",
    "is_initialized",
    "local_rank",
    "local_size",
    "rank",
    "reducescatter",
    "remove_process_set",
    "shutdown",
    "size",
    "start_timeline",
    "stop_timeline",
]
