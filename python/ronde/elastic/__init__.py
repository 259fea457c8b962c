"""Training that survives what goes wrong, without a framework: state that is saved, restored and made the same on all
ranks, and the loop that starts again. ``ronde.torch.elastic`` is what scripts use.

``notification_manager`` is the :class:`NotificationManager` of this process.
"""

from __future__ import annotations

from ronde.elastic.notification import HostUpdate, NotificationManager, notification_manager
from ronde.elastic.run import run_fn
from ronde.elastic.state import ObjectState, State

__all__ = [
    "HostUpdate",
    "NotificationManager",
    "ObjectState",
    "State",
    "notification_manager",
    "run_fn",
]
