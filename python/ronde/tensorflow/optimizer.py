"""Optimizers that step with the gradients of all ranks."""

from __future__ import annotations

import functools
from typing import Any, List, Optional, Tuple

import tensorflow as tf

from ronde import _abi
from ronde.exceptions import InvalidArgumentError
from ronde._keras.optimizer import wrap as wrap_keras3
from ronde._keras.optimizer2 import wrap as wrap_keras2
from ronde.tensorflow import _native
from ronde.tensorflow._gradients import Groups, Settings, reduce_gradients, ref_of, settings_of
from ronde.tensorflow.compression import AnyCompressor, Compression
from ronde.tensorflow.gradient_aggregation import helper_of
from ronde.tensorflow.mpi_ops import Adasum, Average
from ronde.tensorflow.process_sets import ProcessSet, global_process_set

__all__ = ["DistributedOptimizer"]


def DistributedOptimizer(
    optimizer: Any,
    name: Optional[str] = None,
    use_locking: bool = False,
    device_dense: str = "",
    device_sparse: str = "",
    compression: AnyCompressor = Compression.none,
    sparse_as_dense: bool = False,
    backward_passes_per_step: int = 1,
    op: int = Average,
    gradient_predivide_factor: float = 1.0,
    average_aggregated_gradients: bool = False,
    num_groups: int = 0,
    groups: Optional[Groups] = None,
    process_set: ProcessSet = global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """Makes of an optimizer one that reduces gradients over all ranks before it steps.

    Args:
        optimizer: of Keras (3, or 2), which is changed in place and returned, or of ``tf.compat.v1.train``, around which
            another one is put.
        name: of the new optimizer of ``tf.compat.v1.train``, and by which the ranks' gradients meet.
        use_locking: of an optimizer of ``tf.compat.v1.train``.
        device_dense: accepted for compatibility, as is ``device_sparse``.
        compression: what travels, see :class:`ronde.tensorflow.Compression`.
        sparse_as_dense: whether ``tf.IndexedSlices`` are made dense before; else all ranks' slices are gathered.
        backward_passes_per_step: over how many passes gradients are added up before they are reduced and applied.
        op: Average (the default), Sum or another operation of :func:`ronde.tensorflow.allreduce`. Adasum of an optimizer of
            ``tf.compat.v1.train`` reduces what its step has changed.
        gradient_predivide_factor: with Average, gradients are divided by it before they are added, and by the number of
            ranks over it afterwards.
        average_aggregated_gradients: whether gradients of several passes are averaged; else they are added.
        num_groups: deprecated; ``groups``.
        groups: into how many groups gradients are put that are reduced as one request each, or lists of variables.
        process_set: the ranks that take part.
        scale_local_gradients: whether gradients of variables given to ``register_local_var`` are divided by the number of
            ranks; of optimizers of Keras.

    Raises ValueError for what is no optimizer and for arguments that do not fit together.
    """
    del device_dense, device_sparse
    settings = settings_of(
        name or f"Distributed{type(optimizer).__name__}", compression, sparse_as_dense, op, gradient_predivide_factor,
        num_groups, groups, process_set, scale_local_gradients,
    )
    if isinstance(optimizer, tf.compat.v1.train.Optimizer):
        if op == Adasum:
            return _AdasumOptimizer(optimizer, settings, use_locking, backward_passes_per_step)
        return _LegacyOptimizer(
            optimizer, settings, use_locking, backward_passes_per_step, average_aggregated_gradients
        )
    reduce = functools.partial(reduce_gradients, settings)
    if hasattr(optimizer, "apply") and hasattr(optimizer, "stateless_apply"):
        overwriting = functools.partial(reduce_gradients, settings.of_overwriting())
        return wrap_keras3(optimizer, reduce, overwriting, ref_of, backward_passes_per_step, average_aggregated_gradients)
    if hasattr(optimizer, "apply_gradients"):
        helper = helper_of(backward_passes_per_step, reduce, average_aggregated_gradients, settings.name)
        return wrap_keras2(optimizer, reduce, helper)
    raise InvalidArgumentError(
        f"DistributedOptimizer takes an optimizer of Keras or of tf.compat.v1.train, not {type(optimizer).__name__}", 1
    )


class _Around(tf.compat.v1.train.Optimizer):
    """An optimizer of ``tf.compat.v1.train`` around another one, which keeps the slots."""

    def __init__(self, optimizer: Any, settings: Settings, use_locking: bool) -> None:
        super().__init__(use_locking, settings.name)
        self._optimizer = optimizer
        self._settings = settings

    def get_slot(self, *args: Any, **kwargs: Any) -> Any:
        """Of the optimizer inside."""
        return self._optimizer.get_slot(*args, **kwargs)

    def get_slot_names(self, *args: Any, **kwargs: Any) -> Any:
        """Of the optimizer inside."""
        return self._optimizer.get_slot_names(*args, **kwargs)

    def variables(self, *args: Any, **kwargs: Any) -> Any:
        """Of the optimizer inside."""
        return self._optimizer.variables(*args, **kwargs)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Of the optimizer inside."""
        return self._optimizer.compute_gradients(*args, **kwargs)

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """Of the optimizer inside."""
        return self._optimizer.apply_gradients(*args, **kwargs)


class _LegacyOptimizer(_Around):
    """Reduces what ``compute_gradients`` of the optimizer inside returns."""

    def __init__(
        self, optimizer: Any, settings: Settings, use_locking: bool, passes: int, average_passes: bool
    ) -> None:
        super().__init__(optimizer, settings, use_locking)
        self._helper = helper_of(passes, self._reduce, average_passes, settings.name)

    def _reduce(self, gradients: List[Any], variables: List[Any]) -> List[Any]:
        return reduce_gradients(self._settings, gradients, variables)

    def compute_gradients(self, *args: Any, **kwargs: Any) -> List[Tuple[Any, Any]]:
        """As of the optimizer inside, reduced. Collective."""
        pairs = self._optimizer.compute_gradients(*args, **kwargs)
        gradients = [gradient for gradient, _ in pairs]
        variables = [variable for _, variable in pairs]
        reduce = self._reduce if self._helper is None else self._helper.compute_gradients
        return list(zip(reduce(gradients, variables), variables))

    def apply_gradients(self, *args: Any, **kwargs: Any) -> Any:
        """As of the optimizer inside; with ``backward_passes_per_step`` after the last pass of a step only."""
        if self._helper is None:
            return self._optimizer.apply_gradients(*args, **kwargs)
        return self._helper.apply_gradients(lambda: self._optimizer.apply_gradients(*args, **kwargs))


class _AdasumOptimizer(_Around):
    """Lets the optimizer inside step by itself and reduces by Adasum what the step has changed."""

    def __init__(self, optimizer: Any, settings: Settings, use_locking: bool, passes: int) -> None:
        if passes != 1:
            raise InvalidArgumentError(
                f"op=Adasum of an optimizer of tf.compat.v1.train takes backward_passes_per_step=1, not {passes}", 1
            )
        super().__init__(optimizer, settings, use_locking)

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: Optional[str] = None) -> Any:
        """Steps, and replaces each variable's change by that of all ranks. Collective."""
        pairs = list(grads_and_vars)
        variables = [variable for gradient, variable in pairs if gradient is not None]
        # Of a reference variable an identity is the variable's own memory, in which the step is made.
        before = [tf.raw_ops.DeepCopy(x=variable) for variable in variables]
        with tf.control_dependencies(before):
            stepped = self._optimizer.apply_gradients(pairs, global_step, name)
        with tf.control_dependencies([stepped] if stepped is not None else []):
            changes = [variable.read_value() - old for variable, old in zip(variables, before)]
        reduced = self._adasum(changes)
        assigned = [variable.assign(old + change) for variable, old, change in zip(variables, before, reduced)]
        return tf.group(*assigned)

    def _adasum(self, changes: List[Any]) -> List[Any]:
        packed = [self._settings.compression.compress(change) for change in changes]
        call = self._settings.call(f"{self._settings.name}.{len(changes)}.delta")
        results = _native.run([tensor for tensor, _ in packed], call._replace(op=_abi.ALLREDUCE))
        return [self._settings.compression.decompress(each, context) for each, (_, context) in zip(results, packed)]
