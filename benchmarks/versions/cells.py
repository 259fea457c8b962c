"""What one rank of a compared version measures: calls from Python by kind and size, and training steps.

A rank connects to compare.py (the address is in VERSIONS_ADDRESS) and then measures what it is told. Every cell is a
function that sets up its tensors and returns one iteration; an iteration ends with its results at hand.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
from multiprocessing.connection import Client
from pathlib import Path
from typing import Callable

import horovod.torch as hvd
import torch
import torch.distributed as dist
from torch import nn

sys.path.insert(0, str(Path(__file__).parents[1] / "peers"))
from works import resnet50  # noqa: E402

Iteration = Callable[[], object]

SIZES = {"8B": 2, "1K": 256, "16K": 4096, "64K": 16384, "256K": 65536, "1M": 1 << 18, "4M": 1 << 20, "16M": 1 << 22}
#: These by name only: the ways of calling differ by microseconds.
LARGE = {"64M": 1 << 24, "256M": 1 << 26}


def tensor(elements: int, shared: bool) -> torch.Tensor:
    return hvd.empty_shared(elements).fill_(1.0) if shared else torch.ones(elements)


def hvd_one(elements: int, name: str | None, shared: bool = False) -> Iteration:
    mine = tensor(elements, shared)
    return lambda: hvd.allreduce_(mine, op=hvd.Max, name=name)


def hvd_list(count: int, elements: int, shared: bool = False) -> Iteration:
    mine = [tensor(elements, shared) for _ in range(count)]

    def iteration() -> None:
        for handle in [hvd.allreduce_async_(one, op=hvd.Max) for one in mine]:
            hvd.synchronize(handle)

    return iteration


def hvd_gradients(elements: list[int], shared: bool = False) -> Iteration:
    """A model's gradients by name, all submitted, then waited for."""
    mine = [(f"gradient {number}", tensor(each, shared)) for number, each in enumerate(elements)]

    def iteration() -> None:
        for handle in [hvd.allreduce_async_(one, op=hvd.Max, name=name) for name, one in mine]:
            hvd.synchronize(handle)

    return iteration


def hvd_group(count: int, elements: int) -> Iteration:
    mine = [tensor(elements, False) for _ in range(count)]
    return lambda: hvd.grouped_allreduce_(mine, op=hvd.Max)


def dist_one(elements: int) -> Iteration:
    mine = tensor(elements, False)
    return lambda: dist.all_reduce(mine, op=dist.ReduceOp.MAX)


def dist_list(count: int, elements: int) -> Iteration:
    mine = [tensor(elements, False) for _ in range(count)]

    def iteration() -> None:
        for work in [dist.all_reduce(one, op=dist.ReduceOp.MAX, async_op=True) for one in mine]:
            work.wait()

    return iteration


