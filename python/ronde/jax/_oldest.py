"""Refuses a JAX that is too old, before anything of it is used: in the XLA of 0.4.36 a call that waits for other ranks ends the
process (tests/versions)."""

from __future__ import annotations

import jax

_OLDEST = (0, 4, 38)

if jax.__version_info__ < _OLDEST:
    oldest = ".".join(map(str, _OLDEST))
    raise ImportError(f"ronde.jax needs JAX {oldest} or newer, and JAX {jax.__version__} is installed: install a newer one")
