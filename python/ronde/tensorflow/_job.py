"""Joining the job from a program of TensorFlow."""

from __future__ import annotations

from typing import Optional, Sequence, Union

from ronde._keras import job
from ronde._keras.job import shutdown
from ronde.process_sets import ProcessSet
from ronde.tensorflow import _native

__all__ = ["init", "shutdown"]


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job that ``ronde run`` describes; alone without it. Collective; does nothing if already initialised, by
    whichever framework: those of a process share one engine. Adds Ronde's operations to TensorFlow's, so that a SavedModel
    that has some can be loaded.

    Args:
        comm: None, or a list of all ranks; some of them, or an MPI communicator, raise NotImplementedError.
        process_sets: sets to register, the same on every rank in the same order; or "dynamic", which changes nothing,
            since sets can be added at any time.

    Raises InitializationError (a ValueError), naming the ranks that have not come, after RONDE_INIT_TIMEOUT_S seconds, and
    in a forked child of a rank; ValueError for two sets of the same ranks; ImportError if Ronde's libraries cannot be loaded.
    """
    _native.load()
    job.init(comm, process_sets)
