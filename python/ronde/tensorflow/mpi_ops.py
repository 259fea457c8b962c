"""Collective operations on TensorFlow's tensors. Module and function names are Horovod's, so that scripts find them.

All work in eager mode, in ``tf.function`` and in graphs of ``tf.compat.v1``. Where they run at once they raise what
:mod:`ronde.exceptions` says; where TensorFlow runs them later it raises one of ``tf.errors`` with the same sentence.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from ronde import _abi, _operation, process_sets
from ronde._reduce_ops import Adasum, Average, BitAnd, BitOr, BitXor, Max, Min, Product, Sum, reduce_op, scale
from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow import _differentiable, _native
from ronde.tensorflow._arguments import counted, listed, name_of, tensor_of
from ronde.tensorflow._native import Call
from ronde.tensorflow.compression import AnyCompressor, Compression
from ronde.tensorflow.process_sets import ProcessSet, global_process_set, group_of

__all__ = [
    "Adasum",
    "Average",
    "BitAnd",
    "BitOr",
    "BitXor",
    "Max",
    "Min",
    "Product",
    "Sum",
    "allgather",
    "allreduce",
    "alltoall",
    "barrier",
    "broadcast",
    "broadcast_",
    "grouped_allgather",
    "grouped_allreduce",
    "grouped_reducescatter",
    "join",
    "local_rank_op",
    "local_size_op",
    "process_set_included_op",
    "rank_op",
    "reducescatter",
    "size_op",
]

# ---- All-reduce ----------------------------------------------------------------------------------------------------


def allreduce(
    tensor: Any,
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
) -> Any:
    """Reduces a tensor over all ranks and returns the result, of the same shape and type.

    Args:
        tensor: the same shape and type on every rank; what is no tensor is made one. Of ``tf.IndexedSlices`` all ranks'
            slices are gathered, and divided by the number of ranks for Average; ``op`` is Average or Sum then.
        average: deprecated; ``op``.
        device_dense: accepted for compatibility, as is ``device_sparse``: the work is done on the processor.
        compression: what travels: ``Compression.none``, ``.fp16``, ``.bf16`` or a ``Compressor`` of your own.
        op: Average (the default), Sum, Min, Max or Product; Adasum of floats; BitAnd, BitOr, BitXor of integers and
            bool. Of bool, Sum and Max are "any", Product and Min "all".
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        name: by which the ranks meet; None: in eager mode they meet by the order of unnamed calls, in a graph by the
            tensor's name.
        process_set: the ranks that take part; this one must be among them.
        ignore_name_scope: in a graph the name is not put into the scope that is open.

    Differentiable: the gradient is reduced in the same way. Raises ValueError if the call is wrong or ``init()`` was not
    called, CollectiveError if the work fails, UnsupportedError in a function with ``jit_compile=True``; what TensorFlow
    runs later raises one of ``tf.errors``.
    """
    del device_dense, device_sparse
    if isinstance(tensor, tf.IndexedSlices):
        factors = (prescale_factor, postscale_factor)
        return _allreduce_slices(tensor, average, compression, op, factors, name, process_set, ignore_name_scope)
    group = group_of(process_set)
    full_name = name_of("allreduce", name, ignore_name_scope, tensor)
    with counted(full_name, group):
        packed, context = compression.compress(tensor_of(tensor, "allreduce"))
        call = Call(
            _abi.ALLREDUCE,
            full_name,
            reduce_op(op, average),
            group=group,
            prescale=scale(prescale_factor, "prescale_factor"),
            postscale=scale(postscale_factor, "postscale_factor"),
        )
    return compression.decompress(_differentiable.allreduce([packed], call)[0], context)


def _allreduce_slices(
    slices: Any,
    average: Optional[bool],
    compression: AnyCompressor,
    op: Optional[int],
    factors: Tuple[float, float],
    name: Optional[str],
    process_set: ProcessSet,
    ignore_name_scope: bool,
) -> Any:
    """All ranks' slices, one after the other: rows of the same index are added by who uses them. ``factors``: their product
    counts."""
    group = group_of(process_set)
    with counted(name or "", group):
        op = reduce_op(op, average)
        if op not in (Average, Sum):
            raise InvalidArgumentError(
                "tf.IndexedSlices can be reduced by Average and Sum only: make a tensor of them with tf.convert_to_tensor, or "
                "use sparse_as_dense=True",
                1,
            )
        factor = factors[0] * factors[1]
        is_scaled = factor != 1 or op == Average
        if op == Average:
            factor = factor / tf.cast(_differentiable.size_of(group), tf.float64)
        packed, context = compression.compress(slices.values)
        if is_scaled and not packed.dtype.is_integer:
            packed = packed * tf.cast(factor, packed.dtype)
    values = allgather(packed, name and f"{name}.values", ignore_name_scope, process_set)
    indices = allgather(slices.indices, name and f"{name}.indices", ignore_name_scope, process_set)
    if is_scaled and packed.dtype.is_integer:
        values, indices = _scaled_sums(values, indices, factor)
    return tf.IndexedSlices(compression.decompress(values, context), indices, slices.dense_shape)


def _scaled_sums(values: Any, indices: Any, factor: Any) -> Tuple[Any, Any]:
    """The rows of each index as one, multiplied, truncated towards zero: integers are only divided once they are added up."""
    unique, places = tf.unique(indices)
    sums = tf.math.unsorted_segment_sum(tf.cast(values, tf.int64), places, tf.size(unique))
    return tf.cast(tf.cast(sums, tf.float64) * tf.cast(factor, tf.float64), values.dtype), unique


def grouped_allreduce(
    tensors: Sequence[Any],
    average: Optional[bool] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: AnyCompressor = Compression.none,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    name: Optional[str] = None,
) -> List[Any]:
    """:func:`allreduce` of several ``tensors`` as one operation that succeeds or fails as a whole. Returns a list, in their
    order: number, shapes and types must be the same on every rank. Where one is ``tf.IndexedSlices`` each is reduced by
    itself. Differentiable. Raises as :func:`allreduce`."""
    group = group_of(process_set)
    tensors = listed(tensors, name, group)
    if not tensors:
        return []
    if any(isinstance(each, tf.IndexedSlices) for each in tensors):
        return [
            allreduce(each, average, device_dense, device_sparse, compression, op, prescale_factor, postscale_factor,
                      name and f"{name}.{i}", process_set, ignore_name_scope)
            for i, each in enumerate(tensors)
        ]
    full_name = name_of("grouped_allreduce", name, ignore_name_scope, tensors[0])
    with counted(full_name, group):
        packed = [compression.compress(tensor_of(each, "grouped_allreduce")) for each in tensors]
        call = Call(
            _abi.ALLREDUCE,
            full_name,
            reduce_op(op, average),
            group=group,
            prescale=scale(prescale_factor, "prescale_factor"),
            postscale=scale(postscale_factor, "postscale_factor"),
        )
    results = _differentiable.allreduce([each for each, _ in packed], call)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]


# ---- Gather, scatter, exchange -------------------------------------------------------------------------------------


def allgather(
    tensor: Any,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns all ranks' tensors, one after the other in rank order along dimension 0.

    Args:
        tensor: with one dimension or more (a scalar counts as one row); the same type and the same shape but for
            dimension 0 on every rank.
        name: as in :func:`allreduce`, as are ``ignore_name_scope`` and ``process_set``.

    Differentiable: each rank gets its rows of the averaged gradient. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    full_name = name_of("allgather", name, ignore_name_scope, tensor)
    with counted(full_name, group):
        given = _rows_of(tensor, "allgather")
    return _differentiable.allgather([given], Call(_abi.ALLGATHER, full_name, group=group))[0]


def _rows_of(tensor: Any, what: str) -> Any:
    given = tensor_of(tensor, what)
    if given.shape.rank is None:  # the graph does not know it: only the value will tell
        shape = tf.shape(given)
        return tf.reshape(given, tf.cond(tf.equal(tf.size(shape), 0), lambda: tf.constant([1], shape.dtype), lambda: shape))
    return tf.reshape(given, [1]) if given.shape.rank == 0 else given


def grouped_allgather(
    tensors: Sequence[Any],
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """:func:`allgather` of several ``tensors`` as one operation; returns a list. ``name``, ``ignore_name_scope`` and
    ``process_set`` as there. Differentiable. Raises as :func:`allreduce`."""
    group = group_of(process_set)
    tensors = listed(tensors, name, group)
    if not tensors:
        return []
    full_name = name_of("grouped_allgather", name, ignore_name_scope, tensors[0])
    with counted(full_name, group):
        given = [_rows_of(each, "grouped_allgather") for each in tensors]
    return list(_differentiable.allgather(given, Call(_abi.ALLGATHER, full_name, group=group)))


def alltoall(
    tensor: Any,
    splits: Optional[Any] = None,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Union[Any, Tuple[Any, Any]]:
    """Sends rows of a tensor to each rank and returns those that came, in rank order.

    Args:
        tensor: with one dimension or more; the same type and shape but for dimension 0 on every rank.
        splits: how many rows go to each rank of the process set, as numbers or a tensor of them; None: equally many.
        name: as in :func:`allreduce`, as are ``ignore_name_scope`` and ``process_set``.

    Returns the rows; if ``splits`` was given, also a tensor of int32 that says how many came from each rank.
    Differentiable: the gradient goes back the way the rows came. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    full_name = name_of("alltoall", name, ignore_name_scope, tensor)
    with counted(full_name, group):
        given = tensor_of(tensor, "alltoall")
        rows = None if splits is None else tf.cast(tf.convert_to_tensor(splits), tf.int64)
        if rows is not None and rows.shape.rank not in (1, None):
            raise InvalidArgumentError(
                f"alltoall: splits has the shape {rows.shape}; expected one number for each rank", 1
            )
    result, received = _differentiable.alltoall(given, rows, Call(_abi.ALLTOALL, full_name, group=group))
    return result if splits is None else (result, tf.cast(received, tf.int32))


