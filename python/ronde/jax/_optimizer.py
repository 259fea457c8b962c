"""Optimizers of optax, and others of its form, on averaged gradients. Part of :mod:`ronde.jax`."""

from __future__ import annotations

import functools
import sys
from typing import Any, Callable, NamedTuple, Optional

import jax

from ronde import _abi
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

    It has no state. Only gradients are reduced, not the ``value`` and ``value_fn`` that line searches and ``polyak_sgd``
    behind it in the chain go by: for these there is :func:`DistributedOptimizer`. Each gradient is reduced as soon as it
    is there, beside the rest of the backward pass. Gradients that are ``None`` or masked stay so. Raises ValueError for
    another ``op``; its ``update`` as :func:`ronde.jax.allreduce`.
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
    gradients are reduced once for several passes. What optax's optimizers go by besides, ``value``, ``grad`` and ``value_fn`` of
    ``update`` (line searches, ``polyak_sgd``, ``reduce_on_plateau``), is reduced as the gradients are (with Adasum values are
    averaged), so that all ranks decide alike; other arguments are passed on, and are the same on all ranks.

    Raises as :func:`average_gradients`; ``update`` ValueError for a ``value_fn`` where gradients are not averaged: what
    ``optax.value_and_grad_from_state`` takes out of a line search's state is reduced already, and only an average may be
    averaged once more.
    """
    reduce = average_gradients(op, name, prescale_factor, postscale_factor, process_set)
    chosen = reduce_op(op, None)
    of_values = _abi.AVERAGE if chosen == _abi.ADASUM else chosen
    averages = of_values == _abi.AVERAGE and prescale_factor * postscale_factor == 1.0

    def reduced_value(value: Any, of: str) -> Any:
        own_name = None if name is None else f"{name}.{of}"
        return allreduce(value, of_values, own_name, prescale_factor, postscale_factor, process_set)

    def update(gradients: Any, state: Any, params: Any = None, **more: Any) -> Any:
        if more.get("value_fn") is not None and not averages:
            raise ValueError(
                "a line search (value_fn) goes by averages over the ranks: expected a DistributedOptimizer with op=Average and "
                "no factors. Scale the loss or the learning rate instead"
            )
        reduced, _ = reduce.update(gradients, ())
        if more.get("value") is not None:
            more["value"] = reduced_value(more["value"], "value")
        if more.get("grad") is not None:
            more["grad"] = reduced if more["grad"] is gradients else reduced_value(more["grad"], "grad")
        if more.get("value_fn") is not None:
            more["value_fn"] = _of_all_ranks(more["value_fn"], functools.partial(reduced_value, of="value_fn"))
        return optimizer.update(reduced, state, params, **more)

    return _transformation(optimizer.init, update)


def _of_all_ranks(value_fn: Callable[..., Any], reduced: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function whose value and gradient by its first argument are those of the ranks, reduced: a collective's own gradient would
    be this rank's part of it."""

    @functools.wraps(value_fn)  # optax looks which arguments it has
    def on_all(params: Any, *arguments: Any, **more: Any) -> Any:
        def on_this(params: Any) -> Any:
            return value_fn(params, *arguments, **more)

        def forward(params: Any) -> Any:
            value, gradients = jax.value_and_grad(on_this)(params)
            return reduced((value, gradients))

        def backward(gradients: Any, of_value: Any) -> Any:
            return (jax.tree_util.tree_map(lambda each: each * of_value, gradients),)

        value = jax.custom_vjp(lambda params: reduced(on_this(params)))
        value.defvjp(forward, backward)
        return value(params)

    return on_all
