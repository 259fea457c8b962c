"""Process groups within ``torch.distributed.algorithms.join.Join``, of which DDP's ``join()`` is one.

There a rank that has run out of data makes the calls that the others make in their backward passes: outside of such a
pass, and waiting for them at other moments. So neither can be part of a call's name; a group names its calls by their
order while it is in such a block, which every rank enters and leaves between the same two calls.
"""

from __future__ import annotations

import functools
from typing import Any

from torch.distributed.algorithms.join import Join

from ronde.torch.distributed._group import RondeProcessGroup


def order_calls_in_join() -> None:
    """For all blocks from now on. Again: does nothing."""
    if hasattr(Join.__enter__, "__wrapped__"):
        return
    enter, leave = Join.__enter__, Join.__exit__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        group = _group_of(self)
        if group is not None:
            group.begin_ordered()
        return enter(self)  # type: ignore[no-untyped-call] # not typed in PyTorch

    @functools.wraps(leave)
    def left(self: Any, *exception: Any) -> Any:
        try:
            return leave(self, *exception)
        finally:
            group = _group_of(self)
            if group is not None:
                group.end_ordered()

    Join.__enter__, Join.__exit__ = entered, left  # type: ignore[method-assign] # that is the point


def _group_of(join: Any) -> Any:
    """The group of a block that does anything, if it is one of Ronde's."""
    return join._process_group if join._enable and isinstance(join._process_group, RondeProcessGroup) else None
