"""From the arguments of a collective to its request."""

from __future__ import annotations

import contextlib
from typing import Any, Iterator, List, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp

from ronde import _calls, process_sets
from ronde._call_site import call_site_text
from ronde._reduce_ops import reduce_op, scale
from ronde.exceptions import InvalidArgumentError
from ronde.jax import _scope
from ronde.jax._collective import Request, new_trace
from ronde.numpy._arrays import code_of
from ronde.process_sets import ProcessSet, group_of


def request_of(kind: str, op: int, name: Optional[str], process_set: ProcessSet, **more: Any) -> Request:
    """With the name that was given, if any."""
    # A call that is made at once finds its place when it is submitted.
    site = call_site_text() if _scope.is_staged() else ""
    return Request(op, kind, name, group_of(process_set), site=site, trace=new_trace(), **more)


@contextlib.contextmanager
def counted(name: Optional[str], process_set: ProcessSet) -> Iterator[None]:
    """For what is done before the engine hears of a call outside of programs: if that raises, a call without a name counts all
    the same, since the other ranks may make it, and they are told why."""
    try:
        yield
    except BaseException as error:
        if name is None and not _scope.is_staged():
            _calls.refuse(_calls.unnamed(group_of(process_set)), error)
        raise


def reduction(op: Optional[int], prescale: float, postscale: float) -> dict[str, Any]:
    """What requests that reduce say. ValueError if the arguments are wrong."""
    return {
        "reduce_op": reduce_op(op, None),
        "prescale": scale(prescale, "prescale_factor"),
        "postscale": scale(postscale, "postscale_factor"),
    }


def leaves_of(tree: Any, kind: str) -> Tuple[List[Any], Any]:
    """The arrays of a pytree, and its structure. InvalidArgumentError, naming the leaf, for what Ronde cannot take."""
    named, structure = jax.tree_util.tree_flatten_with_path(tree)
    leaves = []
    for path, leaf in named:
        array = jnp.asarray(leaf)
        where = f"'{kind}'" + (f" of {jax.tree_util.keystr(path)}" if path else "")
        if jax.dtypes.issubdtype(array.dtype, jax.dtypes.prng_key):
            raise InvalidArgumentError(f"{where} is a key of jax.random: pass jax.random.key_data(key)", 1)
        if code_of(array.dtype) is None:
            raise InvalidArgumentError(
                f"{where} is of type {array.dtype.name}, with which Ronde does not calculate: convert it, to int32 say", 1
            )
        leaves.append(array)
    return leaves, structure


def array_of(value: Any, kind: str, rows: bool = False) -> Any:
    """The same of one array. ``rows``: it has a dimension 0, or InvalidArgumentError."""
    leaves, structure = leaves_of(value, kind)
    if structure != jax.tree_util.tree_structure(0):
        raise InvalidArgumentError(f"'{kind}' takes one array, not a {type(value).__name__}", 1)
    if rows and leaves[0].ndim == 0:
        raise InvalidArgumentError(f"'{kind}' goes by rows, dimension 0, and the array has no dimensions: reshape it", 1)
    return leaves[0]


def rows_given(rows: Sequence[int], group: int, what: str) -> Tuple[int, ...]:
    """One number for each rank, as a tuple. InvalidArgumentError for anything else."""
    made = tuple(int(count) for count in rows)
    size = process_sets.size_of(group)
    if len(made) != size or min(made) < 0:
        raise InvalidArgumentError(f"{what} is {list(made)}: expected {size} numbers of rows, one for each rank", 1)
    return made
