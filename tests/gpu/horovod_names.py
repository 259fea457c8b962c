"""``horovod.torch`` with tensors and models on a GPU, beside values computed by hand or by one process."""

from __future__ import annotations

import warnings
from typing import Any, List

import horovod.torch as hvd
import torch
from torch import nn

from checking import DEVICE, IS_GPU, equal, expect, keep_busy, run, set_up, stream

set_up()
warnings.simplefilter("ignore")
hvd.init()
RANK, WORLD = hvd.rank(), hvd.size()
SUM_OF_RANKS = WORLD * (WORLD - 1) // 2
MEAN = (WORLD - 1) / 2


def pattern(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return (torch.arange(count, device=DEVICE) % 7).to(dtype)


def mine(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return pattern(count, dtype) + RANK


def operations() -> None:
    for count in (0, 1, 1023, 70_000, 1 << 20):
        for dtype in (torch.float32, torch.float16, torch.bfloat16):
            equal(hvd.allreduce(mine(count, dtype)), pattern(count, dtype) + MEAN, f"allreduce {count}")
            equal(hvd.allreduce(mine(count, dtype), op=hvd.Max), pattern(count, dtype) + WORLD - 1, f"Max {count}")
        tensor = mine(count)
        equal(hvd.allreduce_(tensor, op=hvd.Sum), pattern(count) * WORLD + SUM_OF_RANKS, f"allreduce_ {count}")
        equal(tensor, pattern(count) * WORLD + SUM_OF_RANKS, f"in place {count}")
        made = hvd.allreduce(mine(count), compression=hvd.Compression.fp16)
        equal(made, pattern(count) + MEAN, f"fp16 {count}")
        group = hvd.grouped_allreduce([mine(count), mine(5)], op=hvd.Sum)
        equal(group[0], pattern(count) * WORLD + SUM_OF_RANKS, f"grouped {count}")
        equal(group[1], pattern(5) * WORLD + SUM_OF_RANKS, f"grouped {count}, second")
        equal(hvd.broadcast(mine(count), WORLD - 1), pattern(count) + WORLD - 1, f"broadcast {count}")
        rows = torch.full((RANK + 1, 3), float(RANK), device=DEVICE)
        expected = torch.cat([torch.full((each + 1, 3), float(each)) for each in range(WORLD)])
        equal(hvd.allgather(rows), expected, "allgather of unequal rows")
        part = hvd.reducescatter(mine(WORLD * 8), op=hvd.Sum)
        equal(part, (pattern(WORLD * 8) * WORLD + SUM_OF_RANKS)[RANK * 8 : RANK * 8 + 8], "reducescatter")
        made, received = hvd.alltoall(mine(WORLD), splits=torch.ones(WORLD, dtype=torch.int32))
        equal(made, pattern(WORLD)[RANK] + torch.arange(float(WORLD), device=DEVICE), "alltoall")
        expect(received.tolist() == [1] * WORLD, "splits")


def asynchronous() -> None:
    for count in (5, 70_000, 1 << 20):
        tensors = [torch.zeros(count, device=DEVICE) for _ in range(3)]
        keep_busy()
        for tensor in tensors:
            tensor += mine(count)
        handles = [hvd.allreduce_async_(tensor, op=hvd.Sum, name=f"a{each}") for each, tensor in enumerate(tensors)]
        for handle in handles:
            read = hvd.synchronize(handle) * 2
            equal(read, (pattern(count) * WORLD + SUM_OF_RANKS) * 2, f"allreduce_async_ {count}")
        with stream():
            tensor = torch.zeros(count, device=DEVICE)
            keep_busy()
            tensor += mine(count)
            read = hvd.allreduce(tensor, op=hvd.Sum) * 2
            equal(read, (pattern(count) * WORLD + SUM_OF_RANKS) * 2, f"on a side stream {count}")


def autograd() -> None:
    tensor = mine(100).requires_grad_()
    (hvd.allreduce(tensor, op=hvd.Sum) * (RANK + 1)).sum().backward()
    equal(tensor.grad, torch.full((100,), float(sum(range(1, WORLD + 1)))), "gradient of allreduce")


def network(is_synchronised: bool = False) -> nn.Sequential:
    torch.manual_seed(3)
    norm = hvd.SyncBatchNorm(64) if is_synchronised else nn.Identity()
    return nn.Sequential(nn.Linear(6, 64), norm, nn.Tanh(), nn.Linear(64, 300), nn.Tanh(), nn.Linear(300, 6)).to(DEVICE)


def batch(rank: int, step: int) -> torch.Tensor:
    return torch.randn(5, 6, generator=torch.Generator().manual_seed(100 * step + rank)).to(DEVICE)


def alone(steps: int, passes: int = 1, momentum: float = 0.9, norm: bool = False) -> List[torch.Tensor]:
    model = network()
    if norm:
        torch.manual_seed(3)
        model[1] = nn.BatchNorm1d(64).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=momentum)
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            whole = torch.cat([batch(rank, step * passes + number) for rank in range(WORLD)])
            model(whole).square().mean().backward()
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def train(steps: int, passes: int = 1, norm: bool = False, is_mixed: bool = False, **how: Any) -> List[torch.Tensor]:
    model = network(norm)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), named_parameters=model.named_parameters(),
        backward_passes_per_step=passes, **how,
    )  # fmt: skip
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=is_mixed, init_scale=1024.0)
    for step in range(steps):
        optimizer.zero_grad()
        for number in range(passes):
            scaler.scale(model(batch(RANK, step * passes + number)).square().mean()).backward()
        if is_mixed:
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


