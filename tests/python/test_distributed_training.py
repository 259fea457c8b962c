"""What PyTorch builds on its process groups, over the backend ronde: DDP, FSDP2, DTensor, ZeRO, checkpoints."""

from __future__ import annotations

import warnings
from typing import Any, List

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distributed_group import default_group
from ronde import _process


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def network() -> torch.nn.Sequential:
    torch.manual_seed(3)
    return torch.nn.Sequential(
        torch.nn.Linear(6, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64), torch.nn.Tanh(), torch.nn.Linear(64, 6)
    )


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(100 * step + rank))


def train(model: Any, optimizer: torch.optim.Optimizer, rank: int, steps: int) -> None:
    for step in range(steps):
        optimizer.zero_grad()
        model(batch(rank, step)).square().mean().backward()
        optimizer.step()


def alone(world: int, steps: int, make: Any = None) -> List[torch.Tensor]:
    """The parameters after the same training in one process."""
    model = network()
    optimizer = (make or (lambda p: torch.optim.SGD(p, lr=0.1)))(model.parameters())
    for step in range(steps):
        optimizer.zero_grad()
        torch.cat([model(batch(rank, step)) for rank in range(world)]).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("as_view", [False, True])
def test_ddp_equals_ddp_over_gloo_to_the_last_bit(rank, as_view):
    gloo = dist.new_group(backend="gloo")
    results = []
    for where in (dist.group.WORLD, gloo):
        model = DistributedDataParallel(
            network(), process_group=where, bucket_cap_mb=0.01, gradient_as_bucket_view=as_view
        )
        train(model, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), rank, 10)
        results.append([parameter.detach() for parameter in model.parameters()])
    for mine, expected in zip(*results, strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.ranks(2, 3, fresh=True)
def test_a_loop_of_ddp_needs_no_messages(rank, world):
    """Neither for the buckets of gradients nor for what the program itself reduces in each step."""
    model = DistributedDataParallel(network(), bucket_cap_mb=0.01)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def steps(count: int) -> None:
        for _ in range(count):
            train(model, optimizer, rank, 1)
            loss = torch.ones(())
            dist.all_reduce(loss, op=dist.ReduceOp.AVG)

    steps(12)
    dist.barrier()
    before = _process.counters()
    steps(20)
    after = _process.counters()
    dist.barrier()  # a rank that leaves the job ends what is replayed, for the others too: not before they have counted
    assert after["control_messages"] == before["control_messages"]
    assert after["requests"] - before["requests"] >= 3 * 20, "several buckets in each step, and the loss"
    assert after["replayed"] > before["replayed"] and after["breaks"] == before["breaks"]


@pytest.mark.ranks(2, 3)
def test_ddp_accumulates_and_leaves_out(rank, world):
    model = DistributedDataParallel(network(), find_unused_parameters=True)
    with model.no_sync():
        model(batch(rank, 0)).square().mean().backward()
    model(batch(rank, 1)).square().mean().backward()
    for parameter in model.parameters():
        outputs = [torch.empty_like(parameter) for _ in range(world)]
        dist.all_gather(outputs, parameter.grad)
        assert all(torch.equal(outputs[0], output) for output in outputs)
    bare = network()
    for step in range(2):
        torch.stack([bare(batch(each, step)).square().mean() for each in range(world)]).mean().backward()
    for mine, expected in zip(model.parameters(), bare.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, expected.grad)


@pytest.mark.ranks(2)
def test_an_error_in_ddp_names_the_call(rank):
    model = DistributedDataParallel(network())
    hook_calls = []

    def hook(_, bucket):
        hook_calls.append(bucket.index())
        tensor = bucket.buffer() if rank == 0 else torch.cat([bucket.buffer(), torch.zeros(1)])
        work = dist.all_reduce(tensor, async_op=True)
        return work.get_future().then(lambda done: done.value()[0])

    model.register_comm_hook(None, hook)
    with pytest.raises(RuntimeError, match=r"allreduce \(sum\).*named|shape of 'noname\.[0-9.]+"):
        model(batch(rank, 0)).square().mean().backward()
    assert hook_calls == [0]


@pytest.mark.ranks(2, 3)
def test_fsdp2(rank, world):
    from torch.distributed.fsdp import fully_shard

    model = network()
    for layer in model:
        if isinstance(layer, torch.nn.Linear):
            fully_shard(layer)
            if hasattr(layer, "set_allocate_memory_from_process_group_for_comm"):  # newer PyTorch asks the group for it
                layer.set_allocate_memory_from_process_group_for_comm(True)
    fully_shard(model)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), rank, 5)
    for mine, expected in zip(model.parameters(), alone(world, 5), strict=True):
        torch.testing.assert_close(mine.full_tensor(), expected)


@pytest.mark.ranks(2, 3)
def test_dtensor(rank, world):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = init_device_mesh("cpu", (world,))
    whole = torch.arange(float(6 * world * 4)).reshape(6 * world, 4)
    sharded = distribute_tensor(whole, mesh, [Shard(0)])
    assert sharded.to_local().shape == (6, 4)
    assert torch.equal(sharded.full_tensor(), whole)
    assert torch.equal(sharded.redistribute(mesh, [Shard(1)]).full_tensor(), whole)
    assert torch.equal(sharded.redistribute(mesh, [Replicate()]).to_local(), whole)
    torch.testing.assert_close(sharded.sum().full_tensor(), whole.sum())
    torch.testing.assert_close((sharded.t() @ sharded).full_tensor(), whole.t() @ whole)
    uneven = torch.arange(float(world + 1))
    assert torch.equal(distribute_tensor(uneven, mesh, [Shard(0)]).full_tensor(), uneven)


@pytest.mark.ranks(2, 3)
def test_zero_redundancy_optimizer(rank, world):
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network())
    optimizer = ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.Adam, lr=0.01)
    train(model, optimizer, rank, 4)
    optimizer.consolidate_state_dict(to=0)
    if rank == 0:
        assert len(optimizer.state_dict()["state"]) == len(list(model.parameters()))
    for mine, expected in zip(model.parameters(), alone(world, 4, lambda p: torch.optim.Adam(p, lr=0.01)), strict=True):
        torch.testing.assert_close(mine.detach(), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.ranks(2)
def test_distributed_checkpoints(rank, world, tmp_path):
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint.state_dict import get_model_state_dict, set_model_state_dict
    from torch.distributed.fsdp import fully_shard

    folder = [str(tmp_path)]
    dist.broadcast_object_list(folder, src=0)
    model = network()
    fully_shard(model)
    train(model, torch.optim.SGD(model.parameters(), lr=0.1), rank, 1)
    trained = [parameter.full_tensor().clone() for parameter in model.parameters()]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dcp.save({"model": get_model_state_dict(model)}, checkpoint_id=f"{folder[0]}/sync")
        dcp.async_save({"model": get_model_state_dict(model)}, checkpoint_id=f"{folder[0]}/async").result()
    dist.barrier()
    for kind in ("sync", "async"):
        other = network()
        fully_shard(other)
        state = {"model": get_model_state_dict(other)}
        dcp.load(state, checkpoint_id=f"{folder[0]}/{kind}")
        set_model_state_dict(other, state["model"])
        for mine, expected in zip(other.parameters(), trained, strict=True):
            assert torch.equal(mine.full_tensor(), expected)
    dist.barrier()
