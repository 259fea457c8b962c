"""How gradients are reduced on the backend that Keras works with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Optional, Sequence, Set, Union

import keras

from ronde import process_sets
from ronde._reduce_ops import Average, Max, reduce_op
from ronde.exceptions import InvalidArgumentError, UnsupportedError
from ronde.keras.compression import Compression
from ronde.process_sets import ProcessSet, global_process_set, group_of

#: How many groups, or the variables of each.
Groups = Union[int, Sequence[Sequence[Any]]]

#: Reduces a list of the backend's tensors as one operation: tensors, name, op, factors before and after, process set.
Grouped = Callable[[List[Any], str, int, float, float, ProcessSet], List[Any]]


def key_of(variable: Any) -> Any:
    """Tells variables apart."""
    return id(variable)


def _torch_grouped(
    tensors: List[Any], name: str, op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> List[Any]:
    import ronde.torch

    return ronde.torch.grouped_allreduce(
        tensors, name=name, op=op, prescale_factor=prescale, postscale_factor=postscale, process_set=process_set
    )


def _jax_grouped(
    tensors: List[Any], name: str, op: int, prescale: float, postscale: float, process_set: ProcessSet
) -> List[Any]:
    import ronde.jax

    return ronde.jax.grouped_allreduce(
        tensors, op=op, name=name, prescale_factor=prescale, postscale_factor=postscale, process_set=process_set
    )


def grouped() -> Grouped:
    """For the backend that Keras works with. UnsupportedError for one that Ronde does not know."""
    backend = keras.backend.backend()
    known: Dict[str, Grouped] = {"torch": _torch_grouped, "jax": _jax_grouped}
    if backend not in known:
        raise UnsupportedError(
            f"ronde.keras works with Keras's backends tensorflow, torch and jax, not with {backend}: set KERAS_BACKEND", 3
        )
    return known[backend]


@dataclass(frozen=True)
class Reduction:
    """How gradients are reduced on PyTorch and JAX; see :func:`ronde.keras.DistributedOptimizer`."""

    name: str
    compression: Any
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

    def __call__(self, gradients: Sequence[Any], variables: Sequence[Any], local: Set[Any]) -> List[Any]:
        """The reduced gradients, in order; None stays None, and so do those of local variables."""
        results = list(gradients)
        places = []
        for place, (gradient, variable) in enumerate(zip(gradients, variables)):
            if gradient is None:
                continue
            if key_of(variable) in local:
                if self.scale_local_gradients:
                    results[place] = gradient / process_sets.size_of(group_of(self.process_set))
                continue
            places.append(place)
        reduce = grouped()
        factor = float(self.gradient_predivide_factor)
        for bundle in self._bundles(places, variables):
            packed = [self.compression.compress(gradients[place]) for place in bundle]
            tensors = [tensor for tensor, _ in packed]
            name = f"{self.name}.{len(results)}.{bundle[0]}"
            reduced = reduce(tensors, name, self.op, 1.0 / factor, factor, self.process_set)
            for place, tensor, (_, context) in zip(bundle, reduced, packed):
                results[place] = self.compression.decompress(tensor, context)
        return results

    def of_overwriting(self) -> Reduction:
        """The same for gradients by which Keras overwrites variables: the greatest of all ranks, or each rank's own."""
        name = f"{self.name}.overwriting"
        return Reduction(name, Compression.none, Max, process_set=self.process_set, scale_local_gradients=False)

    def _bundles(self, places: List[int], variables: Sequence[Any]) -> List[List[int]]:
        if not places:
            return []
        if not self.groups:
            return [places]
        if isinstance(self.groups, int):
            size, longer = divmod(len(places), self.groups)
            ends = [part * size + min(part, longer) for part in range(self.groups + 1)]
            return [places[first:last] for first, last in zip(ends, ends[1:]) if first < last]
        group_with = {key_of(variable): number for number, group in enumerate(self.groups) for variable in group}
        bundles: Dict[int, List[int]] = {}
        for place in places:
            bundles.setdefault(group_with.get(key_of(variables[place]), -1 - place), []).append(place)
        return list(bundles.values())
