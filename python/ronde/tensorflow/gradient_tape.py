"""``tf.GradientTape`` whose gradients are those of all ranks."""

from __future__ import annotations

import functools
from typing import Any, Iterable, List, Optional, Set, Tuple

import tensorflow as tf

from ronde.exceptions import InvalidArgumentError
from ronde.tensorflow._gradients import Groups, Settings, reduce_gradients, ref_of, settings_of
from ronde.tensorflow.compression import AnyCompressor, Compression
from ronde.tensorflow.mpi_ops import Average
from ronde.tensorflow.process_sets import ProcessSet, global_process_set

__all__ = ["DistributedGradientTape", "PartialDistributedGradientTape"]


class _Reducing:
    """What a tape needs to know besides. It shares the attributes of the tape that it was made from, so either can be the
    one of the ``with`` statement."""

    __slots__ = ()

    def register_local_source(self, source: Any) -> None:
        """The gradient of this variable is not reduced from now on; with ``scale_local_gradients`` it is divided by the
        number of ranks."""
        self._ronde_local.add(ref_of(source))  # type: ignore[attr-defined] # a mixin's

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Any:
        """As ``tf.GradientTape.gradient``, but the gradients are reduced over all ranks.

        Args:
            target: as in ``tf.GradientTape``, as are ``sources``, ``output_gradients`` and ``unconnected_gradients``.
            use_generic_names: accepted for compatibility: names never depend on those of variables.

        Collective: every rank calls it with as many sources, of which the same have a gradient. Raises as
        :func:`ronde.tensorflow.allreduce`.
        """
        del use_generic_names
        return self.get_local_and_global_gradients(
            target, sources, output_gradients, unconnected_gradients
        )[1]

    def get_local_and_global_gradients(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = tf.UnconnectedGradients.NONE,
        use_generic_names: bool = False,
    ) -> Tuple[Any, Any]:
        """This rank's gradients and the reduced ones, both in the structure of ``sources``. Takes and raises what
        :meth:`gradient` does."""
        del use_generic_names
        local = super().gradient(  # type: ignore[misc] # a mixin's
            target, sources, output_gradients, unconnected_gradients=unconnected_gradients
        )
        variables = tf.nest.flatten(sources)
        reduced = reduce_gradients(
            self._ronde_settings, tf.nest.flatten(local), variables, self._ronde_local  # type: ignore[attr-defined] # a mixin's
        )
        return local, tf.nest.pack_sequence_as(sources, reduced)


@functools.lru_cache(maxsize=None)
def _class_for(base: Any) -> Any:
    return type(base.__name__, (_Reducing, base), {"__slots__": ("_ronde_settings", "_ronde_local")})


def _wrap(gradtape: Any, settings: Settings, local: Iterable[Any]) -> Any:
    if not isinstance(gradtape, tf.GradientTape):
        raise InvalidArgumentError(
            f"DistributedGradientTape takes a tf.GradientTape, not {type(gradtape).__name__}", 1
        )
    base: Any = type(gradtape)
    cls: Any = base if issubclass(base, _Reducing) else _class_for(base)
    made = cls.__new__(cls)
    made.__dict__ = gradtape.__dict__
    made._ronde_settings = settings
    keys: Set[Any] = {ref_of(each) for each in local}
    made._ronde_local = keys
    return made


def DistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: AnyCompressor = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Optional[Groups] = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Makes of a ``tf.GradientTape`` one whose ``gradient()`` returns gradients reduced over all ranks.

    Args:
        gradtape: the tape, before or after it has recorded.
        device_dense: accepted for compatibility, as is ``device_sparse``.
        compression: what travels, see :class:`ronde.tensorflow.Compression`.
        sparse_as_dense: whether ``tf.IndexedSlices`` are made dense before; else all ranks' slices are gathered.
        op: Average (the default), Sum or another operation of :func:`ronde.tensorflow.allreduce`.
        gradient_predivide_factor: with Average, gradients are divided by it before they are added, and by the number of
            ranks over it afterwards.
        num_groups: deprecated; ``groups``.
        groups: into how many groups gradients are put that are reduced as one request each, or lists of variables. None: in
            a graph each by itself, as soon as it is there; in eager mode all together.
        process_set: the ranks that take part.
        scale_local_gradients: whether gradients of sources given to ``register_local_source`` are divided by the number of
            ranks.

    Returns a tape of the same class with the methods ``register_local_source`` and ``get_local_and_global_gradients``
    besides. Raises ValueError for arguments that do not fit together.
    """
    del device_dense, device_sparse
    settings = settings_of(
        "DistributedGradientTape", compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups,
        process_set, scale_local_gradients,
    )
    return _wrap(gradtape, settings, ())


def weights_of_layers(layers: Any) -> List[Any]:
    """The trainable weights of a layer or a list of layers; none for None."""
    if layers is None:
        return []
    listed = list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in listed:
        if not hasattr(layer, "trainable_weights"):
            raise InvalidArgumentError(f"local_layers takes layers of Keras, not {type(layer).__name__}", 1)
    return [weight for layer in listed for weight in layer.trainable_weights]


def PartialDistributedGradientTape(
    gradtape: Any,
    device_dense: str = "",
    device_sparse: str = "",
    compression: AnyCompressor = Compression.none,
    sparse_as_dense: bool = False,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    num_groups: int = 0,
    groups: Optional[Groups] = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """:func:`DistributedGradientTape` that does not reduce the gradients of the weights of ``local_layers``, a layer of
    Keras or a list of them, each rank's own; with ``scale_local_gradients`` they are divided by the number of ranks. The
    other arguments as there: ``gradtape``, ``device_dense``, ``device_sparse``, ``compression``, ``sparse_as_dense``,
    ``op``, ``gradient_predivide_factor``, ``num_groups``, ``groups``, ``process_set``. Raises as that does."""
    del device_dense, device_sparse
    settings = settings_of(
        "DistributedGradientTape", compression, sparse_as_dense, op, gradient_predivide_factor, num_groups, groups,
        process_set, scale_local_gradients,
    )
    return _wrap(gradtape, settings, weights_of_layers(local_layers))
