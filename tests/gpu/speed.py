"""How fast Ronde and Gloo are with tensors on one GPU, measured in turn in one job.

    ronde run -n 2 -- python tests/gpu/speed.py          RONDE_TEST_DEVICE=cpu tries it without a GPU

Times are of rank 0, in milliseconds: medians, and the quartiles beside them.
"""

from __future__ import annotations

import os
import statistics
import sys
import time
import warnings
from pathlib import Path
from typing import Any, Callable, Dict, List

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import ronde.torch as hvd
from checking import DEVICE, IS_GPU, set_up

sys.path.insert(0, os.environ.get("RONDE_EXAMPLES", str(Path(__file__).resolve().parents[2] / "examples" / "torch")))
from synthetic_benchmark import make_resnet

set_up()
warnings.simplefilter("ignore")
torch.backends.cudnn.deterministic = False
dist.init_process_group("ronde")
RANK, WORLD = dist.get_rank(), dist.get_world_size()
GLOO = dist.new_group(backend="gloo")
IDS = [0] if IS_GPU else None
IS_SHORT = not IS_GPU


def finish() -> None:
    if IS_GPU:
        torch.cuda.synchronize()


def measured(candidates: Dict[str, Callable[[], Any]], rounds: int, title: str) -> None:
    """Each does its work once a round, in turn; the ranks begin each together."""
    times: Dict[str, List[float]] = {name: [] for name in candidates}
    for number in range(-3, rounds):
        for name, work in candidates.items():
            finish()
            dist.barrier()
            began = time.perf_counter()
            work()
            finish()
            if number >= 0:
                times[name].append(1e3 * (time.perf_counter() - began))
    if RANK == 0:
        for name, spent in times.items():
            low, middle, high = statistics.quantiles(spent, n=4) if len(spent) > 1 else spent * 3
            print(f"{title:28} {name:24} {middle:9.3f}  ({low:.3f} to {high:.3f})", flush=True)


def reductions() -> None:
    for title, count, calls, rounds in (("4 KiB", 1 << 10, 20, 25), ("64 KiB", 1 << 14, 20, 25), ("1 MiB", 1 << 18, 10, 25),
                                        ("16 MiB", 1 << 22, 2, 11), ("64 MiB", 1 << 24, 1, 11)):  # fmt: skip
        tensor = torch.ones(count, device=DEVICE)

        def repeat(group: Any, is_async: bool = False) -> None:
            for _ in range(calls):
                tensor.fill_(1.0)
                work = dist.all_reduce(tensor, group=group, async_op=is_async)
                if is_async:
                    work.wait()

        def repeat_hvd() -> None:
            for _ in range(calls):
                tensor.fill_(1.0)
                hvd.allreduce_(tensor, op=hvd.Sum, name=title)

        measured(
            {"ronde": lambda: repeat(None), "ronde, async": lambda: repeat(None, True), "gloo": lambda: repeat(GLOO),
             "hvd.allreduce_": repeat_hvd}, 3 if IS_SHORT else rounds, f"{calls} x all_reduce {title}",
        )  # fmt: skip


def parts_of_a_copy() -> None:
    """What one all-reduce of 64 MiB consists of."""
    if not IS_GPU:
        return
    there = torch.ones(1 << 24, device=DEVICE)
    pinned, plain = torch.empty(1 << 24, pin_memory=True), torch.empty(1 << 24)
    shared = hvd.empty_shared(1 << 24)
    for each in (pinned, plain, shared):
        each.zero_()
    measured(
        {"to pinned": lambda: pinned.copy_(there), "to plain": lambda: plain.copy_(there), "cpu()": lambda: there.cpu(),
         "from pinned": lambda: there.copy_(pinned), "from plain": lambda: there.copy_(plain),
         "to shared": lambda: shared.copy_(there),
         "all_reduce, pinned": lambda: dist.all_reduce(pinned), "all_reduce, plain": lambda: dist.all_reduce(plain),
         "allreduce_, shared": lambda: hvd.allreduce_(shared, name="shared"),
         "pin 64 MiB anew": lambda: (torch._C._host_emptyCache() if hasattr(torch._C, "_host_emptyCache") else None,
                                     torch.empty(1 << 24, pin_memory=True))}, 9, "64 MiB",
    )  # fmt: skip
    small, small_pinned = torch.ones(1 << 10, device=DEVICE), torch.empty(1 << 10, pin_memory=True)

    def times(work: Callable[[], Any]) -> Callable[[], None]:
        return lambda: [work() for _ in range(100)] and None

    def through_pinned() -> None:
        torch.empty(1 << 10, pin_memory=True).copy_(small, non_blocking=True)
        torch.cuda.current_stream().synchronize()

    measured({"cpu()": times(lambda: small.cpu()), "through pinned": times(through_pinned),
              "from pinned": times(lambda: small.copy_(small_pinned)),
              "all_reduce on host": times(lambda: dist.all_reduce(small_pinned))}, 15, "100 x 4 KiB")  # fmt: skip


def trainers(make: Callable[[], nn.Module], inputs: torch.Tensor, labels: torch.Tensor) -> Dict[str, Callable[[], None]]:
    def step_of(model: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[[], None]:
        def step() -> None:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels).backward()
            optimizer.step()

        return step

    made: Dict[str, Callable[[], None]] = {}
    alone = make()
    made["no averaging"] = step_of(alone, torch.optim.SGD(alone.parameters(), lr=0.01))
    for name, group in (("DDP, ronde", dist.group.WORLD), ("DDP, gloo", GLOO)):
        for view in (False, True):
            model = DistributedDataParallel(make(), device_ids=IDS, process_group=group, gradient_as_bucket_view=view)
            made[name + (", views" if view else "")] = step_of(model, torch.optim.SGD(model.parameters(), lr=0.01))
    for kind in ("none", "fp16"):
        model = make()
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=0.01),
            named_parameters=[(f"{kind}.{len(made)}.{name}", p) for name, p in model.named_parameters()],
            compression=getattr(hvd.Compression, kind),
        )
        made[f"DistributedOptimizer, {kind}"] = step_of(model, optimizer)
    return made


def steps() -> None:
    small = IS_SHORT
    count = 4 if small else 32
    images, labels = torch.randn(count, 3, 64, 64, device=DEVICE), torch.zeros(count, dtype=torch.long, device=DEVICE)
    candidates = trainers(lambda: make_resnet(18, 16 if small else 64, 1000).to(DEVICE), images, labels)
    measured(candidates, 2 if small else 15, "step of ResNet-18")
    width = 256 if small else 2048
    candidates = trainers(
        lambda: nn.Sequential(*(layer for _ in range(6) for layer in (nn.Linear(width, width), nn.ReLU()))).to(DEVICE),
        torch.randn(64, width, device=DEVICE), torch.zeros(64, dtype=torch.long, device=DEVICE),
    )  # fmt: skip
    measured(candidates, 2 if small else 15, "step of a perceptron")


if __name__ == "__main__":
    if RANK == 0:
        what = torch.cuda.get_device_name(0) if IS_GPU else "no GPU"
        print(f"{what}, PyTorch {torch.__version__}, ranks: {WORLD}, cores: {len(os.sched_getaffinity(0))}", flush=True)
    for part in (reductions, parts_of_a_copy, steps):
        part()
    dist.destroy_process_group()