def near(made: List[torch.Tensor], expected: List[torch.Tensor], what: str, tolerance: float = 2e-5) -> None:
    for one, other in zip(made, expected, strict=True):
        apart = float((one - other).abs().max())
        expect(one.device.type == DEVICE.type and apart <= tolerance, f"{what}: apart by {apart}")


def optimizers() -> None:
    near(train(10), alone(10), "plain")
    near(train(10, compression=hvd.Compression.fp16), alone(10), "fp16", 5e-3)
    near(train(5, passes=2), alone(5, passes=2), "two passes")
    near(train(10, groups=2), alone(10), "groups")
    near(train(10, is_mixed=True), alone(10), "scaler")
    near(train(10, gradient_predivide_factor=2.0), alone(10), "predivided")
    if WORLD & (WORLD - 1) == 0:
        train(3, op=hvd.Adasum)


def sync_batch_norm() -> None:
    near(train(10, norm=True), alone(10, norm=True), "sync batch norm", 1e-4)


def sparse() -> None:
    for is_dense in (False, True):
        torch.manual_seed(1)
        model = nn.Embedding(10, 3, sparse=True).to(DEVICE)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), sparse_as_dense=is_dense)
        before = model.weight.detach().clone()
        model(torch.tensor([RANK, 9], device=DEVICE)).sum().backward()
        optimizer.step()
        expected = before.clone()
        expected[:WORLD] -= 1 / WORLD
        expected[9] -= 1
        near([model.weight.detach()], [expected], f"sparse, as dense: {is_dense}")


def states() -> None:
    model = network()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += RANK
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 * (RANK + 1))
    model(batch(RANK, 0)).sum().backward()
    if RANK == 0:
        optimizer.step()
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    expect(optimizer.param_groups[0]["lr"] == 0.1, "learning rate")
    for parameter in model.parameters():
        for value in (parameter.detach(), optimizer.state[parameter]["exp_avg"]):
            expect(value.device.type == DEVICE.type, "device of state")
            equal(value, hvd.broadcast(value, 0), "state")
    state = hvd.elastic.TorchState(model=model, optimizer=optimizer, batch=RANK)
    state.sync()
    expect(state.batch == 0, "elastic state")
    expect(hvd.broadcast_object({"on": torch.ones(2, device=DEVICE)})["on"].sum() == 2, "object")


if __name__ == "__main__":
    import horovod.torch.elastic

    run([operations, asynchronous, autograd, optimizers, sync_batch_norm, sparse, states], RANK)
    hvd.shutdown()
