"""Calls in a ``while_loop`` under ``checkpoint``.

JAX computes what checkpoint has not kept again, but nothing that has an effect, and keeps no results of a loop's iterations, of which
it does not know how many there are. So a loop with calls is done once, in the first pass, and its results are kept.
"""

from __future__ import annotations

import functools
from typing import Any, Sequence


def keep_whole(effect: Any) -> None:
    """Has JAX do so with loops that have the effect. There is no public way: where JAX has none of what is used here nothing is
    done, and such programs end in an assertion of JAX's."""
    try:
        from jax._src.interpreters import partial_eval
        from jax.lax import while_p

        take_apart = partial_eval.partial_eval_jaxpr_custom_rules[while_p]
    except (ImportError, AttributeError, KeyError):
        return

    @functools.wraps(take_apart)
    def take_apart_unless_calls(saveable: Any, unknown: Sequence[bool], instantiated: Sequence[bool], equation: Any) -> Any:
        if effect not in equation.effects:
            return take_apart(saveable, unknown, instantiated, equation)
        if any(unknown):
            raise NotImplementedError(
                "a while_loop under checkpoint makes calls of Ronde, and a derivative is taken by what goes into it: use a scan, or "
                "a fori_loop of known length, or make the loop outside of what is checkpointed"
            )
        nothing = [False] * len(equation.outvars)
        return equation, None, nothing, nothing, []

    partial_eval.partial_eval_jaxpr_custom_rules[while_p] = take_apart_unless_calls
