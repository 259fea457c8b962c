"""Variables of Keras, of either version and any backend, by way of NumPy."""

from __future__ import annotations

import sys
from typing import Any, Iterable, List, Sequence, Tuple

import numpy as np

from ronde import numpy as rnp
from ronde.exceptions import MismatchError
from ronde.process_sets import ProcessSet, global_process_set

__all__ = [
    "assign",
    "accumulated",
    "broadcast_training",
    "broadcast_variables",
    "optimizer_variables",
    "rebuild_if_empty",
    "forget_jax_state",
    "hidden_variables",
    "sync_from_jax",
    "values_of",
]


def _of_sessions() -> Any:
    """Keras 2's functions for variables that live in a session, as all do after ``tf.compat.v1.disable_eager_execution()``.
    None where variables have their values themselves."""
    tensorflow = sys.modules.get("tensorflow")
    return None if tensorflow is None or tensorflow.executing_eagerly() else tensorflow.keras.backend


def values_of(variables: Sequence[Any]) -> List[Any]:
    """Copies of the values, as NumPy's, in order."""
    backend = _of_sessions()
    values = [each.numpy() for each in variables] if backend is None else backend.batch_get_value(list(variables))
    return [np.array(value, order="C") for value in values]


def assign(variables: Sequence[Any], values: Sequence[Any]) -> None:
    """Gives the variables these values."""
    backend = _of_sessions()
    if backend is not None:
        backend.batch_set_value(list(zip(variables, values)))
        return
    for variable, value in zip(variables, values):
        variable.assign(value)


def sync_from_jax(model: Any) -> None:
    """On JAX the values of a model that is being fitted lie in the loop; this brings them into the variables, from which the
    loop goes on. Elsewhere nothing."""
    sync = getattr(model, "jax_state_sync", None)
    if sync is not None:
        sync()


def forget_jax_state(model: Any) -> None:
    """On JAX, after a step that has failed: what the loop held is gone with it, and is never brought into the variables,
    which must all be assigned now. Elsewhere nothing."""
    if hasattr(model, "jax_state_sync"):
        model._jax_state = None
        model._jax_state_synced = True


def hidden_variables(model: Any) -> List[Any]:
    """On JAX those of the loop's state that are no weights, such as the seeds of random layers: they are gone too after a
    step that has failed. Metrics are not among them, which begin anew with each epoch. Elsewhere none."""
    if not hasattr(model, "jax_state_sync"):
        return []
    weights = {id(each) for each in model.weights}
    return [each for each in model.non_trainable_variables if id(each) not in weights]


def optimizer_variables(optimizer: Any, model: Any) -> List[Any]:
    """Those of the optimizer, which gets them first, if it has none yet and the model has weights: on another rank it may have
    been loaded with them."""
    if optimizer is None:
        return []
    if model.built:
        _build(optimizer, model.trainable_variables)
    variables = optimizer.variables
    return list(variables() if callable(variables) else variables)


def _build(optimizer: Any, variables: List[Any]) -> None:
    """Does nothing where it is done already."""
    if hasattr(optimizer, "_create_all_weights"):  # Keras 2, tf.keras.optimizers.legacy
        optimizer._create_all_weights(variables)
    elif not getattr(optimizer, "built", getattr(optimizer, "_built", False)):  # Keras 3, Keras 2
        optimizer.build(variables)


def broadcast_variables(
    variables: Iterable[Any], root_rank: int, process_set: ProcessSet = global_process_set
) -> None:
    """Gives every rank the values of rank ``root_rank``'s variables.

    Args:
        variables: the same number, shapes and types in the same order on every rank.
        root_rank: a rank of the job, the same on every rank.
        process_set: the ranks that take part, the root and this one among them.

    Raises ValueError if the call is wrong, CollectiveError if the work fails.
    """
    listed = list(variables)
    arrays = values_of(listed)
    counts = rnp.allgather(np.array([len(listed)]), name="keras.variables", process_set=process_set)
    if len(set(counts.tolist())) > 1:  # else some would wait for what the others do not send
        raise MismatchError(
            f"broadcast_variables: the ranks have {counts.tolist()} variables, in rank order; give the same on every rank", 5
        )
    handles = [
        rnp.broadcast_async_(array, root_rank, f"keras.variables.{index}", process_set)
        for index, array in enumerate(arrays)
    ]
    for handle in handles:
        rnp.synchronize(handle)
    assign(listed, arrays)


def broadcast_training(model: Any, optimizer: Any, root_rank: int, without: Iterable[Any] = ()) -> None:
    """Gives every rank the weights of rank ``root_rank``'s model and the variables of its optimizer, but for ``without``.

    Gradients that are accumulated over several batches differ from rank to rank. Where all ranks have made as many batches each
    keeps its own: the root's in their place would be counted by every rank, and the others' be lost.

    Raises CollectiveError if the work fails.
    """
    own = list(without)
    everything = [*model.weights, *optimizer_variables(optimizer, model)]
    accumulators, batches = accumulated(optimizer)
    everyones = rnp.allgather(np.array([batches]), name="keras.batches").tolist()
    if len(set(everyones)) == 1:
        own += accumulators
    known = {id(variable) for variable in own}
    broadcast_variables([variable for variable in everything if id(variable) not in known], root_rank)


def accumulated(optimizer: Any) -> Tuple[List[Any], int]:
    """What Keras 3 accumulates gradients in, and over how many batches it has since it was made; -1: it does not."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)  # LossScaleOptimizer's
    accumulators = list(getattr(inner, "_accumulated_gradients", ()))
    return accumulators, int(values_of([inner._iterations])[0]) if accumulators else -1


def rebuild_if_empty(optimizer: Any, model: Any) -> None:
    """Keras 3 gives the optimizer of a model that it has loaded from HDF5 no variables and takes it for built, so that it
    cannot go on: this builds it for the model. What it had kept of earlier steps is lost then, but for their number."""
    own = getattr(optimizer, "_trainable_variables", None)
    if hasattr(optimizer, "stateless_apply") and optimizer.built and not own and model.trainable_variables:
        optimizer.built = False
        optimizer.build(model.trainable_variables)
