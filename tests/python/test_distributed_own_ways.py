"""What PyTorch does for its own backends: limits, what its profiler shows, built-in hooks, backends by device."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import Any, List

import pytest
import torch
import torch.distributed as dist
from torch.autograd.profiler import profile as old_profile
from torch.profiler import profile

from distributed_group import default_group
from ronde.exceptions import MismatchError, TimedOutError


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def only_rank_0(rank: int, world: int, call: Any, text: str) -> None:
    """Rank 0's call has no partners in time; theirs, which come later, get its error."""
    if rank == 0:
        with pytest.raises(TimedOutError, match=text):
            call()
        dist.group.WORLD.set_timeout(timedelta(minutes=30))
        for other in range(1, world):
            dist.send(torch.ones(1), other)
    else:
        dist.recv(torch.empty(1), 0)
        with pytest.raises(TimedOutError, match=text):
            call()
    tensor = torch.ones(1)
    dist.all_reduce(tensor)
    assert tensor.item() == world, "the group stays usable"


@pytest.mark.ranks(2, 3)
def test_a_call_may_have_a_limit_of_its_own(group, rank, world):
    others = ", ".join(str(each) for each in range(1, world))
    late = "rank 1 did not submit it. Look at what rank 1 was" if world == 2 else f"ranks {others} did .* ranks {others} were"
    limit = timedelta(seconds=0.2)
    only_rank_0(rank, world, lambda: dist.barrier(timeout=limit), f"Timed out after 0.2 s in barrier .*{late} doing")

    def reduce() -> None:
        opts = dist.AllreduceOptions()
        opts.timeout = limit
        group.allreduce([torch.ones(3)], opts).wait()

    only_rank_0(rank, world, reduce, "Timed out after .* s in allreduce")
    only_rank_0(rank, world, lambda: group.broadcast(torch.ones(1), 0, limit).wait(), "Timed out after 0.2 s in broadcast")


@pytest.mark.ranks(2)
def test_a_group_may_have_another_limit(group, rank, world):
    if rank == 0:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.2), group)
    only_rank_0(rank, world, dist.barrier, "Timed out after 0.2 s in barrier")
    if rank == 0:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.1))
    only_rank_0(rank, world, lambda: dist.all_reduce(torch.ones(1)), "Timed out after .* s in allreduce")
    gloo = dist.new_group(backend="gloo")
    dist.distributed_c10d._set_pg_timeout(timedelta(seconds=7), gloo)
    assert gloo._get_backend(torch.device("cpu")).options._timeout == timedelta(seconds=7), "PyTorch's own are PyTorch's"


@pytest.mark.ranks(3)
def test_monitored_barrier_names_who_has_not_come(group, rank, world):
    dist.monitored_barrier()
    dist.monitored_barrier(group, timedelta(seconds=30), wait_all_ranks=True)
    text = "Timed out after 0.2 s .* ranks 1, 2 did not submit it"
    only_rank_0(rank, world, lambda: dist.monitored_barrier(timeout=timedelta(seconds=0.2)), text)
    all_named = "^Ranks 1, 2 failed to pass monitoredBarrier. Rank . timed out in monitoredBarrier: Timed out"
    only_rank_0(rank, world, lambda: group.monitored_barrier(timedelta(0), wait_all_ranks=True), all_named)
    gloo = dist.new_group(backend="gloo")
    dist.monitored_barrier(gloo)


@pytest.mark.ranks(1, 2)
def test_calls_are_counted(group, rank, world):
    group._set_sequence_number_for_group()
    before = group._get_sequence_number_for_group()
    dist.all_reduce(torch.ones(1))
    dist.barrier()
    if world == 2:
        (dist.send if rank == 0 else dist.recv)(torch.ones(1), 1 - rank)
    assert group._get_sequence_number_for_group() == before + 2


@pytest.mark.ranks(1, 2, 3)
def test_reduce_scatter_of_unequal_parts(rank, world):
    for dtype in (torch.float32, torch.int64, torch.bfloat16):
        parts = [torch.full((each, 2), 10 * each + rank + 1).to(dtype) for each in range(world)]
        before = [part.clone() for part in parts]
        output = torch.empty((rank, 2), dtype=dtype)
        dist.reduce_scatter(output, parts)
        total = sum(10 * rank + each + 1 for each in range(world))
        assert output.tolist() == [[total] * 2] * rank
        dist.reduce_scatter(output, parts, op=dist.ReduceOp.MAX)
        assert output.tolist() == [[10 * rank + world] * 2] * rank
        assert all(torch.equal(part, old) for part, old in zip(parts, before)), "the inputs were changed"


