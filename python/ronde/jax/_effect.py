"""The effect by which JAX knows that a call does something besides giving a result.

Without one JAX drops calls whose results a rank does not use, where one rank alone returns the averaged loss, say; and the
other ranks wait for it, or take its next call for this one. It is none of JAX's ordered effects, which would let no call begin
before the one before has ended.
"""

from __future__ import annotations

import functools
from typing import Any, Iterator, Optional, Set

from ronde.jax import _branches, _scans, _while_loops


@functools.lru_cache(maxsize=None)
def known_effect() -> Any:
    """One that JAX allows wherever calls may stand. None where this JAX has no such thing: it has no public way."""
    try:
        from jax._src import effects

        class Call(effects.Effect):  # type: ignore[misc] # JAX keeps it to itself
            __str__ = lambda self: "Ronde"  # noqa: E731

        for allowed in (
            effects.lowerable_effects,
            effects.control_flow_allowed_effects,
            effects.remat_allowed_effects,
            effects.custom_derivatives_allowed_effects,
        ):
            allowed.add_type(Call)
        made = Call()
        _scans.keep_calls(made)
        _while_loops.keep_whole(made)
        _branches.refuse_batched_predicates(made)
        return made
    except (ImportError, AttributeError):
        return None


#: Operations that say nothing of the effects in them while JAX traces, when it drops what nobody uses, but later.
_SAY_NOTHING_AT_FIRST = frozenset(("xla_metadata_call",))


def refuse_where_unseen(jaxpr: Any, what: str) -> None:
    """NotImplementedError where a call stands within an operation of which JAX does not know that it has the effect:
    ``linear_call``, ``composite`` and others that say nothing of what is in them. A rank that does not use its result would
    not make the call, and its next one would meet the others'."""
    around = _hides_calls(jaxpr, known_effect(), set())
    if around is not None:
        raise NotImplementedError(
            f"'{what}' makes a call of Ronde within JAX's '{around}', of which JAX does not know that it does something: a "
            "rank that does not use its result would leave the call out, and the others would wait. Make the call outside of it"
        )


def _hides_calls(jaxpr: Any, effect: Any, seen: Set[int]) -> Optional[str]:
    """The name of such an operation of the program. ``seen``: what was looked through before, since a function that is called
    often is one object."""
    if id(jaxpr) in seen:
        return None
    seen.add(id(jaxpr))
    for equation in jaxpr.eqns:
        for inner in _jaxprs_in(equation.params):
            name = str(equation.primitive.name)
            if effect in inner.effects and (effect not in equation.effects or name in _SAY_NOTHING_AT_FIRST):
                return name
            around = _hides_calls(inner, effect, seen)
            if around is not None:
                return around
    return None


def _jaxprs_in(value: Any) -> Iterator[Any]:
    """The programs that an operation has been given."""
    if isinstance(value, dict):
        # What a linear function is transposed to is no part of it, until that takes its place.
        value = [each for name, each in value.items() if name != "transpose"]
    if isinstance(value, (tuple, list)):
        for each in value:
            yield from _jaxprs_in(each)
    else:
        inner = getattr(value, "jaxpr", value)  # of a closed one
        if hasattr(inner, "eqns"):
            yield inner
