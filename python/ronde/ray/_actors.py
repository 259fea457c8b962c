"""What runs in Ray's processes: a rank, and who looks after the ranks of a node."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Tuple, Union

from ronde._schedulers.failures import Failure, failure_of
from ronde._schedulers.places import Place, Reservation, Seat, own_place, refuse_a_rank
from ronde.ray._exit_status import WatchedProcess

#: How long Ray may take to note that a process has ended, in seconds: Linux tells how only then.
_REAPED_S = 5.0


class Rank:
    """An actor whose process is a rank. Its methods are called one after the other, in the process's main thread."""

    def __init__(self) -> None:
        self._reservation: Optional[Reservation] = None
        self._seat: Optional[Seat] = None
        self._host = ""
        self._executable: Any = None

    def __repr__(self) -> str:  # Ray puts it before each line that the process prints
        return "rank" if self._seat is None else f"rank {self._seat.rank}"

    def place(self) -> Tuple[Place, str]:
        """Where it is, and the id of Ray's node."""
        import ray

        refuse_a_rank("placing a rank (something has initialised Ronde before its function was called)")
        place = own_place(ray.util.get_node_ip_address(), [str(each) for each in ray.get_gpu_ids()])
        self._host = place.host
        return place, str(ray.get_runtime_context().get_node_id())

    def reserve(self, port_range: Optional[str]) -> Tuple[int, int]:
        """Rank 0's: the ports of its :class:`Reservation`, which is kept as long as the process."""
        self._reservation = Reservation(port_range)
        return self._reservation.ports

    def sit(self, seat: Seat, variables: Mapping[str, str]) -> None:
        """Becomes that rank, and the leader of a process group, which :class:`Witness` ends with it."""
        self._seat = seat
        _lead_a_group()
        os.environ.update(variables)

    def make(self, kind: Optional[Callable[..., Any]], args: Sequence[Any], kwargs: Mapping[str, Any]) -> Optional[Failure]:
        """Makes the object that functions of :meth:`execute` get."""

        def made() -> None:
            self._executable = kind(*args, **kwargs) if kind is not None else None

        outcome = self._outcome_of(made)
        return outcome if isinstance(outcome, Failure) else None

    def call(self, call: Tuple[Callable[..., Any], Tuple[Any, ...], Dict[str, Any]]) -> Union[Failure, Tuple[Any]]:
        """What the function returns, in a tuple, or why it does not."""
        function, args, kwargs = call
        return self._outcome_of(lambda: function(*args, **kwargs))

    def execute(self, function: Callable[[Any], Any]) -> Union[Failure, Tuple[Any]]:
        """The same of a function of the object that :meth:`make` has made."""
        return self._outcome_of(lambda: function(self._executable))

    def call_remote(self, call: Tuple[Callable[..., Any], Tuple[Any, ...], Dict[str, Any]]) -> Any:
        """What the function returns; what it raises, Ray raises where the reference is asked."""
        function, args, kwargs = call
        try:
            return function(*args, **kwargs)
        except BaseException:
            self.leave()  # nobody ends the others, which may wait for this one: so they are told that it does not come
            raise

    def leave(self) -> None:
        """Leaves the job, if the function has not. Collective with a limit of 10 s; raises nothing."""
        import sys

        if "ronde._process" not in sys.modules:
            return
        from ronde import _job

        try:
            _job.shutdown()
        except Exception:  # the process is about to end in any case
            pass

    def _outcome_of(self, call: Callable[[], Any]) -> Union[Failure, Tuple[Any]]:
        seat = self._seat
        assert seat is not None
        try:
            return (call(),)
        except BaseException as error:  # sys.exit() too: Ray would take it for the actor's orderly end
            return failure_of(error, seat.rank, seat.size, self._host, os.getpid())


class Witness:
    """An actor for each node that has ranks. It tells that a rank's process has ended, and how.

    Ray tells the former when the rank's connection is closed. A child that the rank has forked holds it open, so Ray's word may
    come when the last child has ended. The witness ends the children: those in the rank's process group.
    """

    def __init__(self) -> None:
        self._watched: Dict[int, WatchedProcess] = {}
        self._ended: List[int] = []
        self._changed = threading.Condition()

    def watch(self, pids: Sequence[int]) -> None:
        """From now on. Where the kernel cannot, or a process has ended meanwhile, less will be known."""
        _lead_a_group()
        for pid in pids:
            try:
                self._watched[pid] = WatchedProcess(pid)
            except (OSError, AttributeError):  # Python 3.9 has had pidfd_open, some builds of it have not
                continue
            threading.Thread(target=self._follow, args=(pid,), name=f"ronde-witness-{pid}", daemon=True).start()
        threading.Thread(target=self._follow_node, name="ronde-witness-node", daemon=True).start()

    def _follow(self, pid: int) -> None:
        self._watched[pid].has_ended(None)  # a rank may take days
        _end_group(pid)
        with self._changed:
            self._ended.append(pid)
            self._changed.notify_all()

    def _follow_node(self) -> None:
        """When Ray's own process of the node ends, whatever its cause, so does this one in a moment: ends the ranks before."""
        node = os.getppid()
        try:
            if Path(f"/proc/{node}/comm").read_text(encoding="ascii").strip() != "raylet":
                return  # something between, whose end means nothing
            raylet = WatchedProcess(node)
        except (OSError, AttributeError):
            return
        raylet.has_ended(None)
        for pid in list(self._watched):
            _end_group(pid)

    def next_end(self, known: Sequence[int]) -> List[int]:
        """All that have ended. Waits, for as long as it takes, until one has that the caller does not know."""
        with self._changed:
            self._changed.wait_for(lambda: bool(set(self._ended) - set(known)))
            return list(self._ended)

    def status(self, pid: int, limit_s: float) -> Optional[int]:
        """How a process has ended, as :meth:`WatchedProcess.status`; None if that is not known within so many seconds."""
        with self._changed:
            if pid not in self._watched or not self._changed.wait_for(lambda: pid in self._ended, limit_s):
                return None
        return self._watched[pid].status_soon(_REAPED_S)

    def lingering(self, limit_s: float) -> List[int]:
        """The processes that have not ended within so many seconds."""
        with self._changed:
            self._changed.wait_for(lambda: set(self._watched) <= set(self._ended), limit_s)
            return [pid for pid in self._watched if pid not in self._ended]


def _lead_a_group() -> None:
    """Children of this process are in a process group of their own, as this process is; a group that ends with the program that
    has begun Ray is left."""
    if os.getpgrp() != os.getpid():
        os.setpgid(0, 0)


def _end_group(pid: int) -> None:
    """Kills a rank and its children: only a rank has made a group of its own number."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
