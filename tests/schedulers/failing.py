"""Functions of ranks that fail, or wait for one that does. Each rank leaves first in a folder what must be gone afterwards."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path
from typing import Any

#: No rank waits for so long: it is ended before, or the test has failed.
LIMIT_S = 120.0


class Refused(Exception):
    """An error whose class can be made from its text only with another argument: it cannot be pickled."""

    def __init__(self, text: str, number: int) -> None:
        super().__init__(text)
        self.number = number


def leave_traces(folder: str) -> Any:
    """Joins the job; leaves a file ``RANK`` with the process and the job's ports. Returns ``ronde.numpy``."""
    import ronde.numpy as hvd

    hvd.init()
    text = f"{os.getpid()} {os.environ['RONDE_STORE'].rpartition(':')[2]} {os.environ['MASTER_PORT']}"
    unfinished = Path(folder) / f"{hvd.rank()}.part"
    unfinished.write_text(text, encoding="ascii")
    unfinished.rename(Path(folder) / str(hvd.rank()))
    return hvd


def wait_in_allreduce(folder: str) -> None:
    """Rank 1 never comes."""
    import numpy as np

    hvd = leave_traces(folder)
    if hvd.rank() == 1:
        threading.Event().wait(LIMIT_S)
    hvd.allreduce(np.ones(1000), name="waits")


def wait_alone(folder: str) -> None:
    """No rank asks anything of another."""
    leave_traces(folder)
    threading.Event().wait(LIMIT_S)


def raise_on_1(folder: str) -> None:
    """While the others wait for it in an all-reduce."""
    import numpy as np

    hvd = leave_traces(folder)
    if hvd.rank() == 1:
        raise KeyError("the cause")
    hvd.allreduce(np.ones(1000), name="waits")


def raise_on_1_while_others_are_busy(folder: str) -> None:
    """With something that has nothing to do with it."""
    hvd = leave_traces(folder)
    if hvd.rank() == 1:
        raise Refused("no", 3)
    threading.Event().wait(LIMIT_S)


def kill_1(folder: str) -> None:
    """Rank 1's process ends without a word."""
    import numpy as np

    hvd = leave_traces(folder)
    if hvd.rank() == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    hvd.allreduce(np.ones(1000), name="waits")


def exit_on_1(folder: str) -> None:
    """Rank 1's process ends by itself."""
    if leave_traces(folder).rank() == 1:
        os._exit(7)
    threading.Event().wait(LIMIT_S)


def fork_and_return(folder: str, sessions: bool) -> str:
    """A child of each rank's, which would outlive it."""
    leave_traces(folder)
    _leave_a_child(folder, sessions)
    return "returned"


def fork_and_raise_on_1(folder: str, sessions: bool) -> None:
    """Rank 1, once each rank has a child; the others are busy."""
    _fork_and_meet(folder, sessions)
    raise KeyError("the cause")


def fork_and_kill_1(folder: str, sessions: bool) -> None:
    """The same without a word. The child has the rank's descriptors, connections too."""
    _fork_and_meet(folder, sessions)
    os.kill(os.getpid(), signal.SIGKILL)


def _fork_and_meet(folder: str, sessions: bool) -> None:
    """Returns on rank 1 alone."""
    hvd = leave_traces(folder)
    _leave_a_child(folder, sessions)
    hvd.barrier()
    if hvd.rank() != 1:
        threading.Event().wait(LIMIT_S)


def _leave_a_child(folder: str, sessions: bool) -> None:
    """``sessions``: with a session of its own, so that no signal to the rank's group reaches it."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        if sessions:
            os.setsid()
        os.write(writing, b"x")
        threading.Event().wait(LIMIT_S)
        os._exit(0)
    os.read(reading, 1)
    (Path(folder) / f"child.{child}").write_text(str(child), encoding="ascii")
