"""Operations that gradients flow through. Each rank's backward call is the collective that carries the other ranks'
gradients to it, and waits for them. It is one of these operations itself, so derivatives of any order flow through."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

import tensorflow as tf

from ronde import _abi, process_sets
from ronde.exceptions import UnsupportedError
from ronde.tensorflow import _native
from ronde.tensorflow._arguments import counted
from ronde.tensorflow._native import Call


def _is_recorded(tensors: Sequence[Any]) -> bool:
    """Whether somebody may ask for a gradient. In eager mode without a tape nobody can, and 0.1 ms is saved."""
    if not any(tensor.dtype.is_floating or tensor.dtype.is_complex for tensor in tensors):
        return False
    return not tf.executing_eagerly() or _native.is_recorded()


def _with_gradient(
    call: Call, tensors: Sequence[Any], forward: Callable[..., List[Any]], backward: Callable[..., List[Any]]
) -> List[Any]:
    """``forward(*tensors)``, which makes the call; ``backward(*gradients)`` gives the gradients of the tensors, and is called
    in the same context for all of them."""
    if not _is_recorded(tensors):
        return forward(*tensors)
    with counted(call.name, call.group):
        _native.refuse_tangents(tensors)

    @tf.custom_gradient
    def function(*inputs: Any) -> Tuple[Any, Callable[..., Any]]:
        return forward(*inputs), backward

    return list(function(*tensors))


def gradient_name(name: str) -> str:
    """Of the operation in the backward pass of that of this name."""
    return f"grad of {name}" if name else ""


def _in_backward(call: Call, **changes: Any) -> Call:
    """The call of the backward pass: in a graph under a name that no other operation of it has."""
    name = gradient_name(call.name)
    if name and not tf.executing_eagerly():
        graph = tf.compat.v1.get_default_graph()
        with graph.name_scope(None):
            name = graph.unique_name(name)
    return call._replace(name=name, **changes)


def allreduce(tensors: Sequence[Any], call: Call) -> List[Any]:
    """The gradients are reduced as the tensors are."""

    def forward(*inputs: Any) -> List[Any]:
        return _native.run(inputs, call)

    def backward(*gradients: Any) -> List[Any]:
        return allreduce(_dense(gradients), _in_backward(call))

    return _with_gradient(call, tensors, forward, backward)


def _start_backward(start: Any, gradients: Sequence[Any], outputs: Sequence[Any]) -> _native.Started:
    """Begins the reduction of the gradients of what ``start``, a RondeStart, has begun, as that was reduced."""
    call = _native.call_of(start)
    if call.op != _abi.ALLREDUCE:
        raise UnsupportedError(f"'{call.name}' gives variables their values: no gradient flows through it", 3)
    given = [tf.zeros_like(output) if each is None else each for each, output in zip(gradients, outputs)]
    return _native.start(_dense(given), _in_backward(call))


def _gradient_of_start(operation: Any, *gradients: Any) -> List[Any]:
    """Of a request of a step, on a tape. In a graph that of Done has done it."""
    if isinstance(operation, tf.Operation):
        return list(gradients[:-1])
    return _native.done([_start_backward(operation, gradients[:-1], operation.outputs[:-1])])


def _gradient_of_done(operation: Any, *gradients: Any) -> List[Any]:
    """Of all requests of a step: they are begun together again, and one Done waits for all, or waiting ones would fill the
    threads that others need to begin."""
    outputs = list(operation.inputs)
    places_of: Dict[str, List[int]] = {}
    for place in range(len(gradients)):
        places_of.setdefault(outputs[place].op.name, []).append(place)
    started = [
        _start_backward(outputs[places[0]].op, [gradients[i] for i in places], [outputs[i] for i in places])
        for places in places_of.values()
    ]
    reduced = iter(_native.done(started))
    results: List[Any] = [None] * len(outputs)
    for places in places_of.values():
        for place in places:
            results[place] = next(reduced)
    return results


with contextlib.suppress(KeyError):  # a program has taken the module out of sys.modules and loads it again
    tf.RegisterGradient("RondeStart")(_gradient_of_start)
    tf.RegisterGradient("RondeDone")(_gradient_of_done)


def gathered(slices: Any, everyones: Any, call: Call) -> Any:
    """``everyones``, which are all ranks' ``slices``, gathered before, with a gradient: each rank gets its rows of the sum of
    all ranks' gradients."""

    def forward(*_: Any) -> List[Any]:
        return [tf.identity(everyones)]

    def backward(*gradients: Any) -> List[Any]:
        rows = tf.shape(slices, tf.int64)[:1][tf.newaxis]
        own = _in_backward(call, op=_abi.ALLREDUCE, reduce_op=_abi.SUM)
        return _own_rows(rows, allreduce(_dense(gradients), own), call._replace(op=_abi.ALLGATHER))

    return _with_gradient(call, [slices], forward, backward)[0]


