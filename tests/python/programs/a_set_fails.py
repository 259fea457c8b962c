"""One process set fails by a time-out, with all ranks alive; then the job shares memory and trains as before."""

import os
import signal
import sys
import time
from pathlib import Path

import torch

import ronde.torch as hvd
from ronde import _shared_buffer
from ronde.exceptions import RondeError


def train(optimizer: torch.optim.Optimizer, parameters: "list[torch.nn.Parameter]") -> None:
    for _ in range(4):
        optimizer.zero_grad()
        sum((parameter * (hvd.rank() + 1.0)).sum() for parameter in parameters).backward()
        optimizer.step()
        assert all(bool((parameter.grad == (hvd.size() + 1) / 2).all()) for parameter in parameters)
        assert all(_shared_buffer.holds(parameter.grad.data_ptr()) for parameter in parameters)


def make_fail(failing: hvd.ProcessSet, note: Path) -> None:
    """The last rank stops. `note` is written once the others' call in the set has ended."""
    tensor = hvd.empty_shared(100_000)
    processes = hvd.allgather_object(os.getpid())
    if failing.included():
        for _ in range(10):
            hvd.allreduce_(tensor, name="x", process_set=failing)
    if hvd.rank() == failing.ranks[-1]:
        os.kill(os.getpid(), signal.SIGSTOP)
    elif hvd.rank() == failing.ranks[0]:
        try:
            hvd.allreduce_(tensor, name="x", process_set=failing)
            raise AssertionError("a rank is stopped")
        except RondeError as error:
            print("ended:", error, flush=True)
        note.touch()
        os.kill(processes[failing.ranks[-1]], signal.SIGCONT)
    else:
        until = time.monotonic() + 60
        while not note.exists():
            assert time.monotonic() < until, "the call in the set has not ended"
            time.sleep(0.01)


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    failing = hvd.add_process_set([0, hvd.size() - 1])
    parameters = [torch.nn.Parameter(torch.ones(count)) for count in (1000, 100_000)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.1))
    make_fail(failing, Path(sys.argv[1]))
    shared = hvd.empty_shared(1000)
    assert _shared_buffer.holds(shared.data_ptr())
    train(optimizer, parameters)
    hvd.remove_process_set(failing)
    others = [torch.nn.Parameter(torch.ones(count)) for count in (10, 200_000)]
    train(hvd.DistributedOptimizer(torch.optim.SGD(others, lr=0.1)), others)
    print("trained", flush=True)


main()
