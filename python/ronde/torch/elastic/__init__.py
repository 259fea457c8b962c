"""Training that starts again from its last commit, for PyTorch.

    state = hvd.elastic.TorchState(model, optimizer, sampler=sampler, epoch=0)

    @hvd.elastic.run
    def train(state):
        for state.epoch in range(state.epoch, epochs):
            for index, batch in enumerate(loader):
                ...
                state.sampler.record_batch(index, batch_size)
                state.commit()
            state.sampler.set_epoch(state.epoch + 1)

    train(state)

So far it survives errors in which all processes live (a deadline that has passed, an operation that failed); a dead
process ends the job.
"""

from __future__ import annotations

from typing import Any, Callable, Optional, TypeVar, overload

from ronde import process_sets
from ronde.elastic.run import run_fn
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]

_Function = TypeVar("_Function", bound=Callable[..., Any])


def _join_anew() -> None:
    import ronde.torch  # which imports this package

    sets = process_sets.added()
    ronde.torch.shutdown()
    ronde.torch.init(process_sets=sets)


@overload
def run(func: _Function, *, reset_limit: Optional[int] = None) -> _Function: ...


@overload
def run(func: None = None, *, reset_limit: Optional[int] = None) -> Callable[[_Function], _Function]: ...


def run(func: Optional[Callable[..., Any]] = None, *, reset_limit: Optional[int] = None) -> Callable[..., Any]:
    """Decorates the training function ``func(state, ...)``, see :func:`ronde.elastic.run_fn`. Also
    ``@run(reset_limit=3)``.

    ``init()`` must have been called. Process sets are registered again after a restart. The decorated function raises
    as :func:`ronde.elastic.run_fn` says.
    """
    if func is None:
        return lambda given: run(given, reset_limit=reset_limit)
    return run_fn(func, _join_anew, reset_limit)
