"""Reduces the gradients of one step: what ``DistributedGradientTape`` and all optimizers do with them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

import tensorflow as tf

from ronde import _abi, process_sets
from ronde._reduce_ops import Adasum, Average, Max, Sum, reduce_op
from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow import _differentiable, _native
from ronde.tensorflow._arguments import tensor_of
from ronde.tensorflow._native import Call, Started
from ronde.tensorflow.compression import AnyCompressor, Compression
from ronde.tensorflow.process_sets import ProcessSet, global_process_set, group_of

#: How many groups, or the variables of each.
Groups = Union[int, Sequence[Sequence[Any]]]


@dataclass(frozen=True)
class Settings:
    """How gradients are reduced; see :func:`ronde.tensorflow.DistributedGradientTape`."""

    name: str
    compression: AnyCompressor = Compression.none
    sparse_as_dense: bool = False
    op: int = Average
    gradient_predivide_factor: float = 1.0
    groups: Optional[Groups] = None
    process_set: ProcessSet = global_process_set
    scale_local_gradients: bool = True

    def __post_init__(self) -> None:
        reduce_op(self.op, None)
        if self.gradient_predivide_factor != 1.0 and self.op != Average:
            raise InvalidArgumentError(
                f"gradient_predivide_factor={self.gradient_predivide_factor} needs op=Average: it splits the division by "
                "the number of ranks",
                1,
            )
        if self.gradient_predivide_factor == 0:
            raise InvalidArgumentError("gradient_predivide_factor is 0; give a number to divide gradients by", 1)
        if isinstance(self.groups, int) and self.groups < 0:
            raise InvalidArgumentError(f"num_groups is {self.groups}; expected 0, for none, or more", 1)

    def of_overwriting(self) -> Settings:
        """The same for gradients by which Keras overwrites variables: the greatest of all ranks, or each rank's own."""
        return Settings(f"{self.name}.overwriting", op=Max, process_set=self.process_set, scale_local_gradients=False)

    def call(self, name: str) -> Call:
        """The request for one gradient, or one group, of this name."""
        factor = float(self.gradient_predivide_factor)
        return Call(
            _abi.ALLREDUCE,
            _unique(name),
            self.op,
            group=group_of(self.process_set),
            prescale=1.0 / factor,
            postscale=factor,
        )


def settings_of(
    name: str,
    compression: AnyCompressor,
    sparse_as_dense: bool,
    op: int,
    gradient_predivide_factor: float,
    num_groups: int,
    groups: Optional[Groups],
    process_set: ProcessSet,
    scale_local_gradients: bool = True,
) -> Settings:
    """From the arguments that Horovod's functions take: ``num_groups`` is the older form of ``groups``."""
    if num_groups and groups is not None:
        raise InvalidArgumentError("give either groups or its deprecated forerunner num_groups, not both", 1)
    return Settings(
        name, compression, sparse_as_dense, op, gradient_predivide_factor, num_groups or groups, process_set,
        scale_local_gradients,
    )


def _unique(name: str) -> str:
    """In a graph, a name that nothing else in it has; not in the scope that is open, which holds counters of layers."""
    if tf.executing_eagerly():
        return name
    graph = tf.compat.v1.get_default_graph()
    with graph.name_scope(None):
        return str(graph.unique_name(name))


def ref_of(variable: Any) -> Any:
    """A key by which a variable is found in a dict, of TensorFlow's as of Keras's: the same for both of one variable."""
    variable = getattr(variable, "_value", variable)
    return variable.ref() if hasattr(variable, "ref") else id(variable)


def reduce_gradients(
    settings: Settings,
    gradients: Sequence[Any],
    variables: Optional[Sequence[Any]] = None,
    local: Sequence[Any] = (),
) -> List[Any]:
    """The reduced gradients, in order.

    Args:
        gradients: of this rank; None where a variable has none, which must be so on every rank, and stays None.
        variables: theirs; needed for groups of variables.
        local: keys of variables (:func:`ref_of`) whose gradients are not reduced.

    Raises what :func:`ronde.tensorflow.allreduce` does.
    """
    results = list(gradients)
    places: List[int] = []
    kept = set(local)
    for place, gradient in enumerate(gradients):
        if gradient is None:
            continue
        if kept and variables is not None and ref_of(variables[place]) in kept:
            results[place] = _scaled_local(settings, gradient)
            continue
        places.append(place)
    of_places = None if variables is None else [variables[place] for place in places]
    # Not the number of those that are left: ranks that have others then hear of it by one name.
    name = f"{settings.name}.{len(results)}"
    reduced = _reduce(settings, name, places, [gradients[place] for place in places], of_places)
    for place, gradient in zip(places, reduced):
        results[place] = gradient
    return results


def _scaled_local(settings: Settings, gradient: Any) -> Any:
    """Of a variable that this rank alone trains: what other ranks' examples would add is missing in it."""
    if not settings.scale_local_gradients:
        return gradient
    size = _differentiable.size_of(group_of(settings.process_set))
    if isinstance(gradient, tf.IndexedSlices):
        values = gradient.values / tf.cast(size, gradient.values.dtype)
        return tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
    return gradient / tf.cast(size, gradient.dtype)


