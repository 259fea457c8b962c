"""Elastic training with Keras, of either version: the callbacks that keep a state up to date, without a base."""

from __future__ import annotations

from typing import Any, Optional

from ronde._keras.variables import sync_from_jax


class CommitState:
    """Commits a state after some batches, and after each epoch."""

    model: Any

    def __init__(self, state: Any, batches_per_commit: int = 1) -> None:
        super().__init__()
        self.state = state
        self.batches_per_commit = batches_per_commit
        self.batches_remaining = batches_per_commit

    def on_train_begin(self, logs: Any = None) -> None:
        """Counts from the start again; ``logs`` is not used. Raises nothing."""
        del logs
        self.batches_remaining = self.batches_per_commit

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Commits if it is time; ``batch`` and ``logs`` are not used. Raises as ``state.commit()``."""
        del batch, logs
        self.batches_remaining -= 1
        if self.batches_remaining == 0:
            self._commit()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Commits; ``epoch`` and ``logs`` are not used. Raises as ``state.commit()``."""
        del epoch, logs
        self._commit()

    def _commit(self) -> None:
        sync_from_jax(self.model)
        self.state.commit()
        self.batches_remaining = self.batches_per_commit


class _EpochIsDone(int):
    """What ``model.stop_training`` is told in the middle of an epoch; another callback says True."""


class UpdateBatchState:
    """Keeps ``state.batch``: how many batches of the epoch are done. After a restart an epoch has as many as are left, at least
    one, where Keras knows how many it has; which ones is what ``fit`` is given."""

    params: Any
    model: Any

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self._before = 0  # batches of this epoch that were done before fit was called
        self._steps: Optional[int] = None  # of a whole epoch, while this one is shorter

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Shortens the first epoch; ``epoch`` and ``logs`` are not used. Raises nothing."""
        del epoch, logs
        self._before = self.state.batch
        self._steps = (self.params or {}).get("steps") if self._before else None
        if self._steps:
            self.params["steps"] = max(1, self._steps - self._before)  # for the progress bar

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts the ``batch``, and ends an epoch that is shorter; ``logs`` is not used. Raises nothing."""
        del logs
        self.state.batch = self._before + batch + 1
        if self._steps and self.state.batch >= self._steps and not self.model.stop_training:
            self.model.stop_training = _EpochIsDone(True)

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts from 0 again; ``epoch`` and ``logs`` are not used. Raises nothing."""
        del epoch, logs
        self.state.batch = 0
        if self._steps:
            self.params["steps"] = self._steps
        if isinstance(self.model.stop_training, _EpochIsDone):
            self.model.stop_training = False


class UpdateEpochState:
    """Keeps ``state.epoch``: how many epochs are done, those before this call of ``fit`` too."""

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.initial_epoch = state.epoch

    def on_train_begin(self, logs: Any = None) -> None:
        """Notes where it starts; ``logs`` is not used. Raises nothing."""
        del logs
        self.initial_epoch = self.state.epoch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts the ``epoch`` of this call of ``fit``; ``logs`` is not used. Raises nothing."""
        del logs
        self.state.epoch = self.initial_epoch + epoch + 1
