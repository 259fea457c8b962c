"""A small training whose result is known to the last bit, for programs that do it with a framework on two ranks."""

from __future__ import annotations

from typing import Callable, Sequence

import torch
import torch.distributed as dist
from torch.utils.data import TensorDataset

from ronde import _process

SAMPLES = 48
BATCH = 4
EPOCHS = 2
RATE = 0.05

#: (step, rank, ranks) -> the samples that the rank takes.
Share = Callable[[int, int, int], Sequence[int]]


def sample_by_sample(step: int, rank: int, ranks: int) -> Sequence[int]:
    """How PyTorch's DistributedSampler deals samples out if it does not shuffle."""
    return range(step * BATCH * ranks + rank, (step + 1) * BATCH * ranks, ranks)


def batch_by_batch(step: int, rank: int, ranks: int) -> Sequence[int]:
    """How Accelerate deals them out."""
    return range((step * ranks + rank) * BATCH, (step * ranks + rank + 1) * BATCH)


def network() -> torch.nn.Module:
    torch.manual_seed(7)
    return torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))


def samples() -> TensorDataset:
    generator = torch.Generator().manual_seed(11)
    inputs = torch.randn(SAMPLES, 6, generator=generator)
    return TensorDataset(inputs, inputs.square().sum(1, keepdim=True).sqrt())


def check(trained: torch.nn.Module, share: Share) -> None:
    """The network, trained by the framework on all ranks of the default group, is what one process makes of the same
    batches, and Ronde has carried the gradients."""
    assert dist.get_backend() == "ronde", dist.get_backend()
    ranks = dist.get_world_size()
    assert ranks == 2, "halves are exact, thirds are not"
    steps = EPOCHS * SAMPLES // (BATCH * ranks)
    assert _process.counters()["requests"] >= steps
    expected, inputs, targets = network(), *samples().tensors
    optimizer = torch.optim.SGD(expected.parameters(), lr=RATE)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        for rank in range(ranks):
            mine = list(share(step % (steps // EPOCHS), rank, ranks))
            loss = torch.nn.functional.mse_loss(expected(inputs[mine]), targets[mine])
            (loss / ranks).backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.8 * losses[0], losses
    for mine, theirs in zip(trained.parameters(), expected.parameters(), strict=True):
        assert torch.equal(mine.detach(), theirs.detach()), (mine - theirs).abs().max()
    print(f"rank {dist.get_rank()} equal after {steps} steps", flush=True)
