"""Same start on every rank: all arrays of a pytree sent from one rank to all. Part of :mod:`ronde.jax`."""

from __future__ import annotations

from typing import Any, List, TypeVar

import jax
import numpy as np

from ronde._handle import synchronize_all
from ronde.exceptions import InvalidArgumentError
from ronde.jax import _scope
from ronde.numpy import broadcast_async_
from ronde.process_sets import ProcessSet, global_process_set

_Tree = TypeVar("_Tree")


def broadcast_parameters(tree: _Tree, root_rank: int = 0, process_set: ProcessSet = global_process_set) -> _Tree:
    """Returns a pytree with the values of rank ``root_rank``'s: parameters, an optimizer's state, or both in a tuple.

    Args:
        tree: arrays, numbers and keys of ``jax.random``; the same structure, shapes and types on every rank. Errors name
            the leaf on which ranks differ. Leaves of other kinds (functions, texts) stay as they are.
        root_rank: a rank of the job, the same on every rank.
        process_set: the ranks that take part, the root and this one among them.

    Not for traced functions, where :func:`ronde.jax.broadcast` is. Raises as :func:`ronde.jax.allreduce`.
    """
    if _scope.is_staged():
        raise InvalidArgumentError("'broadcast_parameters' is called before a function is traced, not in it", 1)
    named, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = [leaf for _, leaf in named]
    places = [i for i, leaf in enumerate(leaves) if _has_values(leaf)]
    copies = [np.array(_data_of(leaves[i])) for i in places]
    handles: List[Any] = [
        broadcast_async_(copy, root_rank, f"parameters{jax.tree_util.keystr(named[i][0])}", process_set)
        for i, copy in zip(places, copies)
    ]
    synchronize_all(handles)
    for i, copy in zip(places, copies):
        leaves[i] = _like(leaves[i], copy)
    result: _Tree = jax.tree_util.tree_unflatten(structure, leaves)
    return result


def _has_values(leaf: Any) -> bool:
    return isinstance(leaf, (jax.Array, np.ndarray, np.generic, bool, int, float, complex))


def _is_key(leaf: Any) -> bool:
    return isinstance(leaf, jax.Array) and bool(jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key))


def _data_of(leaf: Any) -> Any:
    return jax.random.key_data(leaf) if _is_key(leaf) else leaf


def _like(leaf: Any, values: Any) -> Any:
    """The values as a leaf of the same kind, on the same device."""
    if _is_key(leaf):
        return jax.random.wrap_key_data(values, impl=jax.random.key_impl(leaf))
    if isinstance(leaf, jax.Array):
        return jax.device_put(values, leaf.sharding)
    return values if isinstance(leaf, np.ndarray) else type(leaf)(values[()])
