"""What training must not lose: saved in memory at each commit, restored after a failure, the same on all ranks after
each start."""

from __future__ import annotations

import copy
import queue
from typing import Any, Callable, Dict, Iterable, List, Tuple

from ronde.elastic.notification import HostUpdate
from ronde.exceptions import HostsUpdatedInterrupt

#: Gives every rank rank 0's object: ``broadcast_object`` of the framework.
Broadcast = Callable[[Any], Any]


class State:
    """Base of states: subclasses say what is saved, restored, made the same and made anew.

    Args:
        bcast_object: takes an object, returns rank 0's; collective.
        get_rank: this process's rank.

    Not safe for threads but for :meth:`on_hosts_updated`.
    """

    def __init__(self, bcast_object: Broadcast, get_rank: Callable[[], int]) -> None:
        self._bcast_object = bcast_object
        self._rank = get_rank
        self._news: "queue.SimpleQueue[Tuple[float, int]]" = queue.SimpleQueue()
        self._last_news = 0.0
        self._reset_callbacks: List[Callable[[], None]] = []

    def register_reset_callbacks(self, callbacks: Iterable[Callable[[], None]]) -> None:
        """The ``callbacks`` are called, in this order, each time the job has been joined anew: to scale the learning
        rate, say. Raises nothing."""
        self._reset_callbacks.extend(callbacks)

    def on_reset(self) -> None:
        """Called when the job has been joined anew: drops old news of hosts, calls :meth:`reset` and the callbacks.
        Raises what they do."""
        self._take_news()
        self.reset()
        for callback in self._reset_callbacks:
            callback()

    def on_hosts_updated(self, timestamp: float, update_res: int) -> None:
        """Notes that hosts have changed: :meth:`commit` and :meth:`check_host_updates` act on it. Any thread.

        Args:
            timestamp: in seconds; what is not later than the news before is none.
            update_res: what has happened, a :class:`HostUpdate`.

        Raises nothing.
        """
        self._news.put((timestamp, update_res))

    def commit(self) -> None:
        """Saves the state, then :meth:`check_host_updates`. Collective; not too often, since it copies all. Raises
        HostsUpdatedInterrupt, and CollectiveError if the exchange fails."""
        self.save()
        self.check_host_updates()

    def check_host_updates(self) -> None:
        """Raises HostsUpdatedInterrupt, on all ranks alike, if rank 0 has news of hosts. Collective: CollectiveError if
        the exchange fails."""
        what = self._bcast_object(self._take_news())
        if what != HostUpdate.none:
            raise HostsUpdatedInterrupt(skip_sync=what == HostUpdate.removed)

    def _take_news(self) -> int:
        """What has happened to the hosts since the last look, as far as this rank knows."""
        what = int(HostUpdate.none)
        while True:
            try:
                timestamp, update = self._news.get_nowait()
            except queue.Empty:
                return what
            if timestamp > self._last_news:
                self._last_news = timestamp
                what |= int(update)

    def save(self) -> None:
        """Keeps a copy in memory for :meth:`restore`. This rank only. Raises NotImplementedError unless a subclass
        defines it."""
        raise NotImplementedError

    def restore(self) -> None:
        """Goes back to what was saved last. This rank only. Raises NotImplementedError unless a subclass defines it."""
        raise NotImplementedError

    def sync(self) -> None:
        """Gives every rank rank 0's state as it is now, and saves it. Collective. Raises CollectiveError if the
        exchange fails, NotImplementedError unless a subclass defines it."""
        raise NotImplementedError

    def reset(self) -> None:
        """Makes anew what depends on the ranks of the job. Nothing, unless a subclass says otherwise. Raises nothing.
        """


class ObjectState(State):
    """A state of Python objects, which are copied deeply when they are saved and must be picklable.

    Args:
        bcast_object: takes an object, returns rank 0's; collective.
        get_rank: this process's rank.
        kwargs: become attributes, which the program changes as it goes.
    """

    def __init__(self, bcast_object: Broadcast, get_rank: Callable[[], int], **kwargs: Any) -> None:
        super().__init__(bcast_object, get_rank)
        self._names = list(kwargs)
        self._saved_state: Dict[str, Any] = {}
        self._set(kwargs)
        self._save_objects()

    def _set(self, values: Dict[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)

    def _save_objects(self) -> None:
        self._saved_state = copy.deepcopy({name: getattr(self, name) for name in self._names})

    def save(self) -> None:
        """As :meth:`State.save`. Raises what copying an object does."""
        self._save_objects()

    def restore(self) -> None:
        """As :meth:`State.restore`. Raises what copying an object does."""
        self._set(copy.deepcopy(self._saved_state))

    def sync(self) -> None:
        """As :meth:`State.sync`. Raises CollectiveError if the exchange fails."""
        values = self._bcast_object({name: getattr(self, name) for name in self._names})
        self._names = list(values)
        self._set(values)
        self._save_objects()
