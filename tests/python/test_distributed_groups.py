"""Groups of torch.distributed over the backend ronde: sub-groups, made by their members only, and the default group beside
the calls of ``hvd``."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def total(group, value: float) -> float:
    tensor = torch.tensor([value])
    dist.all_reduce(tensor, group=group)
    return tensor.item()


@pytest.mark.ranks(2, 3)
def test_overlapping_groups(rank, world):
    everybody = dist.new_group()
    pairs = [(a, b) for a in range(world) for b in range(a + 1, world)]
    groups = [dist.new_group([a, b]) for a, b in pairs]
    single = dist.new_group([world - 1])
    for _ in range(5):
        assert total(everybody, 1.0) == world
        for (a, b), made in zip(pairs, groups, strict=True):
            if rank in (a, b):
                assert total(made, float(rank)) == a + b
                assert dist.get_world_size(made) == 2 and dist.get_rank(made) == (a, b).index(rank)
            else:
                assert made is dist.GroupMember.NON_GROUP_MEMBER
        if rank == world - 1:
            assert total(single, 3.0) == 3.0


@pytest.mark.ranks(3)
def test_ranks_are_those_of_the_group(rank):
    made = dist.new_group([2, 1])
    if rank == 0:
        return
    tensor = torch.tensor([float(rank)])
    dist.broadcast(tensor, src=2, group=made)
    assert tensor.item() == 2.0
    outputs = [torch.empty(1) for _ in range(2)]
    dist.all_gather(outputs, torch.tensor([float(rank)]), group=made)
    order = dist.get_process_group_ranks(made)
    assert [output.item() for output in outputs] == order
    if rank == 1:
        dist.send(torch.tensor([5.0]), 2, group=made)
    else:
        assert dist.recv(tensor, src=1, group=made) == 1 and tensor.item() == 5.0


@pytest.mark.ranks(3)
def test_members_need_nobody_else(rank):
    """Neither to make a group nor to end one; however many the ranks have made before."""
    for _ in range(3):
        if rank in (0, 2):
            made = dist.new_group([0, 2], use_local_synchronization=True)
            assert total(made, 1.0) == 2.0
            dist.destroy_process_group(made)
            with pytest.raises(ValueError, match="was destroyed"):
                made.allreduce([torch.ones(1)])
        if rank in (1, 2):
            made = dist.new_group([1, 2], use_local_synchronization=True)
            assert total(made, float(rank)) == 3.0
            dist.destroy_process_group(made)  # PyTorch finds equal names only with equally many groups
    dist.barrier()


@pytest.mark.ranks(2, 3)
def test_a_device_mesh(rank, world):
    mesh = dist.init_device_mesh("cpu", (1, world), mesh_dim_names=("outer", "inner"))
    assert total(mesh["inner"].get_group(), 1.0) == world
    assert total(mesh["outer"].get_group(), 1.0) == 1.0


@pytest.mark.ranks(2)
def test_operations_of_hvd_go_beside(hvd, rank):
    work = dist.all_reduce(torch.ones(2), async_op=True)
    assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [2.0, 2.0]
    work.wait()


@pytest.mark.ranks(1, 2, 3)
def test_methods_take_one_tensor_and_plain_arguments_too(rank, world):
    group = dist.group.WORLD
    total = world * (world + 1) / 2

    def mine() -> torch.Tensor:
        return torch.full((2,), rank + 1.0)

    for call in (
        lambda tensor: group.allreduce(tensor),
        lambda tensor: group.allreduce(tensor, dist.ReduceOp.SUM),
        lambda tensor: group.allreduce([tensor], op=dist.ReduceOp.SUM, timeout=timedelta(seconds=60)),
        lambda tensor: group.allreduce(tensor=tensor),
        lambda tensor: group.allreduce([tensor]),
    ):
        tensor = mine()
        call(tensor).wait()
        assert tensor.tolist() == [total] * 2
    largest = mine()
    group.allreduce(largest, dist.ReduceOp.MAX).wait()
    assert largest.tolist() == [world] * 2
    sent = mine()
    group.broadcast(sent, world - 1).wait()
    assert sent.tolist() == [world] * 2
    reduced = mine()
    group.reduce(reduced, 0, dist.ReduceOp.SUM).wait()
    assert reduced.tolist() == [total if rank == 0 else rank + 1] * 2
    gathered = [torch.empty(2) for _ in range(world)]
    group.allgather(gathered, mine()).wait()
    assert [each[0].item() for each in gathered] == list(range(1, world + 1))
    at_root = [torch.empty(2) for _ in range(world)] if rank == 0 else []
    group.gather(at_root, mine(), root=0).wait()
    assert [each[0].item() for each in at_root] == (list(range(1, world + 1)) if rank == 0 else [])
    part = torch.empty(1)
    group.scatter(part, [torch.tensor([float(each)]) for each in range(world)] if rank == 0 else [], 0).wait()
    assert part.item() == rank
    group.reduce_scatter(part, [torch.tensor([float(each)]) for each in range(world)], dist.ReduceOp.SUM).wait()
    assert part.item() == rank * world
    group.barrier(timeout=timedelta(seconds=60)).wait()


@pytest.mark.ranks(2, 3)
def test_calls_of_hvd_and_of_the_default_group_are_counted_apart(hvd, rank, world):
    ranks = world * (world - 1) / 2

    def turn(first, value):
        ours, theirs = torch.tensor([rank + value]), torch.tensor([10.0 * rank + value])
        for which in (first, 1 - first):
            if which == 0:
                handle = hvd.allreduce_async(ours, op=hvd.Sum)
            else:
                work = dist.all_reduce(theirs, async_op=True)
        work.wait()
        return hvd.synchronize(handle).item(), theirs.item()

    for value in range(20):  # rank 0 makes them in the other order
        assert turn(0 if rank == 0 else 1, value) == (ranks + world * value, 10 * ranks + world * value)

    wrong = []

    def many(reduce, factor):
        for value in range(300):
            found = reduce(torch.tensor([factor * rank + value]))
            if found != factor * ranks + world * value:
                wrong.append((factor, value, found))

    threads = [
        threading.Thread(target=many, args=(lambda tensor: hvd.allreduce(tensor, op=hvd.Sum).item(), 1.0)),
        threading.Thread(target=many, args=(lambda tensor: (dist.all_reduce(tensor), tensor.item())[1], 10.0)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert not wrong


@pytest.mark.ranks(2, 3)
def test_a_rank_that_has_joined_takes_part_in_the_default_group(hvd, rank, world):
    tensor = torch.tensor([rank + 1.0])
    if rank == 0:
        work = dist.all_reduce(tensor, async_op=True)
        for _ in range(3):
            assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [1.0, 1.0]
        hvd.join()
        work.wait()
    else:
        thread = threading.Thread(target=hvd.join)
        thread.start()
        dist.all_reduce(tensor)
        thread.join(60)
        assert not thread.is_alive()
    assert tensor.item() == sum(range(1, world + 1))
