"""Calls in the branches of a ``cond`` or ``switch`` under ``vmap``, and in the condition of a ``while_loop``.

Where the predicate depends on the member of the batch, JAX computes all branches and selects from their results. So a rank on which
it does makes the calls of all branches, and one on which the same predicate does not, those of one: its next call would meet a
call too many. JAX refuses its own effects there. So it is with the condition of a loop, which JAX evaluates once more in the body
where members of the batch end at different iterations.
"""

from __future__ import annotations

import functools
from typing import Any


def refuse_batched_predicates(effect: Any) -> None:
    """NotImplementedError from then on where the branches, or the condition, have the effect. There is no public way: where JAX has
    none of what is used here nothing is done."""
    try:
        from jax._src.interpreters import batching
        from jax.lax import cond_p, while_p

        batch, batch_loop = (batching.fancy_primitive_batchers[each] for each in (cond_p, while_p))
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

    @functools.wraps(batch_loop)
    def batch_loop_unless_calls(*arguments: Any, cond_jaxpr: Any, **parameters: Any) -> Any:
        if effect in cond_jaxpr.effects:
            raise NotImplementedError(
                "a while_loop under vmap makes calls of Ronde in its condition, which JAX evaluates once more in an iteration where "
                "members of the batch end at different ones: make the calls in the body, and hand on what the condition needs"
            )
        return batch_loop(*arguments, cond_jaxpr=cond_jaxpr, **parameters)

    batching.fancy_primitive_batchers[cond_p] = batch_unless_calls
    batching.fancy_primitive_batchers[while_p] = batch_loop_unless_calls
