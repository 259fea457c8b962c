"""Rank 1 ends before the others, in the way that the argument says; their calls fail."""

import os
import sys
import time
from pathlib import Path

import numpy as np

import ronde.numpy as hvd

hvd.init()
how = sys.argv[1]
pids = hvd.allgather_object(os.getpid())


def wait_until_gone(*others: int) -> None:
    until = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in others):
        assert time.monotonic() < until
        time.sleep(0.01)


for step in range(5):
    if step == 3 and hvd.rank() == 1:
        if how == "exception":
            raise KeyError("the script's own error")
        if how == "shut down first":
            hvd.shutdown()
            wait_until_gone(pids[0], pids[2])  # the others' processes end before this one
            sys.exit(3)
        if how == "hard":
            os._exit(3)
        sys.exit(int(how))
    hvd.allreduce(np.ones(10), name=f"step {step}")
