"""The effect by which JAX knows that a call does something besides giving a result.

Without one JAX drops calls whose results a rank does not use, where one rank alone returns the averaged loss, say; and the
other ranks wait for it, or take its next call for this one. It is none of JAX's ordered effects, which would let no call begin
before the one before has ended.
"""

from __future__ import annotations

import functools
from typing import Any


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
        return Call()
    except (ImportError, AttributeError):
        return None
