"""Calls in the body of a ``scan`` of which a derivative is taken.

JAX takes out of such a body what is the same in each iteration, to do it once before the loop, and of the rest of what the
gradients do not need it keeps what results are made of. But a call is to be made in each iteration, also where its operands
are the same in all of them on this rank, and whether its result is used or not: on another rank neither may be so. So of bodies
with calls nothing is taken out. Before JAX 0.7 there is no place to say so.
"""

from __future__ import annotations

import functools
import sys
from typing import Any, Sequence


def keep_calls(effect: Any) -> None:
    """Has JAX leave bodies that have the effect as they are. It has no public way: where it has changed nothing is done."""
    try:
        from jax._src.lax.control_flow import loops

        _keep_in_derivatives(loops, effect)
        _keep_in_checkpoints(loops, effect)
    except (ImportError, AttributeError):
        return


def _keep_in_derivatives(loops: Any, effect: Any) -> None:
    take_out = loops._scan_known_hoisting

    @functools.wraps(take_out)
    def take_out_unless_calls(body: Any, constants: Sequence[Any], residuals: int) -> Any:
        if effect in body.effects:
            return body, constants, [False] * residuals, []  # as JAX says there how to do without
        return take_out(body, constants, residuals)

    loops._scan_known_hoisting = take_out_unless_calls


def _keep_in_checkpoints(loops: Any, effect: Any) -> None:
    """A ``scan`` under ``checkpoint`` has its own code for it, which takes the body apart by what depends on constants alone."""
    import jax

    partial_eval, rule = loops.pe, loops._scan_partial_eval_custom
    take_apart = partial_eval.partial_eval_jaxpr_nounits

    @functools.wraps(take_apart)
    def take_apart_unless_calls(body: Any, unknowns: Sequence[bool], instantiate: Any) -> Any:
        if effect not in body.effects or sys._getframe(1).f_code is not rule.__code__:
            return take_apart(body, unknowns, instantiate)
        # The first part hands on its constants, the second is the body.
        known = [each for each, is_unknown in zip(body.in_avals, unknowns) if not is_unknown]
        first = jax.make_jaxpr(lambda *constants: list(constants))(*(jax.ShapeDtypeStruct(x.shape, x.dtype) for x in known))
        first = first.replace(jaxpr=first.jaxpr.replace(debug_info=first.jaxpr.debug_info.with_unknown_names()))
        then = partial_eval.move_binders_to_front(body, [not is_unknown for is_unknown in unknowns])
        return first, then, [True] * len(body.out_avals), known

    partial_eval.partial_eval_jaxpr_nounits = take_apart_unless_calls
