"""Process groups within ``torch.distributed.algorithms.join.Join``, of which DDP's ``join()`` is one.

There a rank that has run out of data makes the calls that the others make in their backward passes: outside of such a
pass, and waiting for them at other moments. So neither can be part of a call's name; a group names its calls by their
order while it is in such a block, which every rank enters and leaves between the same two calls. That holds for every
group of ranks that are all in the block.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any, List

import torch.distributed as dist
from torch.distributed.algorithms.join import Join

from ronde.torch.distributed._group import RondeProcessGroup

_is_done = False

#: The last notification of each joinable. DDP hands it to C++, which keeps its own half only, and without Python's waits
#: for ever.
_notifications: "weakref.WeakKeyDictionary[Any, Any]" = weakref.WeakKeyDictionary()


def order_calls_in_join() -> None:
    """For all blocks from now on. Again: does nothing."""
    global _is_done
    if _is_done:
        return
    _is_done = True
    enter, leave, notify = Join.__enter__, Join.__exit__, Join.notify_join_context

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        self._ordered_by_ronde = _groups_within(self)
        for group in self._ordered_by_ronde:
            group.begin_ordered()
        return enter(self)  # type: ignore[no-untyped-call] # not typed in PyTorch

    @functools.wraps(leave)
    def left(self: Any, *exception: Any) -> Any:
        try:
            return leave(self, *exception)
        finally:
            for group in self.__dict__.pop("_ordered_by_ronde", []):
                group.end_ordered()

    @functools.wraps(notify)
    def notified(joinable: Any) -> Any:
        work = notify(joinable)
        if work is not None:
            _notifications[joinable] = work
        return work

    Join.__enter__, Join.__exit__ = entered, left  # type: ignore[method-assign] # that is the point
    Join.notify_join_context = staticmethod(notified)  # type: ignore[method-assign] # so is this


def _groups_within(join: Any) -> List[RondeProcessGroup]:
    """Ronde's groups of ranks that are all in the block; none if it does nothing."""
    if not join._enable:
        return []
    members = set(dist.get_process_group_ranks(join._process_group))
    return [
        group
        for group in list(dist.distributed_c10d._world.pg_map)
        if isinstance(group, RondeProcessGroup) and members.issuperset(dist.get_process_group_ranks(group))
    ]