def _dense(gradients: Sequence[Any]) -> List[Any]:
    return [tf.convert_to_tensor(gradient) for gradient in gradients]


def _averaged(gradients: Sequence[Any], call: Call) -> List[Any]:
    return allreduce(_dense(gradients), _in_backward(call, op=_abi.ALLREDUCE, reduce_op=_abi.AVERAGE, root=0))


def broadcast(tensor: Any, call: Call) -> Any:
    """The root gets the averaged gradient, the others zeros."""

    def forward(*inputs: Any) -> List[Any]:
        return _native.run(inputs, call)

    def backward(*gradients: Any) -> List[Any]:
        is_root = _native.topology(_native.RANK, None) == call.root
        return [tf.where(is_root, gradient, tf.zeros_like(gradient)) for gradient in _averaged(gradients, call)]

    return _with_gradient(call, [tensor], forward, backward)[0]


def _rank_in(group: int) -> Any:
    """This process's number in the group, when it is run: a function is kept over shutdown and init, after which the rank may
    be another."""
    rank = _native.topology(_native.RANK, None)
    if group == 0:
        return rank
    return tf.reduce_sum(tf.cast(tf.constant(process_sets.object_of(group).ranks, tf.int32) < rank, tf.int32))


def size_of(group: int) -> Any:
    """How many ranks the group has, when it is run, as int32: a function is kept over shutdown and init, after which there may
    be another number. A process set is of the same ranks always."""
    if group == 0 and not tf.executing_eagerly():
        return _native.topology(_native.SIZE, None)
    return tf.constant(process_sets.size_of(group), tf.int32)


def _own_rows(rows: Any, gradients: Sequence[Any], call: Call) -> List[Any]:
    """Of all ranks' rows, this rank's. ``rows``: how many each tensor of this rank has."""
    own = _in_backward(call)
    all_rows, _ = _native.run_rows([rows], own._replace(name=own.name and f"rows: {own.name}"), [tf.int64])
    before = _rank_in(call.group)
    table = tf.reshape(all_rows[0], [-1, len(gradients)])
    firsts = tf.reduce_sum(table[:before], 0)
    return [gradient[firsts[i] : firsts[i] + rows[0, i]] for i, gradient in enumerate(gradients)]


def allgather(tensors: Sequence[Any], call: Call) -> List[Any]:
    """Each rank gets its own rows of the averaged gradients."""

    def forward(*inputs: Any) -> List[Any]:
        gathered, _ = _native.run_rows(inputs, call, [each.dtype for each in inputs])
        return [_with_rows(result, each) for result, each in zip(gathered, inputs)]

    def backward(*gradients: Any) -> List[Any]:
        rows = tf.stack([tf.shape(each, tf.int64)[0] for each in tensors])[tf.newaxis]
        return _own_rows(rows, _averaged(gradients, call), call)

    return _with_gradient(call, tensors, forward, backward)


