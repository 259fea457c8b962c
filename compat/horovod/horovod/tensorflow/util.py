"""Horovod's small helpers for TensorFlow, which programs import by their private names."""

from __future__ import annotations

from typing import Any, Callable, Dict

import tensorflow as tf
from ronde.tensorflow import _executing_eagerly, refs_to_vars, vars_to_refs

__all__ = ["_cache", "_executing_eagerly", "_make_subgraph", "refs_to_vars", "vars_to_refs"]

_make_subgraph = tf.function


def _cache(f: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function of hashable arguments so that it is called once for the same ones, in eager mode and in graphs by
    themselves."""
    results: Dict[Any, Any] = {}

    def cached(*args: Any) -> Any:
        key = (args, _executing_eagerly())
        if key not in results:
            results[key] = f(*args)
        return results[key]

    return cached
