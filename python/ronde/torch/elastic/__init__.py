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

from typing import Any, Callable, Optional

from ronde import process_sets
from ronde.elastic.run import run_fn
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.elastic.state import TorchState

__all__ = ["ElasticSampler", "TorchState", "run"]


def _join_anew() -> None:
    import ronde.torch  # which imports this package

    sets = process_sets.added()
    ronde.torch.shutdown()
    ronde.torch.init(process_sets=sets)


def run(func: Optional[Callable[..., Any]] = None, *, reset_limit: Optional[int] = None) -> Callable[..., Any]:
    """Decorates the training function ``func(state, ...)``, see :func:`ronde.elastic.run_fn`. ``init()`` must have been
    called. Process sets are registered again after a restart. Also ``@run(reset_limit=3)``."""
    if func is None:
        return lambda given: run(given, reset_limit=reset_limit)
    return run_fn(func, _join_anew, reset_limit)
