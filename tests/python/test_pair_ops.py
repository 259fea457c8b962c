"""Messages between two ranks, as processes: how the engine's own tests (point_to_point_test.cc) cannot see them."""

from __future__ import annotations

import time

import pytest
import torch


@pytest.mark.ranks(2, 3)
def test_both_orders_and_every_size(hvd, rank):
    for count in (0, 1, 512, 513, 100_000, 16 * 1024 * 1024):  # up to 64 MiB
        sent = torch.arange(count, dtype=torch.float32)
        for late in (0, 1):  # who comes later
            target = torch.full((count,), -1.0)
            if rank == 0:
                hvd.barrier()
                if late == 1:
                    hvd.send(sent, 1, tag=4)
                else:
                    handle = hvd.send_async(sent, 1, tag=4)
                    assert hvd.synchronize(handle) is None
            elif rank == 1:
                handle = hvd.recv_async(target, 0, tag=4) if late == 0 else None
                hvd.barrier()
                assert (hvd.synchronize(handle) if handle else hvd.recv(target, 0, tag=4)) == 0
                assert torch.equal(target, sent)
            else:
                hvd.barrier()


@pytest.mark.ranks(2, 3)
def test_round_the_ring_beside_collectives(hvd, rank, world):
    right, left = (rank + 1) % world, (rank - 1) % world
    for step in range(20):
        out = torch.full((50_000,), rank * 100.0 + step)
        into = torch.empty(50_000)
        handles = [hvd.recv_async(into, left, tag=step), hvd.send_async(out, right, tag=step)]
        total = hvd.allreduce(torch.full((3000,), float(rank)), op=hvd.Sum, name="beside")
        assert hvd.synchronize(handles[0]) == left
        hvd.synchronize(handles[1])
        assert (into == left * 100.0 + step).all() and (total == world * (world - 1) / 2).all()


@pytest.mark.ranks(3)
def test_from_any_rank(hvd, rank, world):
    if rank == 1:
        seen = {}
        for _ in range(2 * (world - 1)):
            target = torch.empty(2, 3)
            source = hvd.recv(target, tag=-7)
            seen.setdefault(source, []).append(target[0, 0].item())
        assert seen == {0: [0.0, 10.0], 2: [2.0, 12.0]}, "in the order of each rank's sends"
    else:
        hvd.send(torch.full((2, 3), float(rank)), 1, tag=-7)
        hvd.send(torch.full((2, 3), 10.0 + rank), 1, tag=-7)


@pytest.mark.ranks(2)
def test_not_contiguous(hvd, rank):
    whole = torch.arange(48.0).reshape(6, 8)
    if rank == 0:
        hvd.send(whole[:, ::2], 1)
    else:
        target = torch.zeros(6, 8)
        assert hvd.recv(target[:, 1::2], 0) == 0
        assert torch.equal(target[:, 1::2], whole[:, ::2]) and (target[:, ::2] == 0).all()


@pytest.mark.ranks(2)
def test_what_cannot_be(hvd, rank):
    other = 1 - rank
    with pytest.raises(ValueError, match="no messages for itself"):
        hvd.send(torch.ones(1), rank)
    with pytest.raises(ValueError, match="rank 2 is not in the group"):
        hvd.recv(torch.ones(1), 2)
    with pytest.raises(hvd.HorovodInternalError, match="the same data type and number of elements") as caught:
        if rank == 0:
            hvd.send(torch.ones(3), other, name="odd")
        else:
            hvd.recv(torch.ones(4), other, name="odd")
    assert isinstance(caught.value, ValueError)
    texts = hvd.allgather_object(str(caught.value))
    assert texts[0] == texts[1]
    if rank == 0:
        hvd.send(torch.ones(3), other, name="odd")
    else:
        target = torch.zeros(3)
        hvd.recv(target, other, name="odd")
        assert (target == 1).all()


@pytest.mark.ranks(2)
def test_a_waiting_recv_answers_quickly(hvd, rank):
    """Each message wakes a rank that sleeps: a hundred turns are no hundred time slices."""
    value = torch.zeros(1)
    begin = time.monotonic()
    for turn in range(100):
        if turn % 2 == rank:
            hvd.send(value + 1, 1 - rank)
        else:
            hvd.recv(value, 1 - rank)
    assert time.monotonic() - begin < 4, "50 ms a turn would be the slices of a wait that nobody wakes"
