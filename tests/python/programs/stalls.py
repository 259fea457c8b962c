"""Rank 1 waits for rank 0, which does not come until rank 1 has gone. Argument: how many steps come before."""

import sys
import time
from pathlib import Path

import torch

import ronde.torch as hvd


def main() -> None:
    steps, gone = int(sys.argv[1]), Path(sys.argv[2])
    torch.set_num_threads(1)
    hvd.init()
    for _ in range(steps):
        hvd.allreduce(torch.ones(4), name="x")
    if hvd.rank() == 0:
        until = time.monotonic() + 30
        while not gone.exists() and time.monotonic() < until:
            time.sleep(0.01)
        return
    try:
        hvd.allreduce(torch.ones(4), name="x")
    except hvd.HorovodInternalError as error:
        print(f"ended: {error}", flush=True)
        raise
    finally:
        gone.touch()


if __name__ == "__main__":
    main()
