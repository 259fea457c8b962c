"""What PyTorch builds on its process groups, over Ronde and over Gloo with a model on the GPU: the same losses."""

from __future__ import annotations

import contextlib
import warnings
from typing import Any, Callable, List

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ronde.torch
from checking import DEVICE, IS_GPU, equal, expect, run, set_up

set_up()
warnings.simplefilter("ignore")
dist.init_process_group("ronde")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
STEPS = 20
IDS = [0] if IS_GPU else None


class Block(nn.Module):
    """Of a small residual network."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first, self.second = (nn.Conv2d(channels, channels, 3, padding=1, bias=False) for _ in range(2))
        self.norm = nn.BatchNorm2d(channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(self.second(torch.relu(self.first(x)))) + x)


def network(seed: int = 3) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2, padding=1), Block(16), Block(16), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 512), nn.Tanh(), nn.Linear(512, 10),
    ).to(DEVICE)  # fmt: skip


def batch(step: int, rank: int = RANK) -> List[torch.Tensor]:
    of_rank = torch.Generator().manual_seed(1000 * step + rank)
    images, labels = torch.randn(8, 3, 16, 16, generator=of_rank), torch.randint(0, 10, (8,), generator=of_rank)
    return [images.to(DEVICE), labels.to(DEVICE)]


def losses_of(
    group: Any,
    hook: Any = None,
    passes: int = 1,
    is_mixed: bool = False,
    prepare: Callable[[Any], Any] = lambda model: model,
    **how: Any,
) -> List[float]:
    """Of the steps, averaged over the ranks, and behind them one weight's sum."""
    model = DistributedDataParallel(prepare(network()), device_ids=IDS, process_group=group, bucket_cap_mb=0.5, **how)
    if hook is not None:
        model.register_comm_hook(group, hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler(DEVICE.type, enabled=is_mixed, init_scale=2.0**12)
    losses = []
    for step in range(STEPS):
        optimizer.zero_grad()
        for number in range(passes):
            images, labels = batch(step % 2 * passes + number)
            with contextlib.nullcontext() if number == passes - 1 else model.no_sync():
                with torch.autocast(DEVICE.type, torch.float16 if IS_GPU else torch.bfloat16, enabled=is_mixed):
                    loss = nn.functional.cross_entropy(model(images), labels) / passes
                scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        told = loss.detach().float().cpu()
        dist.all_reduce(told, group=GLOO)
        losses.append(float(told))
    return [*losses, float(sum(p.detach().double().sum() for p in model.parameters()))]


def same(what: str, tolerance: float = 1e-4, **how: Any) -> None:
    ours, gloos = losses_of(dist.group.WORLD, **how), losses_of(GLOO, **how)
    apart = max(abs(one - other) / max(1e-3, abs(other)) for one, other in zip(ours, gloos))
    if RANK == 0:
        print(f"    {what}: loss {ours[0]:.4f} to {ours[STEPS - 1]:.4f}, apart from Gloo's by {apart:.2e}", flush=True)
    expect(apart <= tolerance, f"{what}: {ours[:3]} {gloos[:3]} apart {apart}")
    expect(ours[STEPS - 1] < ours[0] or "mixed" in what, f"{what}: it does not learn: {ours}")


def ddp() -> None:
    same("plain")
    same("views", gradient_as_bucket_view=True)
    same("no_sync", passes=3)
    same("mixed", tolerance=2e-2, is_mixed=True)
    same("static graph", static_graph=True)


def ddp_with_hooks() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

    same("fp16", hook=default_hooks.fp16_compress_hook, tolerance=1e-2)
    if IS_GPU:  # PyTorch has no other
        same("sync batch norm", prepare=nn.SyncBatchNorm.convert_sync_batchnorm, tolerance=1e-3)


def parameters_start_equal() -> None:
    model = DistributedDataParallel(network(seed=RANK), device_ids=IDS)
    first = network(seed=0)
    for made, expected in zip(model.parameters(), first.parameters()):
        equal(made, expected, "broadcast by DDP")


def sharded() -> None:
    """FSDP2 beside the same steps of one process."""
    from torch.distributed.fsdp import fully_shard

    def make() -> nn.Sequential:
        torch.manual_seed(5)
        return nn.Sequential(nn.Linear(24, 96), nn.Tanh(), nn.Linear(96, 96), nn.Tanh(), nn.Linear(96, 8)).to(DEVICE)

    mesh = dist.init_device_mesh(DEVICE.type, (WORLD,))
    model, alone = make(), make()
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizers = [torch.optim.Adam(each.parameters(), lr=0.01) for each in (model, alone)]
    inputs = [torch.randn(4, 24, generator=torch.Generator().manual_seed(rank)).to(DEVICE) for rank in range(WORLD)]
    for _ in range(10):
        losses = [model(inputs[RANK]).square().mean(), alone(torch.cat(inputs)).square().mean()]
        for loss, optimizer in zip(losses, optimizers):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    for made, expected in zip(model.parameters(), alone.parameters()):
        whole = made.full_tensor()
        expect(torch.allclose(whole, expected, atol=2e-5), f"FSDP2: {float((whole - expected).abs().max())}")


def zero_optimizer() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    model = DistributedDataParallel(network(), device_ids=IDS)
    plain = DistributedDataParallel(network(), device_ids=IDS)
    sharded_adam = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.01)
    optimizers = [sharded_adam, torch.optim.Adam(plain.parameters(), lr=0.01)]
    for step in range(5):
        images, labels = batch(step)
        for each, optimizer in zip((model, plain), optimizers):
            optimizer.zero_grad()
            nn.functional.cross_entropy(each(images), labels).backward()
            optimizer.step()
    for made, expected in zip(model.parameters(), plain.parameters()):
        expect(torch.allclose(made, expected, atol=1e-4), f"ZeRO: {float((made - expected).abs().max())}")


if __name__ == "__main__":
    run([ddp, ddp_with_hooks, parameters_start_equal, sharded, zero_optimizer], RANK)
    dist.destroy_process_group()
