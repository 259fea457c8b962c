"""A process that has loaded Ronde forks, and the child becomes the rank."""

import gc
import os
import sys
import threading

import torch

import ronde.torch as hvd
from ronde import _operation


def rank() -> None:
    torch.set_num_threads(1)
    hvd.init()
    for i in range(50):
        hvd.allreduce_async(torch.ones(1000), name=f"dropped.{i}")
    gc.collect()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == hvd.size()
    pause = threading.Event()
    for _ in range(1000):
        _operation.release_finished()
        if not _operation._under_way:
            break
        pause.wait(0.01)
    assert not _operation._under_way, _operation._under_way
    hvd.shutdown()
    print("nothing is left", flush=True)


child = os.fork()
if child == 0:
    rank()
    sys.exit(6)
_, status = os.waitpid(child, 0)
assert os.waitstatus_to_exitcode(status) == 6, status
