"""Calls whose works nobody waits for: they cost nothing lasting, and what comes after is as fast as before.

``RONDE_TEST_SOAK=1``: a hundred thousand of them.
"""

from __future__ import annotations

import os
import statistics
import time

import pytest
import torch
import torch.distributed as dist

import ronde.torch as ronde_torch
from distributed_group import default_group
from launching import wait_until

SOAK = os.environ.get("RONDE_TEST_SOAK") == "1"
COUNT = 100_000 if SOAK else 6_000
#: Works that may be under way at once.
TOGETHER = 50


def private_kib() -> int:
    """Memory of this process that no other shares."""
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("RssAnon:"))


def latency(call) -> float:
    """Of a call that is waited for, in seconds: the median of some."""
    times = []
    for _ in range(300):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    return statistics.median(times)


def drop_many(begin, all_are_done, call) -> None:
    """Makes the calls, and looks at what they leave."""
    for _ in range(COUNT // 3 // TOGETHER):
        for _ in range(TOGETHER):
            begin()
        all_are_done()
    before, fast = private_kib(), latency(call)
    for _ in range(2 * COUNT // 3 // TOGETHER):
        for _ in range(TOGETHER):
            begin()
        all_are_done()
    # It was 2.4 KiB a call. Allocators and the table of what is planned, with a place in it for each of TOGETHER calls,
    # take some for good: with four ranks 8.6 MiB, whether 4,000 calls are made or 24,000.
    most = 8192 + COUNT // 10 + 1024 * max(0, ronde_torch.size() - 3)
    assert private_kib() - before <= most, f"KiB before: {before}, now {private_kib()}"
    if SOAK:  # other work on the machine, and plans that are made anew, slow some calls down, and not for good
        wait_until(lambda: everywhere(latency(call) <= 3 * fast + 20e-6), 60, f"latency below 3 times {fast} s")


def everywhere(is_so: bool) -> bool:
    """Whether it is so on each rank, so that all stop asking together."""
    return bool(ronde_torch.allreduce(torch.tensor(is_so), op=ronde_torch.Min, name="everywhere"))


@pytest.mark.ranks(2, 3, deadline=600 if SOAK else 180)
@pytest.mark.parametrize("waits", ["never", "last", "rank 0"])
def test_works_of_torch(hvd, rank, world, waits):
    with default_group(rank, world):
        last = []

        def begin():
            last[:] = [dist.all_reduce(torch.full((1,), float(rank)), async_op=True)]
            if waits == "rank 0" and rank == 0:
                last[0].wait()

        def all_are_done():
            if waits == "last":
                last[0].wait()
            dist.barrier()

        def call():
            tensor = torch.full((1,), float(rank))
            dist.all_reduce(tensor)
            assert tensor.item() == world * (world - 1) / 2

        drop_many(begin, all_are_done, call)


@pytest.mark.ranks(2, 3, deadline=600 if SOAK else 180)
def test_handles_of_hvd(hvd, rank, world):
    def begin():
        hvd.allreduce_async(torch.full((1,), float(rank)), op=hvd.Sum)

    def call():
        assert hvd.allreduce(torch.full((1,), float(rank)), op=hvd.Sum).item() == world * (world - 1) / 2

    drop_many(begin, hvd.barrier, call)
