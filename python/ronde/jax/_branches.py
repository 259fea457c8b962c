"""Calls in the branches of a ``cond`` or ``switch`` under ``vmap``.

Where the predicate depends on the member of the batch, JAX computes all branches and selects from their results. So a rank on which
it does makes the calls of all branches, and one on which the same predicate does not, those of one: its next call would meet a
call too many. JAX refuses its own effects there.
"""

from __future__ import annotations

import functools
from typing import Any


def refuse_batched_predicates(effect: Any) -> None:
    """NotImplementedError from then on where the branches have the effect. There is no public way: where JAX has none of what is
    used here nothing is done."""
    try:
        from jax._src.interpreters import batching
        from jax.lax import cond_p

        batch = batching.fancy_primitive_batchers[cond_p]
    except (ImportError, AttributeError, KeyError):
        return

    @functools.wraps(batch)
    def batch_unless_calls(*arguments: Any, branches: Any, **parameters: Any) -> Any:
        *_, dimensions = arguments
        # JAX has something better for branches of platforms.
        if (
            dimensions[0] is not None
            and "branches_platforms" not in parameters
            and any(effect in branch.effects for branch in branches)
        ):
            raise NotImplementedError(
                "a cond or switch under vmap makes calls of Ronde in its branches, and its predicate depends on the member of the "
                "batch: JAX would make the calls of all branches, and other ranks' programs may make those of one. Make the "
                "calls outside of it, or have the predicate of the whole batch (jnp.all, say, outside of the vmap)"
            )
        return batch(*arguments, branches=branches, **parameters)

    batching.fancy_primitive_batchers[cond_p] = batch_unless_calls
