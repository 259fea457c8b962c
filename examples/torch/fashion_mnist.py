#!/usr/bin/env python3
"""Trains a small convolutional network on Fashion-MNIST, on as many processes as `ronde run` starts.

    ronde run -n 2 -- python fashion_mnist.py          two processes on this machine
    python fashion_mnist.py                            one process: the same script, the same result

What Ronde adds to an ordinary training script is marked with (1) to (5).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path

import fashion_mnist_data as data
import torch
import torch.nn.functional as F
from torch import nn
from tqdm import tqdm

import ronde.torch as hvd


def make_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.MaxPool2d(2), nn.ReLU(),
        nn.Conv2d(16, 32, 3, padding=1), nn.MaxPool2d(2), nn.ReLU(),
        nn.Flatten(), nn.Linear(32 * 7 * 7, 128), nn.ReLU(), nn.Linear(128, 10),
    )  # fmt: skip


def train(model: nn.Module, folder: Path, options: argparse.Namespace) -> dict[str, float]:
    images, labels = data.load(folder, "train")
    steps_per_epoch = len(images) // options.batch

    optimizer = torch.optim.Adam(model.parameters(), lr=options.lr)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())  # (2) average gradients
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)  # (3) start from the same weights
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, options.lr, total_steps=options.epochs * steps_per_epoch, pct_start=0.2
    )
    shuffle = torch.Generator().manual_seed(options.seed)  # the same order on every rank
    waits: list[tuple[float, float]] = []
    began = time.perf_counter()
    for epoch in range(options.epochs):
        order = torch.randperm(len(images), generator=shuffle)
        batches = order[: steps_per_epoch * options.batch].view(steps_per_epoch, options.batch)
        progress = tqdm(batches, f"epoch {epoch + 1}/{options.epochs}", unit="batch", mininterval=0.5,
                        disable=hvd.rank() != 0)  # fmt: skip
        for step, batch in enumerate(progress):
            mine = batch[hvd.rank() :: hvd.size()]  # (4) each rank reads its own share of the batch
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images[mine]), labels[mine])
            loss.backward()
            # `optimizer.step()` would do; waiting here, apart, is only to measure it.
            waits_from = time.perf_counter()
            optimizer.synchronize()
            waits.append((waits_from, time.perf_counter()))
            with optimizer.skip_synchronize():
                optimizer.step()
            schedule.step()
            if step % 50 == 0:
                progress.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
    seconds = time.perf_counter() - began
    return {"images_per_second": options.epochs * batches.numel() / seconds, **shares_of(waits, seconds)}


def shares_of(waits: list[tuple[float, float]], seconds: float) -> dict[str, float]:
    """What part of the time went in waiting, mean of the ranks, and what part of it in communication: in waiting while
    no rank was computing any more. The rest is waiting for the slower rank. Hosts share no clock: there the second is
    not a number."""
    mine = torch.tensor(waits, dtype=torch.float64)  # steps x (from, until)
    if hvd.local_size() < hvd.size():
        waiting = hvd.allreduce((mine[:, 1] - mine[:, 0]).sum() / seconds, name="waiting")
        return {"waiting": float(waiting), "communication": float("nan")}
    of_all = hvd.allgather(mine.unsqueeze(0), name="waits")
    all_wait_from = of_all[:, :, 0].amax(0)
    communication = (of_all[:, :, 1] - all_wait_from).clamp(min=0).sum(1).mean() / seconds
    waiting = (of_all[:, :, 1] - of_all[:, :, 0]).sum(1).mean() / seconds
    return {"waiting": float(waiting), "communication": float(communication)}


@torch.no_grad()
def accuracy(model: nn.Module, folder: Path) -> float:
    """The share of the test images that the model recognises; each rank looks at its own part of them."""
    images, labels = data.load(folder, "t10k")
    images, labels = images[hvd.rank() :: hvd.size()], labels[hvd.rank() :: hvd.size()]
    right = sum((model(x).argmax(1) == y).sum() for x, y in zip(images.split(500), labels.split(500)))
    counts = hvd.allreduce(torch.tensor([int(right), len(labels)]), op=hvd.Sum, name="right")  # (5) add up over ranks
    return float(counts[0] / counts[1])


def hash_of(model: nn.Module) -> str:
    digest = hashlib.sha256()
    for parameter in model.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    return digest.hexdigest()[:12]


def find_data(options: argparse.Namespace) -> Path:
    """The folder with the data set; ends the program with one sentence if there is none."""
    folder: Path = options.data
    if options.download and hvd.rank() == 0:
        data.download(folder)
    hvd.barrier()
    if not data.is_complete(folder):
        sentence = (
            f"Fashion-MNIST is not in {folder}: install Debian's package dataset-fashion-mnist, or name a folder that "
            "has it with --data, or add --download to that to fetch it."
        )
        sys.exit(sentence if hvd.rank() == 0 else 1)
    return folder


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=data.DEBIAN_FOLDER, help="folder with the four .gz files")
    parser.add_argument("--download", action="store_true", help="fetch them into --data first, 30 MB")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=128, help="images per step, over all ranks together")
    parser.add_argument("--lr", type=float, default=2e-3, help="highest learning rate")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the report to this file")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    hvd.init()  # (1) join the job; alone without `ronde run`
    torch.manual_seed(options.seed + hvd.rank())
    folder = find_data(options)
    model = make_model()
    report: dict[str, object] = {"ranks": hvd.size(), "threads_per_rank": torch.get_num_threads()}
    report.update(train(model, folder, options))
    report["accuracy"] = accuracy(model, folder)
    hashes = hvd.allgather_object(hash_of(model))
    report["weights"] = hashes[0] if len(set(hashes)) == 1 else "DIFFERENT: " + " ".join(hashes)
    same = ", the same bits on all ranks" if hvd.size() > 1 and len(set(hashes)) == 1 else ""
    if hvd.rank() == 0:
        print(f"\nFashion-MNIST, epochs: {options.epochs}, ranks: {hvd.size()}, threads each: {torch.get_num_threads()}")
        print(f"  test accuracy        {report['accuracy']:.1%}")
        print(f"  images per second    {report['images_per_second']:,.0f}")
        communication = report["communication"]
        of_it = "" if communication != communication else f", {communication:.1%} in communication"
        print(f"  waiting for others   {report['waiting']:.1%} of the training time{of_it}")
        print(f"  weights              {report['weights']}{same}")
        if options.json:
            options.json.write_text(json.dumps(report))
    sys.exit(0 if len(set(hashes)) == 1 else 1)


if __name__ == "__main__":
    main()
