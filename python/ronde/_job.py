"""Joining and leaving a job with its process sets: what every framework's ``init`` and ``shutdown`` do."""

from __future__ import annotations

from typing import Optional, Sequence, Union

from ronde import _abi, _process
from ronde import process_sets as _process_sets
from ronde.process_sets import ProcessSet

__all__ = ["begin", "init", "shutdown"]


def init(process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """Joins the job that ``ronde run`` describes; alone without it. Collective; does nothing if already initialised, by
    whichever framework: those of a process share one engine.

    Args:
        process_sets: sets to register, the same on every rank in the same order; or "dynamic", which changes nothing,
            since sets can be added at any time.

    Raises InitializationError (a ValueError), naming the ranks that have not come, after RONDE_INIT_TIMEOUT_S seconds, and
    in a forked child of a rank; ValueError for two sets of the same ranks; ImportError if Ronde's library cannot be loaded.
    """
    if not _process.is_rank():
        begin(None, process_sets)


def begin(options: Optional[_abi.Options], process_sets: Union[None, str, Sequence[ProcessSet]] = None) -> None:
    """:func:`init` of a process that is no rank. ``options``: what the job is, where the environment does not say it."""
    _process.init(options)
    try:
        _process_sets.begin_job(process_sets)
    except BaseException:
        shutdown()
        raise


def shutdown() -> None:
    """Leaves the job; ``init()`` may be called again. Does nothing if not initialised.

    Collective with a limit of 10 s: operations that all ranks have submitted are finished, others fail. A rank that has
    not come by then is no error: this one has left. Raises ForkedError in a forked child.
    """
    try:
        _process.shutdown()
    finally:
        if not _process.is_initialized():
            _process_sets.end_job()
