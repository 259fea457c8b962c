"""Ranks with unequally much data over the backend ronde, in the manner of PyTorch: Join, and DDP's join()."""

from __future__ import annotations

import contextlib
from typing import Any, List

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel

from distributed_group import default_group
from ronde import _abi, _process


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


class Network(torch.nn.Module):
    """With buffers, which DDP sends round, and a layer that only some batches use."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.first, self.norm = torch.nn.Linear(6, 300), torch.nn.BatchNorm1d(300)
        self.sometimes, self.last = torch.nn.Linear(300, 300), torch.nn.Linear(300, 6)

    def forward(self, batch: torch.Tensor, whole: bool) -> torch.Tensor:
        hidden = self.norm(self.first(batch)).relu()
        return self.last(self.sometimes(hidden) if whole else hidden)


def train(model: Any, optimizer: Any, rank: int, batches: int, unused: bool) -> None:
    for step in range(batches):
        optimizer.zero_grad()
        batch = torch.randn(5, 6, generator=torch.Generator().manual_seed(100 * step + rank))
        model(batch, not unused or step % 2 == 0).square().mean().backward()
        optimizer.step()


def weights(where: Any, rank: int, unused: bool, **settings: Any) -> List[torch.Tensor]:
    """After training in which each rank has two batches more than the one before it, twice."""
    model = DistributedDataParallel(Network(), process_group=where, find_unused_parameters=unused, bucket_cap_mb=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        with model.join(**settings):
            train(model, optimizer, rank, 3 + 2 * rank, unused)
    return [tensor.detach() for tensor in [*model.parameters(), *model.buffers()]]


both_divisors = pytest.mark.parametrize("settings", [{}, {"divide_by_initial_world_size": False}])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("unused", [False, True])
@both_divisors
def test_ddp_join(rank, world, unused, settings):
    mine = weights(dist.group.WORLD, rank, unused, **settings)
    expected = weights(dist.new_group(backend="gloo"), rank, unused, **settings)
    for one, other in zip(mine, expected, strict=True):
        if world <= 2:
            assert torch.equal(one, other)
        else:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.ranks(2)
@both_divisors
def test_ddp_join_with_buckets_in_ordinary_memory(rank, settings, monkeypatch):
    monkeypatch.setenv("DDP_DISABLE_COMM_MEM", "1")
    mine = weights(dist.group.WORLD, rank, False, **settings)
    expected = weights(dist.new_group(backend="gloo"), rank, False, **settings)
    assert all(torch.equal(one, other) for one, other in zip(mine, expected, strict=True))


@pytest.mark.ranks(2)
def test_a_hook_that_uses_another_group_of_the_same_ranks(rank):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

    model = DistributedDataParallel(Network(), process_group=dist.new_group())
    model.register_comm_hook(None, fp16_compress_hook)
    with model.join():
        train(model, torch.optim.SGD(model.parameters(), lr=0.1), rank, 2 + 2 * rank, False)


@pytest.mark.ranks(3)
def test_calls_between_two_ranks_within(rank):
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with model.join():
        for step in range(2 + rank):
            train(model, optimizer, rank, 1, False)
            if step == 0 and rank == 1:
                dist.send(torch.ones(1), 0)
            elif step == 0 and rank == 0:
                dist.recv(torch.empty(1), 1)


@pytest.mark.ranks(2)
def test_after_a_call_of_one_rank_alone_a_barrier_puts_all_in_step(rank, group):
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with contextlib.suppress(ValueError):
        with model.join():
            train(model, optimizer, rank, 2, False)
            if rank == 0:
                group._start(_abi.ALLREDUCE, "allreduce", [torch.ones(3)], [0, 0], [], lambda _: None)  # refused
            raise ValueError
    dist.barrier()
    with model.join():
        train(model, optimizer, rank, 2 + rank, False)


@pytest.mark.ranks(2, 3)
def test_join_of_ddp_and_zero(rank, world):
    model = DistributedDataParallel(Network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    with Join([model, optimizer]):
        train(model, optimizer, rank, 2 + rank, False)
    for mine in model.parameters():
        everyones = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(everyones, mine.detach())
        assert all(torch.equal(each, mine) for each in everyones)


@pytest.mark.ranks(2)
def test_the_first_without_data_can_end_it_for_all(rank):
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="exhausted"):
        with model.join(throw_on_early_termination=True):
            train(model, optimizer, rank, 2 + rank, False)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [2, 2], "the group stays usable"


@pytest.mark.ranks(2, fresh=True)
def test_what_comes_before_and_after_is_replayed(rank):
    model = DistributedDataParallel(Network())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for enabled in (False, True):
        with model.join(enable=enabled) if enabled else contextlib.nullcontext():
            train(model, optimizer, rank, 4, False)
        train(model, optimizer, rank, 10, False)
        dist.barrier()
        before = _process.counters()
        train(model, optimizer, rank, 10, False)
        after = _process.counters()
        assert after["replayed"] > before["replayed"]
        assert after["control_messages"] - before["control_messages"] < 80, "buffers are sent round in each step"


@pytest.mark.ranks(2, 3)
def test_a_hook_that_makes_calls_behind_futures(rank, world):
    """On a rank without data DDP calls it outside of a backward pass, and what was behind a future met other buckets' sums."""
    parameters = [torch.nn.Parameter(torch.zeros(1000)) for _ in range(5)]
    model = torch.nn.Module()
    model.all = torch.nn.ParameterList(parameters)
    model.forward = lambda scale: sum(each.sum() * scale * 10**number for number, each in enumerate(parameters))

    def hook(_, bucket):
        first = dist.all_reduce(bucket.buffer(), async_op=True).get_future()
        return first.then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])

    wrapped = DistributedDataParallel(model, bucket_cap_mb=4000 / 2**20)
    wrapped.register_comm_hook(None, hook)
    with wrapped.join(divide_by_initial_world_size=True):
        for step in range(3 + 4 * rank):
            wrapped.zero_grad()
            wrapped(rank + 1.0 + step).backward()
            total = sum(each + 1.0 + step for each in range(world) if step < 3 + 4 * each) * world
            assert [each.grad.unique().tolist() for each in parameters] == [[total * 10**number] for number in range(5)]
