"""Many live groups at once: they share the job's address space, descriptors, threads and memory.

``RONDE_TEST_SOAK=1`` runs the tests at their full length.
"""

from __future__ import annotations

import os
import resource
from typing import Dict, List

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group
from launching import wait_until

SOAK = os.environ.get("RONDE_TEST_SOAK") == "1"

#: What a process may take for groups of two, each of which has reduced something small.
BYTES_A_GROUP = 256 << 10


def of_status(field: str) -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(field + ":"))


def taken() -> Dict[str, int]:
    """By this process: descriptors, threads, kilobytes of memory and of address space."""
    return {
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": of_status("Threads"),
        "memory": of_status("VmRSS"),
        "shared": of_status("RssShmem"),
        "addresses": of_status("VmSize"),
    }


@pytest.fixture
def few_descriptors():
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


def require_little(before: Dict[str, int], groups: int) -> None:
    # No thread for each group; but a call that Ctrl-C may end runs in one of its own, of which the kernel knows a little
    # longer than Python.
    wait_until(lambda: taken()["threads"] <= before["threads"] + 2, 10.0, f"threads end: {before}, {taken()}")
    after = taken()
    assert after["descriptors"] <= before["descriptors"] + 2, (before, after)
    assert after["memory"] - before["memory"] <= groups * BYTES_A_GROUP >> 10, (before, after)
    assert after["addresses"] - before["addresses"] <= (1 << 20) + (groups * BYTES_A_GROUP >> 10), (before, after)


@pytest.mark.ranks(2)
def test_groups_of_torch_live_together(hvd, rank, world, few_descriptors):
    """More than fitted into the address space when each had an engine of its own."""
    count = 1000 if SOAK else 300
    with default_group(rank, world):
        first = dist.new_group([0, 1])
        dist.all_reduce(torch.ones(2), group=first)
        dist.all_reduce(torch.ones(2), group=first, async_op=True).wait()
        before = taken()
        groups: List[dist.ProcessGroup] = [dist.new_group([0, 1]) for _ in range(count)]
        for number, group in enumerate(groups):
            tensor = torch.full((2,), float(number + rank))
            dist.all_reduce(tensor, group=group)
            assert tensor.tolist() == [2.0 * number + 1] * 2
        works = []
        tensors = [torch.full((3,), float(number * (rank + 1))) for number in range(count)]
        for tensor, group in zip(tensors, groups, strict=True):
            works.append(dist.all_reduce(tensor, group=group, async_op=True))
            works[-1].get_future()  # completed by a thread, which is not one of each group's
        for number, (tensor, work) in enumerate(zip(tensors, works, strict=True)):
            work.wait()
            assert tensor.tolist() == [3.0 * number] * 3
        require_little(before, count)
        for group in groups:
            dist.destroy_process_group(group)
