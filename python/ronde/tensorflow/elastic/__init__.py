"""Training that starts again from its last commit, for TensorFlow.

    state = hvd.elastic.TensorFlowKerasState(model, optimizer, batch=0, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            ...
            state.commit()

    train(state)

So far it survives errors in which all processes live (a deadline that has passed, an operation that failed); a dead
process ends the job.
"""

from __future__ import annotations

import functools
from typing import Any, Callable, Optional

import tensorflow as tf

from ronde.elastic.run import run_fn
from ronde._keras import job
from ronde.tensorflow import _native
from ronde.tensorflow.elastic.state import TensorFlowKerasState, TensorFlowState

__all__ = ["TensorFlowKerasState", "TensorFlowState", "run"]


def run(func: Optional[Callable[..., Any]] = None, *, reset_limit: Optional[int] = None) -> Callable[..., Any]:
    """Decorates the training function ``func(state, ...)``, see :func:`ronde.elastic.run_fn`. Also
    ``@run(reset_limit=3)``.

    ``init()`` must have been called. Process sets are registered again after a restart. What TensorFlow says of an
    operation of Ronde that has failed is taken as Ronde's error. The decorated function raises as
    :func:`ronde.elastic.run_fn` says.
    """
    if func is None:
        return lambda given: run(given, reset_limit=reset_limit)
    given_func = func

    @functools.wraps(given_func)
    def with_own_errors(*args: Any, **kwargs: Any) -> Any:
        try:
            return given_func(*args, **kwargs)
        except tf.errors.OpError as error:
            own = _native.own_error(error)
            if own is None:
                raise
            raise own from error

    return run_fn(with_own_errors, job.join_anew, reset_limit)
