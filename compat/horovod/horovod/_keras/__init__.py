"""What Horovod's modules for Keras share, in its words: a Keras, or its backend, is the first argument. Ronde knows by itself
which it is, and only ``load_model`` reads it."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional, Sequence

from horovod.keras._live import ronde_keras as _ronde_keras
from ronde._keras.loading import load_distributed as _load_distributed

__all__ = ["allgather", "allreduce", "broadcast", "broadcast_global_variables", "create_distributed_optimizer", "load_model"]


def create_distributed_optimizer(
    keras: Any,
    optimizer: Any,
    name: Optional[str],
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float = 1.0,
    op: int = _ronde_keras.Average,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: Any = _ronde_keras.global_process_set,
    scale_local_gradients: bool = True,
) -> Any:
    """``DistributedOptimizer`` with the arguments in Horovod's order. Raises as that does."""
    del keras
    return _ronde_keras.DistributedOptimizer(
        optimizer, name=name, device_dense=device_dense, device_sparse=device_sparse, compression=compression,
        sparse_as_dense=sparse_as_dense, gradient_predivide_factor=gradient_predivide_factor, op=op,
        backward_passes_per_step=backward_passes_per_step, average_aggregated_gradients=average_aggregated_gradients,
        groups=groups, process_set=process_set, scale_local_gradients=scale_local_gradients,
    )


def broadcast_global_variables(backend: Any, root_rank: int) -> Any:
    """As of ``horovod.keras``. Raises as that does."""
    del backend
    return _ronde_keras.broadcast_global_variables(root_rank)


def allreduce(backend: Any, value: Any, name: Optional[str] = None, average: Optional[bool] = None, **kwargs: Any) -> Any:
    """As of ``horovod.keras``. Raises as that does."""
    del backend
    return _ronde_keras.allreduce(value, name, average, **kwargs)


def allgather(backend: Any, value: Any, name: Optional[str] = None) -> Any:
    """As of ``horovod.keras``. Raises as that does."""
    del backend
    return _ronde_keras.allgather(value, name)


def broadcast(backend: Any, value: Any, root_rank: int, name: Optional[str] = None) -> Any:
    """As of ``horovod.keras``. Raises as that does."""
    del backend
    return _ronde_keras.broadcast(value, root_rank, name)


def load_model(
    keras: Any,
    wrap_optimizer: Callable[[Any], Any],
    optimizer_modules: Any,
    filepath: Any,
    custom_optimizers: Optional[Sequence[Any]],
    custom_objects: Optional[Dict[str, Any]],
) -> Any:
    """Loads a model and makes its optimizer a distributed one. ``wrap_optimizer`` and ``optimizer_modules``, by which Horovod
    finds classes, are not needed. Raises what ``keras.models.load_model`` does."""
    del wrap_optimizer, optimizer_modules
    distribute = _ronde_keras.DistributedOptimizer
    return _load_distributed(keras.models.load_model, distribute, filepath, custom_optimizers, custom_objects)
