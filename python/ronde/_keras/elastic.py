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


class UpdateBatchState:
    """Keeps ``state.batch``: how many batches of the epoch are done. After a restart an epoch has the rest of them."""

    params: Any

    def __init__(self, state: Any) -> None:
        super().__init__()
        self.state = state
        self.steps_per_epoch: Optional[int] = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Forgets the length of an epoch; ``logs`` is not used. Raises nothing."""
        del logs
        self.steps_per_epoch = None

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Shortens the first epoch; ``epoch`` and ``logs`` are not used. Raises nothing."""
        del epoch, logs
        if (self.params or {}).get("steps"):
            if self.steps_per_epoch is None:
                self.steps_per_epoch = self.params["steps"]
            self.params["steps"] = self.steps_per_epoch - self.state.batch

    def on_batch_end(self, batch: int, logs: Any = None) -> None:
        """Counts the ``batch``; ``logs`` is not used. Raises nothing."""
        del logs
        self.state.batch = batch

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Counts from 0 again; ``epoch`` and ``logs`` are not used. Raises nothing."""
        del epoch, logs
        self.state.batch = 0


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
