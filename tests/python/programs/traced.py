"""All-reduces for ever, by names of their own and by names that come back, until the test kills a rank."""

import os

import torch

import ronde.torch as hvd


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    print(f"pid {hvd.rank()} {os.getpid()}", flush=True)
    step = 0
    try:
        while True:
            hvd.allreduce(torch.ones(4), name=f"step.{step % 1000}")
            hvd.allreduce(torch.ones(100), name="gradient")
            step += 1
    except hvd.HorovodInternalError:
        hvd.shutdown()


if __name__ == "__main__":
    main()
