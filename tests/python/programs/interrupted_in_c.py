"""Rank 0 is alone in a blocking call; the test's SIGINT comes from outside, at any moment."""

import os
import signal
import sys
import time

import torch

import ronde.torch as hvd


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1] == "init":
        if os.environ["RONDE_RANK"] == "1":
            print("apart", flush=True)
            signal.sigwait({signal.SIGTERM, signal.SIGINT})
            return
        call = hvd.init
    else:
        hvd.init()
        if hvd.rank() == 1:
            signal.sigwait({signal.SIGTERM, signal.SIGINT})
            return
        call = lambda: hvd.allreduce(torch.ones(4), name="never")  # noqa: E731
    print(f"blocking {os.getpid()}", flush=True)
    try:
        call()
    except KeyboardInterrupt:
        print(f"answered at {time.time()}", flush=True)


main()