def _with_rows(result: Any, like: Any) -> Any:
    """In a graph the result's shape is known but for its rows."""
    if not tf.executing_eagerly() and like.shape.rank:
        result.set_shape([None, *like.shape[1:]])
    return result


def alltoall(tensor: Any, splits: Optional[Any], call: Call) -> Tuple[Any, Any]:
    """The gradient goes back the way the rows came."""
    received: List[Any] = []

    def forward(*inputs: Any) -> List[Any]:
        given = _even_splits(inputs[0], call) if splits is None else splits
        results, counts = _native.run_rows(inputs, call, [inputs[0].dtype], given)
        return [_with_rows(results[0], inputs[0]), counts]

    def backward(*gradients: Any) -> List[Any]:
        returned, _ = alltoall(_dense(gradients[:1])[0], received[0], _in_backward(call))
        return [returned]

    result, counts = _with_gradient(call, [tensor], forward, backward)
    received.append(tf.stop_gradient(counts))
    return result, received[0]


def _even_splits(tensor: Any, call: Call) -> Any:
    """As many rows for each rank; what does not divide the engine refuses, and says so."""
    size = tf.cast(size_of(call.group), tf.int64)
    rows = tf.shape(tensor, tf.int64)[0]
    return tf.cond(
        rows % size == 0,
        lambda: tf.fill([size], rows // size),
        lambda: tf.zeros([0], tf.int64),
    )


def reducescatter(tensors: Sequence[Any], call: Call) -> List[Any]:
    """Each rank gets all ranks' gradients one after the other: those of a sum times the number of ranks, as Horovod has
    it, since what follows averages."""

    def forward(*inputs: Any) -> List[Any]:
        results, _ = _native.run_rows(inputs, call, [each.dtype for each in inputs])
        return [_with_rows(result, each) for result, each in zip(results, inputs)]

    def backward(*gradients: Any) -> List[Any]:
        factor = tf.constant(call.prescale * call.postscale, tf.float64)
        if call.reduce_op == _abi.SUM:
            factor *= tf.cast(size_of(call.group), tf.float64)
        scaled = [each * tf.cast(factor, each.dtype) for each in _dense(gradients)]
        own = _in_backward(call, op=_abi.ALLGATHER, reduce_op=_abi.SUM, prescale=1.0, postscale=1.0)
        return allgather(scaled, own)

    return _with_gradient(call, tensors, forward, backward)


def stacked(tensor: Any, call: Call) -> Any:
    """All ranks' tensors, of one shape, along a new dimension 0. Unlike :func:`allgather`, whose gradients are averaged as
    Horovod has it, each rank gets the sum of all ranks' gradients of its tensor."""

    def forward(*inputs: Any) -> List[Any]:
        results, _ = _native.run_rows([inputs[0][tf.newaxis]], call, [inputs[0].dtype])
        return [_with_rows(results[0], inputs[0][tf.newaxis])]

    def backward(*gradients: Any) -> List[Any]:
        return [_own_sum(_dense(gradients)[0], _in_backward(call, op=_abi.REDUCESCATTER, reduce_op=_abi.SUM))]

    return _with_gradient(call, [tensor], forward, backward)[0]


def _own_sum(rows: Any, call: Call) -> Any:
    """Of the sum of all ranks' ``rows``, of which there is one for each rank, this rank's. It is the gradient of
    :func:`stacked`, and that is its own: derivatives of any order are those of all ranks together."""

    def forward(*inputs: Any) -> List[Any]:
        results, _ = _native.run_rows(inputs, call, [inputs[0].dtype])
        return [tf.ensure_shape(results[0][0], rows.shape[1:])]

    def backward(*gradients: Any) -> List[Any]:
        return [stacked(_dense(gradients)[0], _in_backward(call, op=_abi.ALLGATHER))]

    return _with_gradient(call, [rows], forward, backward)[0]
