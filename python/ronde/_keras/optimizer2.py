"""Optimizers of Keras 2 (``tf_keras``, and ``tf.keras`` before TensorFlow 2.16) that step with the gradients of all ranks.

The class of the object is replaced by a subclass of its own with the same name: it keeps its variables, and is saved as what
it was.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, List

from ronde.exceptions import InvalidArgumentError

#: Takes gradients and their variables.
Reduce = Callable[..., List[Any]]


class _Reducing:
    """All ways of stepping, ``minimize`` and ``fit`` too, go through ``apply_gradients``."""

    def apply_gradients(self, grads_and_vars: Any, *args: Any, **kwargs: Any) -> Any:
        """As in Keras, with the gradients of all ranks. Collective."""
        pairs = list(grads_and_vars)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        reduce, helper = self._ronde_reduce, self._ronde_helper  # type: ignore[attr-defined] # a mixin's
        if helper is None:
            reduced = reduce(gradients, variables)
            return super().apply_gradients(zip(reduced, variables), *args, **kwargs)  # type: ignore[misc] # a mixin's
        added = helper.compute_gradients(gradients, variables)
        build = getattr(self, "build", None)
        if build is not None and not getattr(self, "_built", True):
            build(variables)  # a variable cannot be made in a branch
        step = super().apply_gradients  # type: ignore[misc] # a mixin's
        return helper.apply_gradients(lambda: step(zip(added, variables), *args, **kwargs), self)


@functools.lru_cache(maxsize=None)
def _class_for(base: Any) -> Any:
    return type(base.__name__, (_Reducing, base), {"__module__": base.__module__})


def wrap(optimizer: Any, reduce: Reduce, helper: Any) -> Any:
    """The optimizer itself, changed. ``helper``: a ``LocalGradientAggregationHelper`` that adds the gradients of several
    passes up, or None. InvalidArgumentError if it has been changed already."""
    if isinstance(optimizer, _Reducing):
        raise InvalidArgumentError("the optimizer is a DistributedOptimizer already: its gradients are reduced once", 1)
    object.__setattr__(optimizer, "_ronde_reduce", reduce)
    object.__setattr__(optimizer, "_ronde_helper", helper)
    base: Any = type(optimizer)
    optimizer.__class__ = _class_for(base)
    return optimizer


def is_wrapped(optimizer: Any) -> bool:
    """Whether :func:`wrap` has changed it."""
    return isinstance(optimizer, _Reducing)
