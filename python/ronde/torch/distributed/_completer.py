"""The thread that brings works to their end for which no thread waits: one for all groups of the job.

Works come from finalizers too, which run wherever the collector does: in the middle of any call of any thread, this
module's own included. So nobody who hands a work over takes a lock or waits: queues whose ``put`` may interrupt itself,
and a thread that is started without a look at whether it has begun.
"""

from __future__ import annotations

import _thread
import atexit
import collections
import functools
import queue
import threading
import time
import weakref
from ctypes import byref, c_size_t, c_void_p
from typing import TYPE_CHECKING, Any, List, Optional, Sequence, Set

from ronde._lib import library
from ronde._operation import in_forked_child
from ronde.torch.distributed._behind import complete

if TYPE_CHECKING:
    from ronde.torch.distributed._work import Work

#: How long a group's thread may take to end, in seconds.
_STOP_S = 2.0

#: Between two looks of the thread at what has come while it waits for works, in seconds.
_SHORTEST_LOOK_S, _LONGEST_LOOK_S = 0.0005, 0.004

#: All there are, to be stopped before the interpreter exits.
_completers: "weakref.WeakSet[Completer]" = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for completer in list(_completers):
        completer.stop()


@functools.lru_cache(maxsize=None)
def shared_by_groups() -> "Completer":
    """That of the groups within the job."""
    return Completer()


class Completer:
    """A thread for the groups of one engine that waits for works whose futures are out, or that were dropped, in whatever order they
    end. It drives the engine meanwhile, so that the reduction of one bucket goes on while the program computes the next.

    What the program has put behind a future runs on a thread of its own: it may wait for other works (PyTorch's PowerSGD
    does), which this thread has to bring to their end."""

    def __init__(self) -> None:
        #: Works to be taken; None wakes the thread for something else.
        self._now: "queue.SimpleQueue[Optional[Work]]" = queue.SimpleQueue()
        self._runs = _thread.allocate_lock()  # held while there is a thread
        self._thread_id = 0
        self._behind: Set[Any] = set()  # a lock for each thread that completes futures, held until it ends
        self._is_stopping = False
        self._groups = 0
        self._groups_lock = threading.Lock()  # never taken by who hands a work over
        self._ends_when_idle = False
        _completers.add(self)

    def stop(self) -> None:
        """Ends the thread. The interpreter would end it by force when it exits, and C++ on its stack ends the process then."""
        self._is_stopping = True
        self._now.put(None)
        if not in_forked_child() and _thread.get_ident() != self._thread_id:
            self._runs.acquire(timeout=_STOP_S)  # for good
            until = time.monotonic() + _STOP_S
            for lock in list(self._behind):
                lock.acquire(timeout=max(0.0, until - time.monotonic()))

    def begin_group(self) -> None:
        """Another group's works will come."""
        with self._groups_lock:
            self._groups += 1
            self._ends_when_idle = False

    def end_group(self) -> None:
        """A group has ended."""
        with self._groups_lock:
            self._groups -= 1
            is_last = self._groups == 0
        if is_last:
            self.end_when_idle()

    def end_when_idle(self) -> None:
        """No works will come any more: from now on the thread ends whenever it has nothing to do. It is not waited for."""
        self._ends_when_idle = True
        self._now.put(None)

    def runs(self) -> bool:
        """Whether there is a thread; it starts with the first work."""
        return self._runs.locked()

    def add(self, work: Work) -> None:
        """The thread brings the work to its end, unless another one has begun to."""
        self._now.put(work)
        self._start()

    def adopt(self, work: Work) -> bool:
        """The thread brings it to its end, with nobody else to see it. For finalizers. False at the interpreter's exit:
        it does not."""
        if self._is_stopping:
            return False
        self._now.put(work)
        try:
            self._start()
        except RuntimeError:  # no thread can be started now; the next work will try
            pass
        return True

    def _start(self) -> None:
        if not self._is_stopping and self._runs.acquire(blocking=False):
            try:
                # Not threading.Thread: its start() waits. Python's exit does not wait for it.
                _thread.start_new_thread(self._run, ())
            except RuntimeError:
                self._runs.release()
                raise

    def _run(self) -> None:
        self._thread_id = _thread.get_ident()
        while True:
            try:
                self._serve()
            finally:
                self._runs.release()
            # Whoever added something before that has not started another thread.
            if self._now.empty() or self._is_stopping or not self._runs.acquire(blocking=False):
                return

    def _serve(self) -> None:
        pending: List[Work] = []
        look = _SHORTEST_LOOK_S
        while not self._is_stopping:
            if self._ends_when_idle and not pending and self._now.empty():
                return
            come = self._take(wait=not pending)
            if come:
                look = _SHORTEST_LOOK_S
            pending += come
            come.clear()  # while it sleeps it must not keep what they have reduced
            if not pending:
                continue
            _wait_for_any(pending, look)
            triggers: List[Any] = []
            left = _settle_ended(pending, triggers)
            if triggers:
                self.complete(triggers)
                del triggers
            look = _SHORTEST_LOOK_S if len(left) < len(pending) else min(2 * look, _LONGEST_LOOK_S)
            pending = left

    def complete(self, triggers: List[Any]) -> None:
        """Completes these futures on a thread of its own. Does not wait for it."""
        lock = _thread.allocate_lock()
        lock.acquire()
        self._behind.add(lock)
        try:
            _thread.start_new_thread(self._complete, (triggers, lock))
        except RuntimeError:  # no thread can be started now
            self._complete(triggers, lock)

    def _complete(self, triggers: List[Any], lock: Any) -> None:
        try:
            for trigger in triggers:
                complete(trigger)
        finally:
            self._behind.discard(lock)
            lock.release()

    def _take(self, wait: bool) -> List[Work]:
        """Claims the works that have come. ``wait``: until there may be one."""
        new: List[Work] = []
        try:
            while True:
                work = self._now.get(wait)
                if work is not None and work._claim():
                    new.append(work)
                wait = False
        except queue.Empty:
            return new


def _wait_for_any(works: Sequence[Work], limit: float) -> None:
    tickets = (c_void_p * len(works))(*(work._operation.ticket for work in works if work._operation))
    index = c_size_t()
    library().ronde_wait_any(tickets, len(works), limit, byref(index))


def _settle_ended(works: Sequence[Work], triggers: List[Any]) -> List[Work]:
    """Brings those to their end that the engine has done with, but for their futures, which go to ``triggers``; the
    others."""
    left = []
    for work in works:
        operation = work._operation
        try:
            if operation is not None and not operation.done():
                left.append(work)
                continue
            work._settle(None, triggers.append)
        except BaseException as error:  # kept for who waits; the others are still to be settled
            work._fail(error, triggers.append)
    return left
