"""A rank that the kernel ends, whichever scheduler has placed it: who is named, and by when."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import Callable, List

import pytest

from left_behind import Traces
from ronde.exceptions import RankFailedError


def check_a_killed_rank(run: Callable[[], object], traces: Traces, soon_s: float) -> None:
    """``run`` starts two ranks that leave traces and wait. Rank 1 is killed when both have; its end is told within ``soon_s``
    seconds."""
    told: List[float] = []
    killing = threading.Thread(target=lambda: told.append(_kill(traces, 1)))
    killing.start()
    with pytest.raises(RankFailedError, match=r"^rank 1 of 2 \(\S+, pid \d+\) was killed by signal 9"):
        run()
    ended = time.monotonic()
    killing.join()
    assert ended - told[0] < soon_s
    traces.assert_nothing_is_left(2)


def _kill(traces: Traces, rank: int) -> float:
    for each in (0, 1):
        traces.pid_of(each)
    os.kill(traces.pid_of(rank), signal.SIGKILL)
    return time.monotonic()
