"""The one primitive behind all collectives: what JAX does with it when it evaluates, traces, batches and compiles."""

from __future__ import annotations

import itertools
from typing import Any, List, NamedTuple, Optional, Sequence, Tuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import io_callback
from jax.extend.core import Primitive
from jax.interpreters import batching, mlir

from ronde import _abi, _names, _operation
from ronde.jax import _failures, _library, _numbering, _order, _scope, _through_python
from ronde.jax._effect import known_effect as _known_effect
from ronde.numpy._arrays import address_of, source, view_of
from ronde.numpy._results import made


_GRADIENT = "grad of"


class Request(NamedTuple):
    """What is asked of the ranks, all of it known when a program is traced."""

    op: int
    kind: str
    name: Optional[str]  # without the kind; None: an unnamed call, at once or in a program
    group: int
    reduce_op: int = _abi.SUM
    root: int = 0
    prescale: float = 1.0
    postscale: float = 1.0
    splits: Optional[Tuple[int, ...]] = None
    rows_of_ranks: Optional[Tuple[int, ...]] = None  # in an all-gather or an all-to-all the rows that each rank sends here
    rows_out: Optional[int] = None  # None: results have the shapes of the operands
    as_rank: int = -1  # what is done with the result is for this rank, and in a job of as many as as_size
    as_size: int = -1
    site: str = ""  # where the program asks, for errors
    trace: int = 0  # of a call in a program: another one each time that JAX traces one; 0: not known
    gradient_of: int = 0  # the trace of the call whose gradient this one is; 0: of none

    @property
    def full_name(self) -> str:
        """By which the ranks meet outside of compiled programs. Requires: it has a name."""
        return f"{self.kind}.{self.name}"

    @property
    def in_program(self) -> str:
        """The name that the caller has given, in a compiled program. A call outside has another one: after an error in a
        program it might meet a call that this rank has not come to."""
        return f"{self.name}@program"

    @property
    def is_gradient(self) -> bool:
        """Whether it is one of a backward pass."""
        return self.kind == _GRADIENT

    def gradient(self, **changes: Any) -> "Request":
        """The request of the backward pass, which belongs to this one: ranks need not run their passes in one order."""
        name = None if self.name is None else self.full_name
        return self._replace(kind=_GRADIENT, name=name, trace=new_trace(), gradient_of=self.trace, **changes)


_traces = itertools.count(1)


def new_trace() -> int:
    """For a call that is made now, if JAX traces."""
    return next(_traces) if _scope.is_staged() else 0


_MADE_BY_TICKET = (_abi.ALLGATHER, _abi.ALLTOALL, _abi.REDUCESCATTER)

collective_p = Primitive("ronde_collective")
collective_p.multiple_results = True


def bind(request: Request, *arrays: Any) -> List[Any]:
    """The results of the request: now, or in the program that is traced."""
    if request.op != _abi.BARRIER and not arrays:
        return []
    _scope.refuse_devices(_scope.devices(), request.kind)
    if _scope.is_staged() and not _library.has_handler():
        # Numbers would be those of the calls made at once, which another thread makes.
        request = request._replace(name="in order" if request.name is None else request.in_program)
        results = io_callback(
            lambda *values: tuple(_through_python.make(lambda: _evaluate(request, values))),
            tuple(jax.ShapeDtypeStruct(_shape_of(request, array.shape), array.dtype) for array in arrays),
            *_unfused(arrays),
            ordered=True,  # calls that wait must come in one order on every rank
        )
        return _through_python.noted(_unfused(results))
    return list(collective_p.bind(*arrays, request=request))


def _unfused(arrays: Sequence[Any]) -> Sequence[Any]:
    """The arrays, behind a barrier where XLA compiles for a GPU: its fusion looks across an ordered callback, at a slice that
    is an operand for instance, and ends the process over the token there (seen with JAX 0.11.2)."""
    if jax.default_backend() == "cpu" or not arrays:
        return arrays
    barred: Sequence[Any] = jax.lax.optimization_barrier(tuple(arrays))
    return barred


def _shape_of(request: Request, shape: Sequence[int]) -> Tuple[int, ...]:
    return tuple(shape) if request.rows_out is None else (request.rows_out, *shape[1:])


def _abstract(*operands: Any, request: Request) -> List[Any]:
    return [operand.update(shape=_shape_of(request, operand.shape)) for operand in operands]


def _evaluate(request: Request, values: Sequence[Any]) -> List[Any]:
    """Does it now, on the values as NumPy's arrays; the calling thread waits. Raises what :mod:`ronde.exceptions` says."""
    if request.op == _abi.BARRIER:
        return _wait_for_all(request, values)
    name = _names.name_of(request.kind, request.name, request.group)
    try:
        inputs = [source(np.asarray(value), name) for value in values]
        is_made_by_ticket = request.op in _MADE_BY_TICKET
        # Where a reduce has no result there are zeros.
        results = [] if is_made_by_ticket else [np.zeros(array.shape, array.dtype) for array in inputs]
        operation = _operation.submit(
            request.op,
            name,
            [view_of(array) for array in inputs],
            None if is_made_by_ticket else [address_of(array) for array in results],
            (inputs, results),
            reduce_op=request.reduce_op,
            root=request.root,
            prescale=request.prescale,
            postscale=request.postscale,
            splits=request.splits,
            wait=True,
        )
        if is_made_by_ticket:
            return list(made([array.dtype for array in inputs], False)(operation))
        operation.release()
        return results
    except BaseException as error:
        _names.refuse(name, error)
        _failures.keep(error)
        raise