def dist_other(operation: str, elements: int) -> Iteration:
    mine, all_ranks = torch.ones(elements), torch.ones(elements * dist.get_world_size())
    even = torch.ones(elements // dist.get_world_size() * dist.get_world_size())
    received = torch.empty_like(even)
    return {
        "broadcast": lambda: dist.broadcast(mine, 0),
        "all_gather": lambda: dist.all_gather_into_tensor(all_ranks, mine),
        "reduce_scatter": lambda: dist.reduce_scatter_tensor(mine, all_ranks, op=dist.ReduceOp.MAX),
        "all_to_all": lambda: dist.all_to_all_single(received, even),
    }[operation]


def hvd_other(operation: str, elements: int) -> Iteration:
    mine = torch.ones(elements)
    return {
        "broadcast": lambda: hvd.broadcast_(mine, 0),
        "allgather": lambda: hvd.allgather(mine),
        "reducescatter": lambda: hvd.reducescatter(mine, op=hvd.Max),
        "alltoall": lambda: hvd.alltoall(mine),
    }[operation]


def layers(depth: int, width: int) -> nn.Sequential:
    return nn.Sequential(*[layer for _ in range(depth) for layer in (nn.Linear(width, width), nn.ReLU())])


def step(depth: int, width: int, distributed: str) -> Iteration:
    """A training step: 2 * depth parameters."""
    torch.manual_seed(1)
    model: nn.Module = layers(depth, width)
    images = torch.randn(4, width)
    if distributed == "ddp":
        model = nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    if distributed == "hvd":
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

    def iteration() -> None:
        optimizer.zero_grad()
        model(images).square().mean().backward()
        optimizer.step()

    return iteration


def make_cells() -> dict[str, Callable[[], Iteration]]:
    cells: dict[str, Callable[[], Iteration]] = {}
    for size, n in SIZES.items():
        cells[f"hvd named {size}"] = lambda n=n, size=size: hvd_one(n, f"of {size}")
        cells[f"hvd unnamed {size}"] = lambda n=n: hvd_one(n, None)
        cells[f"hvd unnamed shared {size}"] = lambda n=n: hvd_one(n, None, shared=True)
        cells[f"dist all_reduce {size}"] = lambda n=n: dist_one(n)
    for size, n in LARGE.items():
        cells[f"hvd named {size}"] = lambda n=n, size=size: hvd_one(n, f"of {size}")
        cells[f"hvd named shared {size}"] = lambda n=n, size=size: hvd_one(n, f"shared of {size}", shared=True)
    cells["hvd resnet50"] = lambda: hvd_gradients(resnet50())
    cells["hvd resnet50 shared"] = lambda: hvd_gradients(resnet50(), shared=True)
    for size in ("1K", "256K", "4M"):
        for operation in ("broadcast", "all_gather", "reduce_scatter", "all_to_all"):
            cells[f"dist {operation} {size}"] = lambda o=operation, n=SIZES[size]: dist_other(o, n)
        for operation in ("broadcast", "allgather", "reducescatter", "alltoall"):
            cells[f"hvd {operation} {size}"] = lambda o=operation, n=SIZES[size]: hvd_other(o, n)
    for count, size in ((3, "1K"), (8, "1K"), (100, "1K"), (3000, "1K"), (3, "1M"), (8, "1M")):
        n = SIZES[size]
        cells[f"hvd list {count}x{size}"] = lambda c=count, n=n: hvd_list(c, n)
        cells[f"hvd list shared {count}x{size}"] = lambda c=count, n=n: hvd_list(c, n, shared=True)
        cells[f"dist list {count}x{size}"] = lambda c=count, n=n: dist_list(c, n)
    cells["hvd group 8x1K"] = lambda: hvd_group(8, SIZES["1K"])
    cells["hvd group 8x1M"] = lambda: hvd_group(8, SIZES["1M"])
    cells["hvd barrier"] = lambda: hvd.barrier
    cells["dist barrier"] = lambda: dist.barrier
    for distributed in ("ddp", "hvd"):
        cells[f"step {distributed} 6 x 4 MiB"] = lambda d=distributed: step(3, 1024, d)
        cells[f"step {distributed} 100 x 16 KiB"] = lambda d=distributed: step(50, 64, d)
    return cells


def measure(iteration: Iteration, count: int) -> float:
    """The median of `count` iterations, in seconds."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        iteration()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def stay_on_a_core(rank: int, ranks: int) -> None:
    """The calling thread, as MPI's launchers place ranks, if there is a core for each: the kernel often leaves two ranks
    on one for minutes, where a call takes ten times as long."""
    cores = sorted(os.sched_getaffinity(0))
    if ranks <= len(cores):
        os.sched_setaffinity(0, {cores[rank]})


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    dist.init_process_group("ronde")
    stay_on_a_core(hvd.local_rank(), hvd.local_size())
    cells = make_cells()
    driver = Client(os.environ["VERSIONS_ADDRESS"], family="AF_UNIX", authkey=os.environ["VERSIONS_KEY"].encode())
    driver.send(("rank", os.environ["VERSIONS_WHICH"], hvd.rank(), list(cells)))
    current, iteration = None, None
    while (told := driver.recv()) is not None:
        name, count = told
        if name != current:
            iteration = None  # its memory goes before the next cell's comes
            current, iteration = name, cells[name]()
        driver.send(measure(iteration, count))
    dist.destroy_process_group()
    hvd.shutdown()


if __name__ == "__main__":
    main()