def reducescatter(
    tensor: Any,
    device_dense: str = "",
    compression: AnyCompressor = Compression.none,
    op: int = Average,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
    ignore_name_scope: bool = False,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Any:
    """Reduces a tensor over all ranks and returns this rank's share of its rows; the first ranks get one more where they
    do not divide evenly.

    Args:
        tensor: with one dimension or more; the same shape and type on every rank.
        device_dense: accepted for compatibility.
        op: as in :func:`allreduce`, as are ``compression``, ``name``, ``process_set``, ``ignore_name_scope``,
            ``prescale_factor`` and ``postscale_factor``.

    Differentiable: each rank gets all ranks' gradients, those of a Sum times the number of ranks. Raises as
    :func:`allreduce`.
    """
    del device_dense
    return _reducescatter(
        [tensor], "reducescatter", compression, op, name, process_set, ignore_name_scope, prescale_factor, postscale_factor
    )[0]


def grouped_reducescatter(
    tensors: Sequence[Any],
    device_dense: str = "",
    compression: AnyCompressor = Compression.none,
    op: int = Average,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    name: Optional[str] = None,
) -> List[Any]:
    """:func:`reducescatter` of several ``tensors`` as one operation; returns a list. The other arguments as there:
    ``device_dense``, ``compression``, ``op``, ``process_set``, ``prescale_factor``, ``postscale_factor``, ``name``.
    Differentiable. Raises as :func:`allreduce`."""
    del device_dense
    tensors = listed(tensors, name, group_of(process_set))
    if not tensors:
        return []
    return _reducescatter(
        tensors, "grouped_reducescatter", compression, op, name, process_set, False, prescale_factor, postscale_factor
    )


def _reducescatter(
    tensors: Sequence[Any],
    kind: str,
    compression: AnyCompressor,
    op: int,
    name: Optional[str],
    process_set: ProcessSet,
    ignore_name_scope: bool,
    prescale: float,
    postscale: float,
) -> List[Any]:
    group = group_of(process_set)
    full_name = name_of(kind, name, ignore_name_scope, tensors[0])
    with counted(full_name, group):
        packed = [compression.compress(tensor_of(each, kind)) for each in tensors]
        call = Call(
            _abi.REDUCESCATTER,
            full_name,
            reduce_op(op, None),
            group=group,
            prescale=scale(prescale, "prescale_factor"),
            postscale=scale(postscale, "postscale_factor"),
        )
    results = _differentiable.reducescatter([each for each, _ in packed], call)
    return [compression.decompress(result, context) for result, (_, context) in zip(results, packed)]


# ---- Broadcast -----------------------------------------------------------------------------------------------------


def broadcast(
    tensor: Any,
    root_rank: int,
    name: Optional[str] = None,
    ignore_name_scope: bool = False,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns rank ``root_rank``'s tensor on every rank.

    Args:
        tensor: of the same shape and type on every rank; its values count on the root only.
        root_rank: a rank of the job, the same on every rank.
        name: as in :func:`allreduce`, as are ``ignore_name_scope`` and ``process_set``.

    Differentiable: the root gets the average of the gradients, the others zeros. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    full_name = name_of("broadcast", name, ignore_name_scope, tensor)
    with counted(full_name, group):
        given = tensor_of(tensor, "broadcast")
        call = Call(_abi.BROADCAST, full_name, root=int(root_rank), group=group)
    return _differentiable.broadcast(given, call)


def broadcast_(
    variables: Sequence[Any],
    root_rank: int,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Gives every rank the values of rank ``root_rank``'s variables, in place, in one operation.

    Args:
        variables: of the same shapes and types in the same order on every rank.
        root_rank: a rank of the job, the same on every rank.
        name: as in :func:`allreduce`, as is ``process_set``.

    Returns the variables in eager mode and in ``tf.function``; in a graph of ``tf.compat.v1`` the assigned values, to
    be run. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    variables = listed(variables, name, group)
    if not variables:
        return []
    full_name = name_of("broadcast_", name, False, variables[0])
    with counted(full_name, group):
        values = [tensor_of(each, "broadcast_") for each in variables]
        call = Call(_abi.BROADCAST, full_name, root=int(root_rank), group=group)
    results = _native.run(values, call)
    assigned = [variable.assign(result) for variable, result in zip(variables, results)]
    return variables if tf.executing_eagerly() or tf.inside_function() else assigned


# ---- Barrier and join ----------------------------------------------------------------------------------------------


def barrier(process_set: ProcessSet = global_process_set) -> Any:
    """Returns when every rank of ``process_set`` has called it. In a graph it is a step of it, whose operation is
    returned. Raises as :func:`allreduce`."""
    group = group_of(process_set)
    if tf.executing_eagerly():
        _operation.submit(_abi.BARRIER, "barrier.noname", [], None, None, group=group, wait=True).release()
        return None
    _, counts = _native.run_rows([], Call(_abi.BARRIER, name_of("barrier", "step", True, None), group=group), [])
    return counts.op


def join(process_set: ProcessSet = global_process_set) -> Any:
    """This rank has no more data: returns when every rank has joined, and says which was the last, as a tensor of int32.

    Args:
        process_set: the ranks of which this one has no more data.

    Until then the others go on, and all-reduces are done as if this rank had values that change nothing: zeros in a sum
    or average (which is still over all ranks), ones in a product. What each rank has a part in (``allgather``,
    ``broadcast``, ``alltoall``, ``reducescatter``) fails on all that call it, with a text that names who has joined.
    Call nothing of Ronde meanwhile. Raises as :func:`allreduce`.
    """
    group = group_of(process_set)
    name = "join.noname" if tf.executing_eagerly() else name_of("join", "step", True, None)
    results, _ = _native.run_rows([], Call(_abi.JOIN, name, group=group), [tf.int32])
    return tf.reshape(results[0], [])


# ---- Who this process is, when a graph runs ------------------------------------------------------------------------


def size_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """A tensor of int32: how many ranks there are when it is run, so that a graph outlives the job it was made in. Of
    another process set than that of all ranks (``process_set_id``), whose ranks never change, it is a constant called
    ``name``. Raises NotInitializedError (a ValueError) before ``init()``."""
    if process_set_id == 0:
        return _native.topology(_native.SIZE, name)
    return tf.constant(process_sets.size_of(process_set_id), tf.int32, name=name)


def process_set_included_op(process_set_id: int = 0, name: Optional[str] = None) -> Any:
    """A tensor of int32, called ``name``: 1 if this rank belongs to the process set ``process_set_id``, else 0. Raises
    ValueError if there is no such set."""
    included = process_sets.object_of(process_set_id).included()
    return tf.constant(int(bool(included)), tf.int32, name=name)


def local_size_op(name: Optional[str] = None) -> Any:
    """A tensor of int32, called ``name``: how many ranks this host has when it is run. Raises as :func:`size_op`."""
    return _native.topology(_native.LOCAL_SIZE, name)


def rank_op(name: Optional[str] = None) -> Any:
    """A tensor of int32, called ``name``: this process's rank when it is run. Raises as :func:`size_op`."""
    return _native.topology(_native.RANK, name)


def local_rank_op(name: Optional[str] = None) -> Any:
    """A tensor of int32, called ``name``: this process's rank among those of its host when it is run. Raises as
    :func:`size_op`."""
    return _native.topology(_native.LOCAL_RANK, name)
