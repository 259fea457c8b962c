"""Rank 1 ends before the others, in the way that the argument says; their calls fail."""

import os
import sys
import time

import torch

import ronde.torch as hvd

hvd.init()
torch.set_num_threads(1)
how = sys.argv[1]
for step in range(5):
    if step == 3 and hvd.rank() == 1:
        if how == "exception":
            raise KeyError("the script's own error")
        if how == "shut down first":
            hvd.shutdown()
            time.sleep(0.5)  # the others' processes end before this one
            sys.exit(3)
        if how == "hard":
            os._exit(3)
        sys.exit(int(how))
    hvd.allreduce(torch.ones(10), name=f"step {step}")
