"""Process groups within ``torch.distributed.algorithms.join.Join``, of which DDP's ``join()`` is one."""

from __future__ import annotations

import functools
import weakref
from typing import Any

from torch.distributed.algorithms.join import Join

_is_done = False

#: The last notification of each joinable. DDP hands it to C++, which keeps its own half only, and without Python's waits
#: for ever.
_notifications: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def keep_notifications() -> None:
    """For all blocks from now on. Again: does nothing."""
    global _is_done
    if _is_done:
        return
    _is_done = True
    notify = Join.notify_join_context

    @functools.wraps(notify)
    def notified(joinable: Any) -> Any:
        work = notify(joinable)
        if work is not None:
            _notifications[joinable] = work
        return work

    Join.notify_join_context = staticmethod(notified)  # type: ignore[method-assign] # that is the point
