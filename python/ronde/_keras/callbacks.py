"""What Keras calls while it trains, for either version. Classes here have no base: ``ronde.keras.callbacks`` and
``ronde.tensorflow.keras.callbacks`` put them before their Keras's own ``Callback``."""

from __future__ import annotations

from typing import Any, Callable, Dict, List, Optional, Union

import numpy as np

from ronde import _process
from ronde import numpy as rnp
from ronde._keras.variables import assign, broadcast_training, sync_from_jax, values_of
from ronde._reduce_ops import Min
from ronde.exceptions import InvalidArgumentError

#: A number, or what it is at an epoch.
Multiplier = Union[float, Callable[[float], float]]


class BroadcastGlobalVariables:
    """Gives all ranks the root's weights and optimizer: before the first batch where the models of all ranks have weights by
    then, else after it."""

    model: Any

    def __init__(self, root_rank: int, device: str = "", local_variables: Any = None) -> None:
        super().__init__()
        self.root_rank = root_rank
        self.device = device
        self.broadcast_done = False
        self._local = list(local_variables or ())

    def register_local_var(self, var: Any) -> None:
        """This variable is each rank's own: it is not sent. ``var``: of the model. Raises nothing."""
        self._local.append(var)

    def on_train_begin(self, logs: Any = None) -> None:
        """Sends what is there on all ranks. ``logs`` is not used. Raises CollectiveError if that fails."""
        del logs
        if self.broadcast_done:
            return
        # The ranks decide together: a root that has loaded its model would send while the others are in their first batch.
        built = rnp.allreduce(np.array([int(bool(self.model.built))]), Min, "keras.built")
        if built[0]:
            self._broadcast()

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Sends what was not there before. ``batch`` and ``logs`` are not used. Raises CollectiveError if that fails."""
        del batch, logs
        if not self.broadcast_done:
            self._broadcast()

    def _broadcast(self) -> None:
        sync_from_jax(self.model)
        broadcast_training(self.model, getattr(self.model, "optimizer", None), self.root_rank, self._local)
        self.broadcast_done = True


class MetricAverage:
    """Averages the metrics of an epoch over all ranks, for callbacks that come after this one."""

    def __init__(self, device: str = "") -> None:
        super().__init__()
        self.device = device

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Changes ``logs``, which has the same names on every rank. ``epoch`` is not used. Raises CollectiveError if the
        ranks have other numbers of metrics."""
        del epoch
        if not logs:
            return
        names = sorted(name for name, value in logs.items() if np.isscalar(value) or np.ndim(value) == 0)
        averages = rnp.allreduce(np.array([float(logs[name]) for name in names]), name="keras.metrics")
        for name, average in zip(names, averages.tolist()):
            logs[name] = average


