"""Optimizers of Keras 3 that step with the gradients of all ranks."""

from __future__ import annotations

from typing import Any, List, Optional

import keras

from ronde._keras import optimizer as _wrapping
from ronde._reduce_ops import Average
from ronde.exceptions import InvalidArgumentError
from ronde.keras._backends import Groups, Reduction, grouped, key_of
from ronde.keras.compression import Compression
from ronde.process_sets import ProcessSet, global_process_set

__all__ = ["DistributedOptimizer", "PartialDistributedOptimizer"]


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    num_groups: int = 0,
    groups: Optional[Groups] = None,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Makes of an optimizer of Keras one that reduces gradients over all ranks before it steps.

    Args:
        optimizer: of ``keras.optimizers``, a ``LossScaleOptimizer`` too. It is changed in place and returned, keeps its
            variables and schedule, and is saved as what it was before.
        name: by which the ranks' gradients meet; None: by the optimizer's class.
        device_dense: accepted for compatibility, as is ``device_sparse``.
        compression: what travels, see :class:`ronde.keras.Compression`.
        sparse_as_dense: on TensorFlow, whether ``tf.IndexedSlices`` are made dense before; else all ranks' slices are
            gathered. The gradients of the other backends are dense.
        gradient_predivide_factor: with Average, gradients are divided by it before they are added, and by the number of
            ranks over it afterwards.
        op: Average (the default), Sum or another operation of :func:`ronde.keras.allreduce`.
        num_groups: deprecated; ``groups``.
        groups: into how many groups gradients are put that are reduced as one request each, or lists of variables.
        backward_passes_per_step: over how many batches gradients are accumulated, by the optimizer's own
            ``gradient_accumulation_steps``, which must not be set to something else.
        average_aggregated_gradients: whether gradients of several batches are averaged; else they are added.
        process_set: the ranks that take part.
        scale_local_gradients: whether gradients of variables given to ``register_local_var`` are divided by the number of
            ranks.

    The gradients that are clipped, and those that a ``LossScaleOptimizer`` looks at, are the reduced ones. On TensorFlow a
    model must not be compiled with ``jit_compile=True``. Raises ValueError for what is no optimizer of Keras 3, is distributed
    already, or for arguments that do not fit together; UnsupportedError for a backend that Ronde does not know.
    """
    if not hasattr(optimizer, "stateless_apply"):
        raise InvalidArgumentError(
            "DistributedOptimizer takes an optimizer of Keras 3, not "
            f"{type(optimizer).__module__}.{type(optimizer).__name__}",
            1,
        )
    if num_groups and groups is not None:
        raise InvalidArgumentError("give either groups or its deprecated forerunner num_groups, not both", 1)
    if keras.backend.backend() == "tensorflow":
        import ronde.tensorflow

        return ronde.tensorflow.DistributedOptimizer(
            optimizer, name, False, device_dense, device_sparse, compression, sparse_as_dense, backward_passes_per_step, op,
            gradient_predivide_factor, average_aggregated_gradients, num_groups, groups, process_set, scale_local_gradients,
        )
    grouped()
    reduction = Reduction(
        name or f"Distributed{type(optimizer).__name__}", compression, op, gradient_predivide_factor, num_groups or groups,
        process_set, scale_local_gradients,
    )
    return _wrapping.wrap(
        optimizer, reduction, reduction.of_overwriting(), key_of, backward_passes_per_step, average_aggregated_gradients
    )


def PartialDistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    device_dense: str = "",
    device_sparse: str = "",
    compression: Any = Compression.none,
    sparse_as_dense: bool = False,
    gradient_predivide_factor: float = 1.0,
    op: int = Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Optional[Groups] = None,
    process_set: ProcessSet = global_process_set,
    local_layers: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """:func:`DistributedOptimizer` that does not reduce the gradients of the weights of ``local_layers``, a built layer or a
    list of them, each rank's own; with ``scale_local_gradients`` they are divided by the number of ranks. The other
    arguments as there: ``optimizer``, ``name``, ``device_dense``, ``device_sparse``, ``compression``, ``sparse_as_dense``,
    ``gradient_predivide_factor``, ``op``, ``backward_passes_per_step``, ``average_aggregated_gradients``, ``groups``,
    ``process_set``. Raises as that does, and ValueError for a layer without weights."""
    local = _weights_of(local_layers)
    made = DistributedOptimizer(
        optimizer, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op, 0, groups,
        backward_passes_per_step, average_aggregated_gradients, process_set, scale_local_gradients,
    )
    for weight in local:
        made.register_local_var(weight)
    return made


def _weights_of(layers: Any) -> List[Any]:
    listed = [] if layers is None else list(layers) if isinstance(layers, (list, tuple, set)) else [layers]
    for layer in listed:
        if not isinstance(layer, keras.layers.Layer):
            raise InvalidArgumentError(f"local_layers takes layers of Keras, not {type(layer).__name__}", 1)
        if not layer.built:
            raise InvalidArgumentError(f"the local layer '{layer.name}' has no weights yet: build the model before", 1)
    return [weight for layer in listed for weight in layer.trainable_weights]
