"""Joining the job with Horovod's arguments, from a program of TensorFlow or Keras."""

from __future__ import annotations

import sys
from typing import Any, Optional, Sequence, Union

from ronde import _job, _process
from ronde import process_sets as _process_sets
from ronde._job import shutdown
from ronde.process_sets import ProcessSet

__all__ = ["init", "join_anew", "shutdown"]

_NO_COMM = (
    "init(comm=...) is not supported: a job has the ranks that the launcher has started. Use process sets for some of them"
)


def init(comm: Optional[Sequence[int]] = None, process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job that ``ronde run`` describes; alone without it. Collective; does nothing if already initialised, by
    whichever framework: those of a process share one engine.

    Args:
        comm: None, or a list of all ranks; some of them, or an MPI communicator, raise NotImplementedError.
        process_sets: sets to register, the same on every rank in the same order; or "dynamic", which changes nothing,
            since sets can be added at any time.

    Raises InitializationError (a ValueError), naming the ranks that have not come, after RONDE_INIT_TIMEOUT_S seconds, and
    in a forked child of a rank; ValueError for two sets of the same ranks; ImportError if Ronde's library cannot be loaded.
    """
    if comm is not None and not isinstance(comm, (list, tuple)):
        raise NotImplementedError(_NO_COMM)
    if _process.is_rank():
        return
    other = sys.modules.get("ronde.torch")
    if other is not None:  # which has settings of its own to read
        other.init(comm, process_sets)
        return
    _job.init()
    try:
        if comm is not None and list(comm) != list(range(_process.size())):
            raise NotImplementedError(_NO_COMM)
        _process_sets.begin_job(process_sets)
    except BaseException:
        shutdown()
        raise


def join_anew(*_: Any) -> None:
    """Leaves the job and joins it again, with the process sets that there were."""
    sets = _process_sets.added()
    shutdown()
    init(process_sets=sets)
