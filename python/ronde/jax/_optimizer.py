"""Optimizers of optax, and others of its form, on averaged gradients. Part of :mod:`ronde.jax`."""

from __future__ import annotations

import sys
from typing import Any, Callable, NamedTuple, Optional

from ronde._reduce_ops import reduce_op
from ronde.jax._operations import allreduce
from ronde.process_sets import ProcessSet, global_process_set


class GradientTransformation(NamedTuple):
    """A pair of functions, as optax has it: ``init(params)`` makes a state, ``update(gradients, state, params)`` returns
    the transformed gradients and the next state."""

    init: Callable[..., Any]
    """From parameters to a state."""
    update: Callable[..., Any]
    """From gradients, state and parameters to updates and the next state."""


def _transformation(init: Callable[..., Any], update: Callable[..., Any]) -> Any:
    """Of optax's own class where that is loaded, which alone passes further arguments on."""
    optax = sys.modules.get("optax")
    if optax is not None:
        return optax.GradientTransformationExtraArgs(init, update)
    return GradientTransformation(init, update)


def average_gradients(
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns a gradient transformation that reduces gradients over the ranks, for ``optax.chain``::

        optax.chain(rj.average_gradients(), optax.clip_by_global_norm(1.0), optax.adam(1e-3))

    Args:
        op: Average (the default), Sum or Adasum.
        name: by which the ranks meet, as of :func:`ronde.jax.allreduce`.
        prescale_factor: each rank's gradients are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    It has no state. Each gradient is reduced as soon as it is there, beside the rest of the backward pass. Gradients that
    are ``None`` or masked stay so. Raises ValueError for another ``op``; its ``update`` as :func:`ronde.jax.allreduce`.
    """
    chosen = reduce_op(op, None)

    def init(params: Any) -> Any:
        del params
        return ()

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        del params, more
        return allreduce(gradients, chosen, name, prescale_factor, postscale_factor, process_set), state

    return _transformation(init, update)


def DistributedOptimizer(  # noqa: N802  Horovod's name
    optimizer: Any,
    op: Optional[int] = None,
    name: Optional[str] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns ``optimizer`` on gradients that are reduced over the ranks first::

        optimizer = rj.DistributedOptimizer(optax.adam(1e-3 * rj.size()))

    Args:
        optimizer: of optax, or any pair of functions ``init`` and ``update`` of that form.
        op: as of :func:`average_gradients`.
        name: as of :func:`average_gradients`.
        prescale_factor: as of :func:`average_gradients`.
        postscale_factor: as of :func:`average_gradients`.
        process_set: as of :func:`average_gradients`.

    The state is the optimizer's own, so what was saved without Ronde can be loaded. With ``optax.MultiSteps`` around it
    gradients are reduced once for several passes. Raises as :func:`average_gradients`.
    """
    reduce = average_gradients(op, name, prescale_factor, postscale_factor, process_set)

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        reduced, _ = reduce.update(gradients, ())
        return optimizer.update(reduced, state, params, **more)

    return _transformation(optimizer.init, update)
