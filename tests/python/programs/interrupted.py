"""Rank 0 blocks in a collective that rank 1 never joins, until it gets SIGINT. Argument: which call blocks."""

import os
import signal
import sys
import threading
import time

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
    call = {
        "allreduce": lambda: hvd.allreduce(torch.ones(4), name="never"),
        "synchronize": lambda: hvd.synchronize(hvd.allreduce_async_(torch.ones(4), name="never")),
        "step": step,
        "barrier": hvd.barrier,
        "broadcast": lambda: hvd.broadcast(torch.ones(4), 1, name="never"),
        "allgather": lambda: hvd.allgather(torch.ones(4), name="never"),
        "shutdown": hvd.shutdown,
    }[sys.argv[1]]
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})  # for sigwait, however early it comes
    if hvd.rank() == 1:
        # Only sleeps: the other rank waits for it in vain, and ends it in the end.
        signal.sigwait({signal.SIGTERM})
        return
    sent = [0.0]

    def send() -> None:
        sent[0] = time.monotonic()
        os.kill(os.getpid(), signal.SIGINT)

    # From a thread, while this one is in C: well after the wait has begun to sleep.
    threading.Timer(0.7, send).start()
    try:
        call()
        print("returned")
    except KeyboardInterrupt:
        print(f"answered after {time.monotonic() - sent[0]:.4f} s", flush=True)
    os.kill(pids[1], signal.SIGTERM)


main()
