"""Rank 0 blocks in collectives that rank 1 never joins, each until it gets SIGINT. Arguments: which calls block."""

import os
import signal
import sys
import threading
import time
from typing import Callable

import torch

import ronde.torch as hvd


def step() -> None:
    """Waits for gradients in shared memory."""
    parameter = torch.nn.Parameter(torch.ones(4))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1))
    parameter.sum().backward()
    optimizer.step()


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    pids = hvd.allgather_object(os.getpid())
    calls = {
        "allreduce": lambda: hvd.allreduce(torch.ones(4), name="never"),
        "synchronize": lambda: hvd.synchronize(hvd.allreduce_async_(torch.ones(4), name="never, too")),
        "step": step,
        "barrier": hvd.barrier,
        "broadcast": lambda: hvd.broadcast(torch.ones(4), 1, name="never"),
        "allgather": lambda: hvd.allgather(torch.ones(4), name="never"),
        "shutdown": hvd.shutdown,
    }
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for sigwait, however early it comes
    if hvd.rank() == 1:
        # Only sleeps: the other rank waits for it in vain, and ends it in the end.
        signal.sigwait({signal.SIGTERM})
        return
    for name in sys.argv[1:]:
        interrupt(name, calls[name])
    os.kill(pids[1], signal.SIGTERM)


def interrupt(name: str, call: Callable[[], object]) -> None:
    sent = [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    # From a thread, while this one is in C: well after the wait has begun to sleep.
    threading.Timer(0.7, send).start()
    try:
        call()
        print(f"returned: {name}", flush=True)
    except KeyboardInterrupt:
        print(f"answered after {time.monotonic() - sent[0]:.4f} s: {name}", flush=True)


main()
