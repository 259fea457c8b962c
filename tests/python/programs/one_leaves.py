"""Three ranks of torch.distributed, of which the last ends a group at once, while the others go on sending to each
other. Arguments: "default", or "new_group"; and how often."""

import sys
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

import ronde.torch  # noqa: F401
from ronde.exceptions import PeerLeftError

GROUP, ROUNDS = sys.argv[1], int(sys.argv[2])
SIZES = (1, 600, 50_000)  # in the offer, in pieces, in many


def talk(group):
    """Both ways, in both forms."""
    rank = dist.get_rank()
    for size in SIZES:
        given = torch.full((size,), rank + 1.0)
        taken = torch.zeros(size)
        if rank == 0:
            dist.send(given, 1, group=group)
            assert dist.recv(taken, group=group) == 1  # from any rank: one is still there
        else:
            dist.recv(taken, 0, group=group)
            dist.send(given, 0, group=group)
        assert bool((taken == 2.0 - rank).all())
        works = dist.batch_isend_irecv(
            [dist.P2POp(dist.isend, given, 1 - rank, group), dist.P2POp(dist.irecv, taken.zero_(), 1 - rank, group)]
        )
        for work in works:
            work.wait()
        assert bool((taken == 2.0 - rank).all())


def expect_that_it_has_left(group):
    """What concerns the rank that has left, or needs all, fails; the rest goes on."""
    for call in (
        lambda: dist.recv(torch.zeros(1), 2, group=group),
        lambda: dist.send(torch.zeros(1), 2, group=group),
        lambda: dist.all_reduce(torch.zeros(1), group=group),
    ):
        with pytest.raises(PeerLeftError, match="rank 2 has left the job"):
            call()


def main():
    torch.set_num_threads(1)
    dist.init_process_group("ronde", timeout=timedelta(seconds=60))
    rank = dist.get_rank()
    for _ in range(ROUNDS):
        group = dist.group.WORLD if GROUP == "default" else dist.new_group()
        total = torch.ones(1)
        all_had_it = dist.all_reduce(total, group=group, async_op=True)
        if rank < 2:
            talk(group)
            all_had_it.wait()
            expect_that_it_has_left(group)
            talk(group)
        if GROUP == "default":
            dist.destroy_process_group()
            dist.init_process_group("ronde", timeout=timedelta(seconds=60))
        else:
            dist.destroy_process_group(group)
            dist.barrier()
        assert total.item() == 3.0
    dist.destroy_process_group()
    print(f"rank {rank} done", flush=True)


main()