class LearningRateSchedule:
    """Multiplies the first learning rate by what an epoch says. With ``momentum_correction`` what the momentum of SGD
    or RMSprop has kept of earlier steps, which has their rate in it, is brought to the new rate."""

    model: Any
    params: Any

    def __init__(
        self,
        initial_lr: float,
        multiplier: Multiplier,
        start_epoch: float = 0,
        end_epoch: Optional[float] = None,
        staircase: bool = True,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
    ) -> None:
        super().__init__()
        if initial_lr is None:
            raise InvalidArgumentError("the callback needs initial_lr, the learning rate that is multiplied", 1)
        self.initial_lr = initial_lr
        self.start_epoch = start_epoch
        self.end_epoch = end_epoch
        self.staircase = staircase if callable(multiplier) else True
        self.momentum_correction = momentum_correction
        self.steps_per_epoch = steps_per_epoch
        self.current_epoch = 0
        self.multiplier: Callable[[float], float] = multiplier if callable(multiplier) else lambda _: multiplier

    def on_train_begin(self, logs: Any = None) -> None:
        """Learns how many batches an epoch has. ``logs`` is not used. Raises ValueError if nobody says it and the rate
        changes with each."""
        del logs
        if self.steps_per_epoch is None:
            self.steps_per_epoch = _steps_of(self.params or {})
        if not self.staircase and not self.steps_per_epoch:
            raise InvalidArgumentError(
                "the learning rate changes with each batch, and Keras does not know how many an epoch has: give "
                "steps_per_epoch",
                1,
            )

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Notes the ``epoch``; ``logs`` is not used. Raises nothing."""
        del logs
        self.current_epoch = epoch

    def on_batch_begin(self, batch: int, logs: Any = None) -> None:
        """Sets the rate for this ``batch`` of the epoch; ``logs`` is not used. Raises nothing of its own."""
        del logs
        if self.current_epoch < self.start_epoch or (
            self.end_epoch is not None and self.current_epoch >= self.end_epoch
        ):
            return
        if self.staircase:
            if batch == 0:
                self._adjust(self.current_epoch)
        else:
            self._adjust(self.current_epoch + float(batch) / float(self.steps_per_epoch or 1))

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """Puts the rate into ``logs`` as "lr". ``epoch`` is not used. Raises nothing of its own."""
        del epoch
        if logs is not None:
            sync_from_jax(self.model)
            logs["lr"] = _number(self.model.optimizer.learning_rate)

    def _adjust(self, epoch: float) -> None:
        sync_from_jax(self.model)
        optimizer = self.model.optimizer
        old = _number(optimizer.learning_rate)
        new = self.initial_lr * self.multiplier(epoch)
        if new == old:
            return
        optimizer.learning_rate = new
        if self.momentum_correction and old > 0:
            kept = list(_momentums(optimizer))
            assign(kept, [each * np.asarray(new / old, each.dtype) for each in values_of(kept)])


def _steps_of(params: Dict[str, Any]) -> Optional[int]:
    """How many batches an epoch has. In graph mode of Keras 2 callbacks are told how many examples there are, and how many of
    them a batch has."""
    samples, batch_size = params.get("samples"), params.get("batch_size")
    return params.get("steps") or (-(-samples // batch_size) if samples and batch_size else None)


def _number(value: Any) -> float:
    if hasattr(value, "assign"):
        return float(values_of([value])[0])
    return float(value.numpy() if hasattr(value, "numpy") else value)


def _momentums(optimizer: Any) -> List[Any]:
    """Where SGD and RMSprop keep their momentum. None of other optimizers, whose variables have no learning rate in them."""
    optimizer = getattr(optimizer, "inner_optimizer", optimizer)
    if not {"SGD", "RMSprop"} & {each.__name__ for each in type(optimizer).__mro__}:
        return []
    slots = getattr(optimizer, "_slots", None)  # of Keras 2's older optimizers
    if slots is not None:
        return [of_variable["momentum"] for of_variable in slots.values() if "momentum" in of_variable]
    return list(getattr(optimizer, "momentums", None) or getattr(optimizer, "_momentums", None) or ())


class LearningRateWarmup(LearningRateSchedule):
    """From the rate of one rank, ``initial_lr / size()``, to ``initial_lr`` in the first epochs, as in "Accurate, Large
    Minibatch SGD"."""

    def __init__(
        self,
        initial_lr: float,
        warmup_epochs: float = 5,
        momentum_correction: bool = True,
        steps_per_epoch: Optional[int] = None,
        verbose: int = 0,
    ) -> None:
        def multiplier(epoch: float) -> float:
            # At the end of the last batch of the warm-up it is 1.
            epoch += 1.0 / float(self.steps_per_epoch or 1)
            size = _process.size()
            return 1.0 / size * (epoch * (size - 1) / warmup_epochs + 1)

        super().__init__(
            initial_lr, multiplier, 0, warmup_epochs, False, momentum_correction, steps_per_epoch
        )
        self.verbose = verbose

    def on_epoch_end(self, epoch: int, logs: Optional[Dict[str, Any]] = None) -> None:
        """As of the schedule (``epoch``, ``logs``); with ``verbose`` rank 0 says when the warm-up has ended. Raises nothing of
        its own."""
        super().on_epoch_end(epoch, logs)
        if self.verbose > 0 and self.end_epoch is not None and epoch == self.end_epoch - 1 and _process.rank() == 0:
            rate = _number(self.model.optimizer.learning_rate)
            print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")