def _wait_for_all(request: Request, values: Sequence[Any]) -> List[Any]:
    arrays: List[Any] = []
    failure: Optional[Exception] = None
    try:
        arrays += [np.asarray(value) for value in values]
    except Exception as error:  # an array holds it. The others make the barrier, so this rank does
        failure = error
    _make_barrier(request)
    if failure is not None:
        raise failure
    return arrays


def _make_barrier(request: Request) -> None:
    if request.name is None:
        _operation.submit(_abi.BARRIER, "barrier.noname", [], None, None, group=request.group, wait=True).release()
        return
    # One with a name may come from a program that runs beside the caller's thread, whose unnamed calls an engine's barrier
    # would begin to count anew.
    name = _names.in_group(request.group, request.full_name)
    nothing = np.zeros(1, np.int32)
    _operation.submit(_abi.ALLREDUCE, name, [view_of(nothing)], None, nothing, wait=True).release()


def _at_once(*arrays: Any, request: Request) -> List[Any]:
    results = _evaluate(request, arrays)
    return [jax.device_put(result, getattr(array, "sharding", None)) for result, array in zip(results, arrays)]


def _in_place(request: Request, count: int) -> dict[int, int]:
    """Which operand lends its memory to which result: each to its own, where the engine takes one array for both.

    XLA copies an operand that the program needs afterwards. Gradients are not needed: new memory for their sums would be
    mapped by the kernel page by page in each step, as XLA gets a program's memory anew each time that it runs (100 MB of
    ResNet-50: 25,000 pages, 30 ms).
    """
    return {} if request.op in _MADE_BY_TICKET else {each: each for each in range(count)}


def _lower(context: Any, *operands: Any, request: Request) -> Any:
    if not _library.has_handler():
        raise NotImplementedError(
            f"'{request.kind}': this program was traced where XLA could call Ronde's library, and is compiled where it cannot"
        )
    if not _numbering.expect_call():
        raise NotImplementedError(f"'{request.kind}': JAX compiles this program in a way in which Ronde gives calls no names")
    unnumbered = _numbering.unnumbered(request.trace, request.gradient_of) if request.name is None else {}
    # Kept although JAX knows of no effect: a result of no elements, say, makes nobody drop the call on one rank only.
    rule = _library.ffi.ffi_lowering(
        _order.WHOLE, has_side_effect=True, operand_output_aliases=_in_place(request, len(operands))
    )
    return rule(
        context,
        *operands,
        op=np.int64(request.op),
        name=request.kind if request.name is None else f"{request.kind}.{request.in_program}",
        **unnumbered,
        group=np.int64(request.group),
        reduce_op=np.int64(request.reduce_op),
        root=np.int64(request.root),
        prescale=np.float64(request.prescale),
        postscale=np.float64(request.postscale),
        as_rank=np.int64(request.as_rank),
        as_size=np.int64(request.as_size),
        is_ordered=np.int64(0),  # _order.py may say otherwise
        places=np.array((request.group, 0, 0, 0), np.int64),  # _numbering.py says those of the whole program,
        given=np.zeros(1, np.int64),  # and these names
        splits=np.array((0, *(request.splits or ())), np.int64),
        site=request.site,
    )


_effect = _known_effect()
if _effect is None:
    collective_p.def_abstract_eval(_abstract)
else:
    collective_p.def_effectful_abstract_eval(lambda *operands, request: (_abstract(*operands, request=request), {_effect}))
collective_p.def_impl(_at_once)
mlir.register_lowering(collective_p, _lower, platform="cpu")


def _batch(arrays: Sequence[Any], dimensions: Sequence[Any], *, request: Request) -> Tuple[List[Any], List[Any]]:
    """Ranks that batch alike send all members of the batch in one call."""
    if request.reduce_op == _abi.ADASUM:
        return _batch_apart(arrays, dimensions, request)
    # Where the batch's dimension lies follows from what this rank computes beside. Rows are dimension 0 of the call.
    place = 0 if request.rows_out is None else 1
    arrays = [array if at is None else jnp.moveaxis(array, at, place) for array, at in zip(arrays, dimensions)]
    return list(collective_p.bind(*arrays, request=request)), [at if at is None else place for at in dimensions]


def _batch_apart(arrays: Sequence[Any], dimensions: Sequence[Any], request: Request) -> Tuple[List[Any], List[Any]]:
    """As _batch, where what becomes of a tensor's values depends on all of them: each member of the batch is a tensor of its
    own of the call. Where a dimension is None the array is not batched."""
    tensors: List[Any] = []
    for array, at in zip(arrays, dimensions):
        tensors += [array] if at is None else list(jnp.moveaxis(array, at, 0))
    results = iter(collective_p.bind(*tensors, request=request) if tensors else ())
    batched: List[Any] = []
    for array, at in zip(arrays, dimensions):
        members = 1 if at is None else array.shape[at]
        mine = [next(results) for _ in range(members)]
        batched.append(mine[0] if at is None else jnp.stack(mine) if mine else jnp.moveaxis(array, at, 0))
    return batched, [at if at is None else 0 for at in dimensions]


batching.primitive_batchers[collective_p] = _batch
