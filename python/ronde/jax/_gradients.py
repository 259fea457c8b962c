"""Gradients of collectives: the collective that carries the other ranks' gradients to this one, as with Horovod."""

from __future__ import annotations

import functools
from typing import Any, List, Sequence, Tuple

import jax
import jax.numpy as jnp
from jax import lax

from ronde import _abi, _process, process_sets
from ronde.exceptions import UnsupportedError
from ronde.jax._collective import Request, bind


def collective(request: Request, *arrays: Any) -> Tuple[Any, ...]:
    """The results of the request, as a function of its arrays that JAX can differentiate in reverse mode."""
    results: Tuple[Any, ...] = _collective(request, *arrays)
    return results


@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _collective(request: Request, *arrays: Any) -> Tuple[Any, ...]:
    return tuple(bind(request, *arrays))


def _forward(request: Request, *arrays: Any) -> Tuple[Tuple[Any, ...], None]:
    return collective(request, *arrays), None  # not the bare request: this pass may be differentiated itself


def _backward(request: Request, _: None, gradients: Sequence[Any]) -> Tuple[Any, ...]:
    # Of whole numbers there is no gradient: JAX has a type without values for it.
    places = [i for i, gradient in enumerate(gradients) if gradient.dtype != jax.dtypes.float0]
    made = _gradients(request, [gradients[i] for i in places]) if places else []
    results = list(gradients)
    for place, gradient in zip(places, made):
        results[place] = gradient
    return tuple(results)


def _gradients(request: Request, gradients: List[Any]) -> Sequence[Any]:
    size = process_sets.size_of(request.group)
    if request.op == _abi.ALLREDUCE:
        if request.reduce_op not in (_abi.SUM, _abi.AVERAGE):
            raise UnsupportedError(
                f"'{request.kind}': only sums and averages have a gradient; use jax.lax.stop_gradient for other reductions", 3
            )
        return collective(request.gradient(), *gradients)
    if request.op == _abi.BROADCAST:
        # A reduce, not an all-reduce whose result most ranks would drop: XLA would drop the call as well. The sum where the
        # broadcast is a reduce's own gradient, of which the shares are divided below.
        how = _abi.SUM if request.is_gradient else _abi.AVERAGE
        return collective(request.gradient(op=_abi.REDUCE, reduce_op=how), *gradients)
    if request.op == _abi.REDUCE:
        # Of the job; a process set is of the same ranks always.
        as_size = size if request.group == 0 else -1
        shares = collective(request.gradient(op=_abi.BROADCAST, as_size=as_size), *gradients)
        return [share / size for share in shares] if request.reduce_op == _abi.AVERAGE else shares
    if request.op == _abi.ALLGATHER:
        average = request.gradient(
            op=_abi.ALLREDUCE, reduce_op=_abi.AVERAGE, rows_out=None, rows_of_ranks=None, as_rank=_process.rank()
        )
        rows = request.rows_of_ranks or ()
        own = process_sets.rank_in(request.group)
        first = sum(rows[:own])
        return [lax.slice_in_dim(each, first, first + rows[own]) for each in collective(average, *gradients)]
    if request.op == _abi.ALLTOALL:
        assert request.splits is not None and request.rows_of_ranks is not None
        back = request.gradient(
            splits=request.rows_of_ranks, rows_of_ranks=request.splits, rows_out=sum(request.splits)
        )
        return collective(back, *gradients)
    if request.op == _abi.REDUCESCATTER:
        factor = request.prescale * request.postscale * (size if request.reduce_op == _abi.SUM else 1)
        rows = request.rows_of_ranks or ()
        everyones = request.gradient(
            op=_abi.ALLGATHER, reduce_op=_abi.SUM, prescale=1.0, postscale=1.0, rows_out=sum(rows),
            as_size=size if request.group == 0 else -1,
        )
        return [each * jnp.asarray(factor, each.dtype) for each in collective(everyones, *gradients)]
    return gradients  # of a barrier


_collective.defvjp(_forward, _backward)
