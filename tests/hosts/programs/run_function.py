"""`horovod.run` on the hosts that are given: a function with its arguments there, results and an exception back."""

import sys

import horovod


def place(count: int, factor: float) -> tuple:
    import socket

    import torch

    import horovod.torch as hvd

    hvd.init()
    total = hvd.allreduce(torch.full((count,), float(hvd.rank())), op=hvd.Sum)
    return hvd.rank(), hvd.local_rank(), socket.gethostname(), factor * float(total[count - 1])


def fail_on_last() -> None:
    import os

    if os.environ["HOROVOD_RANK"] == "2":
        raise KeyError("the cause")


print(horovod.run(place, (3,), {"factor": 2.0}, num_proc=3, hosts=sys.argv[1]))
try:
    horovod.run(fail_on_last, num_proc=3, hosts=sys.argv[1])
except RuntimeError as error:
    print("KeyError: 'the cause'" in str(error), str(error).partition("\n")[0])
