"""Callbacks without a base, as programs put them before their Keras's own ``Callback``. The first argument, a backend of
Keras, is not needed."""

from __future__ import annotations

from typing import Any

from ronde._keras import callbacks as _shared

__all__ = [
    "BroadcastGlobalVariablesCallbackImpl",
    "LearningRateScheduleCallbackImpl",
    "LearningRateWarmupCallbackImpl",
    "MetricAverageCallbackImpl",
]


class BroadcastGlobalVariablesCallbackImpl(_shared.BroadcastGlobalVariables):
    """As ``BroadcastGlobalVariablesCallback`` after the ``backend``."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        self.backend = backend
        super().__init__(*args, **kwargs)


class MetricAverageCallbackImpl(_shared.MetricAverage):
    """As ``MetricAverageCallback`` after the ``backend``."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        self.backend = backend
        super().__init__(*args, **kwargs)


class LearningRateScheduleCallbackImpl(_shared.LearningRateSchedule):
    """As ``LearningRateScheduleCallback`` after the ``backend``."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        self.backend = backend
        super().__init__(*args, **kwargs)


class LearningRateWarmupCallbackImpl(_shared.LearningRateWarmup):
    """As ``LearningRateWarmupCallback`` after the ``backend``."""

    def __init__(self, backend: Any, *args: Any, **kwargs: Any) -> None:
        self.backend = backend
        super().__init__(*args, **kwargs)