def _reduce(
    settings: Settings, name: str, places: Sequence[int], gradients: Sequence[Any], variables: Optional[Sequence[Any]]
) -> List[Any]:
    """``places``: of the gradients among all of the step, which name their requests."""
    if settings.sparse_as_dense:
        gradients = [tf.convert_to_tensor(each) if isinstance(each, tf.IndexedSlices) else each for each in gradients]
    sparse = {i: each for i, each in enumerate(gradients) if isinstance(each, tf.IndexedSlices)}
    dense = [i for i in range(len(gradients)) if i not in sparse]
    if sparse and settings.op not in (Average, Sum):
        raise InvalidArgumentError(
            "gradients that are tf.IndexedSlices can be reduced by Average and Sum only: use sparse_as_dense=True", 1
        )
    packed = [settings.compression.compress(tensor_of(gradients[i], settings.name)) for i in dense]
    bundles = _bundles(settings, dense, variables)
    in_order: Dict[int, Any] = {}
    # Those of the last layers are there first, and operations of a graph that have state run in the order in which they
    # are made: so the first gradients travel while the others are being computed.
    started: List[Tuple[List[int], Started]] = []
    for bundle in reversed(bundles):
        call = settings.call(f"{name}.{_text_of([places[dense[i]] for i in bundle])}")
        started.append((bundle, _native.start([packed[i][0] for i in bundle], call)))
    slices = {
        i: _SlicesUnderWay(settings, each, f"{name}.{places[i]}") for i, each in reversed(list(sparse.items()))
    }
    if started:
        outputs = iter(_native.done([each for _, each in started]))
        for bundle, _ in started:
            for i in bundle:
                in_order[dense[i]] = settings.compression.decompress(next(outputs), packed[i][1])
    tokens = [request.token for under_way in slices.values() for request in under_way.started]
    for i, under_way in slices.items():
        in_order[i] = under_way.end(tokens)
    return [in_order[i] for i in range(len(gradients))]


def _text_of(places: Sequence[int]) -> str:
    """By which ranks whose gradients have these places meet: the first, and all where some between have none or are slices. Ranks
    that have as many in other places do not meet."""
    first = places[0]
    if list(places) == list(range(first, first + len(places))):
        return str(first)
    return f"{first}.{hashlib.blake2b(repr(list(places)).encode(), digest_size=6).hexdigest()}"


def _bundles(settings: Settings, dense: Sequence[int], variables: Optional[Sequence[Any]]) -> List[List[int]]:
    """Which of the dense gradients are one request each. In eager mode all are there at once: then it is one for all."""
    everything = list(range(len(dense)))
    if not everything:
        return []
    groups = settings.groups
    if isinstance(groups, int) and groups > 0:
        size, longer = divmod(len(everything), groups)
        ends = [part * size + min(part, longer) for part in range(groups + 1)]
        return [everything[first:last] for first, last in zip(ends, ends[1:]) if first < last]
    if groups and not isinstance(groups, int):
        return _bundles_of_variables(groups, dense, variables)
    if tf.executing_eagerly() and settings.op != Adasum:
        return [everything]
    return [[i] for i in everything]


def _bundles_of_variables(
    groups: Sequence[Sequence[Any]], dense: Sequence[int], variables: Optional[Sequence[Any]]
) -> List[List[int]]:
    if variables is None:
        raise InvalidArgumentError("groups of variables were given, but not the variables of these gradients", 1)
    group_with = {ref_of(variable): number for number, group in enumerate(groups) for variable in group}
    bundles: Dict[int, List[int]] = {}
    for i, place in enumerate(dense):
        bundles.setdefault(group_with.get(ref_of(variables[place]), -1 - i), []).append(i)
    return list(bundles.values())


class _SlicesUnderWay:
    """All ranks' slices of one gradient, being gathered."""

    def __init__(self, settings: Settings, slices: Any, name: str) -> None:
        values = slices.values
        if settings.op == Average:
            values = values / tf.cast(_differentiable.size_of(group_of(settings.process_set)), values.dtype)
        packed, self._context = settings.compression.compress(values)
        self._settings = settings
        self._slices = slices
        self._tensors = (packed, slices.indices)
        call = replace(settings, gradient_predivide_factor=1.0).call
        calls = [call(f"{name}.{part}")._replace(op=_abi.ALLGATHER, reduce_op=_abi.SUM) for part in ("values", "indices")]
        self._call_of_values = calls[0]
        self.started = [_native.start_rows([tensor], each) for tensor, each in zip(self._tensors, calls)]

    def end(self, tokens: Sequence[Any]) -> Any:
        """The slices. In a graph only after all that belongs to the list has begun."""
        with tf.control_dependencies([] if tf.executing_eagerly() else list(tokens)):
            parts = [_native.done_rows(each, [t.dtype])[0][0] for each, t in zip(self.started, self._tensors)]
        for part, tensor in zip(parts, self._tensors):
            if not tf.executing_eagerly() and tensor.shape.rank:
                part.set_shape([None, *tensor.shape[1:]])
        gathered = _differentiable.gathered(self._tensors[0], parts[0], self._call_of_values)
        values = self._settings.compression.decompress(gathered, self._context)
        return tf.IndexedSlices(values, parts[1], self._slices.dense_shape)