@pytest.mark.ranks(2, 3)
def test_reduce_scatter_of_other_parts_on_other_ranks(rank, world):
    """Whose sizes add up to the same."""
    sizes = [2] * world
    sizes[0], sizes[1] = (1, 3) if rank == 0 else (3, 1)
    with pytest.raises(MismatchError):
        dist.reduce_scatter(torch.empty(sizes[rank]), [torch.ones(each) for each in sizes])


@pytest.mark.ranks(2)
@pytest.mark.parametrize("profiler", [profile, old_profile])
def test_the_profiler_sees_calls_with_sizes(group, rank, world, profiler):
    tensor = torch.ones(4, 3)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    with profiler(record_shapes=True) as seen:
        dist.all_reduce(tensor)
        works = [dist.all_reduce(torch.ones(5), async_op=True), dist.broadcast(torch.ones(6), 0, async_op=True)]
        for work in works:
            work.wait()
        dist.all_gather([torch.empty(7)] * world, torch.ones(7))
        dist.barrier()
        if rank == 0:
            dist.recv(torch.empty(9))
        else:
            dist.send(torch.ones(9), 0)
        model(torch.ones(1, 3)).sum().backward()
    events = list(seen.events() if profiler is profile else seen.function_events)
    sizes = [(each.name, each.input_shapes) for each in events if each.name.startswith("ronde:")]
    assert sorted(sizes) == [
        ("ronde:all_gather", [[7]]),
        ("ronde:all_reduce", [[4, 3]]),
        ("ronde:all_reduce", [[5]]),
        ("ronde:all_reduce", [[8]]),
        ("ronde:barrier", []),
        ("ronde:broadcast", [[6]]),
        ("ronde:recvAnySource" if rank == 0 else "ronde:send", [[9]]),
    ]
    spans = [each.time_range.elapsed_us() for each in events if each.name == "ronde:all_reduce"]
    assert all(span > 0 for span in spans), spans


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("kind", [dist.BuiltinCommHookType.FP16_COMPRESS, dist.BuiltinCommHookType.ALLREDUCE], ids=str)
def test_built_in_hooks_are_done_in_python(rank, world, kind):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 1, bias=False))
    model._register_builtin_comm_hook(kind)
    for _ in range(3):
        model.zero_grad()
        model(torch.full((1, 3), 1.0 + rank)).sum().backward()
        assert model.module.weight.grad.tolist() == [[(world + 1) / 2] * 3]
    gloo = torch.nn.parallel.DistributedDataParallel(
        torch.nn.Linear(3, 1, bias=False), process_group=dist.new_group(backend="gloo")
    )
    gloo._register_builtin_comm_hook(kind)
    gloo(torch.full((1, 3), 1.0 + rank)).sum().backward()
    assert gloo.module.weight.grad.tolist() == [[(world + 1) / 2] * 3]


@pytest.mark.ranks(1, 2)
def test_another_backend_beside_it_is_refused(rank, world):
    for asked, others in (("cpu:ronde,cuda:gloo", "cuda:gloo"), ("cpu:ronde,cuda:nosuch", "cuda:nosuch")):
        with pytest.raises(ValueError, match=f"asks for {others} beside ronde"):
            dist.new_group(backend=asked)
    alone = dist.new_group(backend="cpu:ronde")
    tensor = torch.ones(2)
    dist.all_reduce(tensor, group=alone)
    assert tensor.tolist() == [world] * 2


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("in_private_memory", ["0", "1"])
def test_a_static_graph_with_any_memory(rank, world, in_private_memory, monkeypatch):
    """DDP's first step waits in C++ before the backward pass ends."""
    monkeypatch.setenv("DDP_DISABLE_COMM_MEM", in_private_memory)
    for hook in (False, True):
        layers = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Linear(512, 1))
        model = torch.nn.parallel.DistributedDataParallel(layers, static_graph=True, bucket_cap_mb=0.01)
        if hook:
            model._register_builtin_comm_hook(dist.BuiltinCommHookType.FP16_COMPRESS)
        for _ in range(3):
            model.zero_grad()
            model(torch.full((1, 64), 1.0 + rank)).sum().backward()
            everyones: List[Any] = [torch.empty_like(layers[0].weight) for _ in range(world)]
            dist.all_gather(everyones, layers[0].weight.grad)
            assert all(torch.equal(each, everyones[0]) for each in everyones)
    assert os.environ["DDP_DISABLE_COMM_MEM"] == in_private_memory
