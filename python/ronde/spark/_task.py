"""A task's side: finds the other tasks, starts this task's rank as a process of its own, and waits for it.

The process is the task's child, so that the kernel says how it ended; and Spark's own process, which it uses for other tasks
later, never loads what the function needs.
"""

from __future__ import annotations

import base64
import json
import re
import threading
from dataclasses import asdict, dataclass
from typing import Any, Dict, Iterator, List, Optional, Tuple

from ronde._schedulers.failures import CONSEQUENCE_GRACE_S, Failure
from ronde._schedulers.places import Place, Reservation, environment_of, new_key, own_place, seats_of
from ronde.exceptions import RondeError
from ronde.spark._rank_process import RankProcess

_MARK = "ronde-failure:"


class _RankHasFailed(RondeError):
    """Ends the task, and so the stage. Spark hands on its text only."""


@dataclass(frozen=True)
class Order:
    """What every task is to do.

    Attributes:
        call: the function and its arguments, pickled.
        ranks: of the job.
        variables: the user's, for the ranks.
        executable: the Python of the ranks; None: the task's.
    """

    call: bytes
    ranks: int
    variables: Dict[str, str]
    executable: Optional[str]

    def fill(self, index: int, _: Iterator[Any]) -> Iterator[Tuple[int, bytes]]:
        """The rank of task ``index``, and its result, pickled. Raises what ends the stage."""
        from pyspark import BarrierTaskContext

        context = BarrierTaskContext.get()
        places = _places(context, index)
        seat = seats_of(places)[index]
        reservation = Reservation(self.variables.get("RONDE_PORT_RANGE")) if seat.rank == 0 else None
        try:
            ports, key = _meeting(context, reservation)
            variables = environment_of(index, places, ports, key, self.variables)
            with RankProcess(self.call, variables, self.executable, seat, places[index].host) as process:
                outcome = process.outcome()
        finally:
            if reservation is not None:
                reservation.close()
        if isinstance(outcome, Failure):
            if outcome.follows:
                # The rank that has failed first is another: its task ends the stage, and with it this one, within this time.
                threading.Event().wait(CONSEQUENCE_GRACE_S)
            raise _RankHasFailed(f"{outcome.sentence()}\n{_MARK}{_written(outcome)}")
        yield seat.rank, outcome


def _places(context: Any, index: int) -> List[Place]:
    """Those of all tasks, by their index, through Spark's driver."""
    address = context.getTaskInfos()[index].address.rpartition(":")[0].strip("[]")
    devices = context.resources()["gpu"].addresses if "gpu" in (context.resources() or {}) else ()
    told = [json.loads(text) for text in context.allGather(json.dumps(own_place(address, devices)))]
    return [Place(host, network, at, pid, tuple(gpus)) for host, network, at, pid, gpus in told]


def _meeting(context: Any, reservation: Optional[Reservation]) -> Tuple[Tuple[int, int], str]:
    """Rank 0's ports and the job's key. It draws the key here, not the driver: so it is neither in the task's closure, which
    Spark may write to a disk, nor in a log."""
    own = "" if reservation is None else json.dumps([*reservation.ports, new_key()])
    store, master, key = json.loads("".join(context.allGather(own)))
    return (store, master), key


def _written(failure: Failure) -> str:
    fields = asdict(failure)
    fields["exception"] = base64.b64encode(failure.exception).decode() if failure.exception else None
    return base64.b64encode(json.dumps(fields).encode()).decode()


def failure_in(text: str) -> Optional[Failure]:
    """What a task has told in the text of its error; None if none has."""
    for found in re.finditer(re.escape(_MARK) + r"([A-Za-z0-9+/=]+)", text):
        try:
            fields = json.loads(base64.b64decode(found[1]))
            fields["exception"] = base64.b64decode(fields["exception"]) if fields["exception"] else None
            return Failure(**fields)
        except (ValueError, TypeError, KeyError):  # the words of the function's own error, which come before
            continue
    return None
