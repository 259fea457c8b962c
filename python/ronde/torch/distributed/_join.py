"""Process groups within ``torch.distributed.algorithms.join.Join``, of which DDP's ``join()`` is one."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from ronde.torch.distributed import _left_futures

_is_done = False

#: The last notification of each joinable. DDP hands it to C++, which keeps its own half only, and without Python's waits
#: for ever.
_notifications: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def prepare() -> None:
    """For all blocks from now on. Again: does nothing."""
    global _is_done
    if not _is_done:
        _is_done = True
        _keep_notifications()
        _call_hooks_as_in_a_pass()


def _keep_notifications() -> None:
    notify = Join.notify_join_context

    @functools.wraps(notify)
    def notified(joinable: Any) -> Any:
        work = notify(joinable)
        if work is not None:
            _notifications[joinable] = work
        return work

    Join.notify_join_context = staticmethod(notified)  # type: ignore[method-assign] # that is the point


def _call_hooks_as_in_a_pass() -> None:
    """A rank that has joined has no backward pass, and DDP calls its hook for each bucket all the same: what is put behind
    futures there is to run where it does on the others."""
    match = getattr(DistributedDataParallel, "_match_all_reduce_for_bwd_pass", None)
    if match is None:  # another PyTorch
        return

    @functools.wraps(match)
    def match_in_order(wrapped: Any) -> Any:
        with _left_futures.as_in_a_pass():
            return match(wrapped)

    DistributedDataParallel._match_all_reduce_for_bwd_pass = match_in_order  # type: ignore[method-assign] # that is the point
