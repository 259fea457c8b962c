"""How states learn that the hosts of the job have changed."""

from __future__ import annotations

import enum
import threading
from typing import List, Protocol


class HostUpdate(enum.IntFlag):
    """What has happened to the hosts: ``none``, some ``removed``, some ``added``, or both (``mixed``)."""

    none = 0
    removed = 1
    added = 2
    mixed = 3


class Listener(Protocol):
    """Who wants to know."""

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Called from any thread with the arguments of ``handle_hosts_updated``, ``timestamp`` and ``update_res``; must
        not block."""


class NotificationManager:
    """Passes news of hosts on to the states that are being trained. Nothing tells it by itself so far: whoever learns
    of a change calls :meth:`handle_hosts_updated` on rank 0. All methods may be called from any thread."""

    def __init__(self) -> None:
        self._listeners: List[Listener] = []
        self._lock = threading.Lock()

    def init(self) -> None:
        """For symmetry with Horovod's; there is nothing to start. Raises nothing."""

    def register_listener(self, listener: Listener) -> None:
        """``listener`` is told from now on. Raises nothing."""
        with self._lock:
            self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """``listener`` is told no more. Does nothing if it never was. Raises nothing."""
        with self._lock:
            self._listeners = [other for other in self._listeners if other is not listener]

    def handle_hosts_updated(self, timestamp: float, update_res: int = HostUpdate.mixed) -> None:
        """Tells all listeners.

        Args:
            timestamp: in seconds, later than the one before, or it is no news.
            update_res: what has happened, a :class:`HostUpdate`.

        Raises what a listener does.
        """
        with self._lock:
            listeners = list(self._listeners)
        for listener in listeners:
            listener.on_hosts_updated(timestamp, update_res)


#: The one of this process.
notification_manager = NotificationManager()
