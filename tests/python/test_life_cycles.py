"""Joining and leaving a hundred times in one process: everything works each time, and nothing piles up.

``RONDE_TEST_SOAK=1``: a thousand times.
"""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Dict

import pytest
import torch
import torch.distributed as dist

from launching import wait_until

CYCLES = 1000 if os.environ.get("RONDE_TEST_SOAK") == "1" else 100
#: After so many, all that is made once has been made.
WARM = 20


def holdings() -> Dict[str, int]:
    """What this process holds of what a job takes."""
    gc.collect()
    mappings = Path("/proc/self/maps").read_text(encoding="utf-8").splitlines()
    return {
        "threads": len(os.listdir("/proc/self/task")),
        "descriptors": len(os.listdir("/proc/self/fd")) - 1,  # that of this look
        "mappings": len(mappings),
        "shared mappings": sum(line.split()[1].endswith("s") for line in mappings),
    }


def one_life(hvd, cycle, kept):
    """From init to shutdown; what is used in it differs from cycle to cycle."""
    rank, size = hvd.rank(), hvd.size()
    total = size * (size + 1) / 2
    assert hvd.allreduce(torch.full((5,), rank + 1.0), op=hvd.Sum).tolist() == [total] * 5
    if cycle % 2 == 0:
        last = hvd.add_process_set([size - 1])
        if last.included():
            assert hvd.allreduce(torch.ones(3), op=hvd.Sum, process_set=last).tolist() == [1.0] * 3
        if cycle % 4 == 0:  # else it ends with the job
            assert hvd.remove_process_set(last) is True
    model, optimizer = kept
    if cycle % 3 == 0:  # one that was made for another job
        optimizer.zero_grad()
        model(torch.full((2, 8), rank + 1.0)).sum().backward()
        optimizer.step()
        assert model.weight.grad.tolist() == [[total / size * 2] * 8] * 4
    if cycle % 5 == 0:
        fresh = torch.nn.Linear(300, 100)
        mine = hvd.DistributedOptimizer(torch.optim.SGD(fresh.parameters(), lr=0.1), groups=cycle % 2)
        fresh(torch.full((1, 300), rank + 1.0)).sum().backward()
        mine.step()
        assert fresh.bias.grad.tolist() == [1.0] * 100
    if cycle % 7 == 0:
        handle = hvd.allreduce_async(torch.ones(100_000), name="nobody waits for it")
        assert handle.name is not None
        hvd.barrier()


@pytest.mark.ranks(2, 3, fresh=True, long=(3,))
def test_many_lives(hvd):
    model = torch.nn.Linear(8, 4)
    kept = model, hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    warm: Dict[str, int] = {}
    for cycle in range(CYCLES):
        one_life(hvd, cycle, kept)
        hvd.shutdown()
        if cycle == WARM:
            warm = holdings()
        if cycle < CYCLES - 1:
            hvd.init()
    # A thread that was waited for may take a moment to be gone from the kernel's list.
    wait_until(lambda: holdings()["threads"] <= warm["threads"], 5, f"as many threads as {warm}")
    after = holdings()
    assert after["descriptors"] <= warm["descriptors"], f"{warm}, later {after}"
    assert after["shared mappings"] <= warm["shared mappings"], f"{warm}, later {after}"
    # The allocators' own move a little; one that is left behind by each life would be 80.
    assert after["mappings"] <= warm["mappings"] + 20, f"{warm}, later {after}"


def torch_group(cycle):
    """The default group and one more, over a store of its own for each cycle."""
    folder = Path(os.environ["RONDE_STORE"][len("unix:") :]).parent
    store = dist.FileStore(str(folder / f"lives-{cycle}"), int(os.environ["RONDE_SIZE"]))
    dist.init_process_group("ronde", store=store, rank=int(os.environ["RONDE_RANK"]), world_size=int(os.environ["RONDE_SIZE"]))
    return dist.new_group()


@pytest.mark.ranks(2, 3, fresh=True, long=(3,))
def test_groups_of_torch_end_with_the_job(hvd):
    """In another job their ids are other groups'."""
    size = hvd.size()
    for cycle in range(4):
        other = torch_group(cycle)
        dist.all_reduce(torch.ones(2), group=other)
        hvd.shutdown()
        again = cycle % 2 == 1
        if again:
            hvd.init()
            sets = [hvd.add_process_set([rank]) for rank in range(size)]
        for group in (other, dist.group.WORLD):
            with pytest.raises(ValueError, match="has ended with its job"):
                dist.all_reduce(torch.ones(2), group=group)
        dist.destroy_process_group()
        if again:
            assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=sets[hvd.rank()]).tolist() == [1.0] * 2
        else:
            hvd.init()
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [size] * 2
