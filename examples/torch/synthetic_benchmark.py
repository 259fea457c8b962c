#!/usr/bin/env python3
"""How many made-up images a second a ResNet trains on, with the gradients averaged over all ranks.

    ronde run -n 2 -- python synthetic_benchmark.py          --help lists what can be varied

Each rank trains on a batch of its own that never changes, so no disk and no decoding is in the way: what is lost from
one rank to several is the price of averaging and of sharing the machine.
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
import torch.nn.functional as F
from torch import nn

import ronde.torch as hvd

#: Blocks of each of the four stages, and whether a block is a bottleneck of three convolutions.
DEPTHS = {18: ((2, 2, 2, 2), False), 34: ((3, 4, 6, 3), False), 50: ((3, 4, 6, 3), True), 101: ((3, 4, 23, 3), True)}


def convolution(inputs: int, outputs: int, size: int, stride: int = 1) -> nn.Sequential:
    """A convolution without bias, and the normalisation after it."""
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, size, stride, padding=size // 2, bias=False), nn.BatchNorm2d(outputs)
    )


class Block(nn.Module):
    """A residual block: its convolutions' result is added to its input."""

    def __init__(self, inputs: int, width: int, stride: int, is_bottleneck: bool) -> None:
        super().__init__()
        outputs = 4 * width if is_bottleneck else width
        if is_bottleneck:
            sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, outputs, 1, 1)]
        else:
            sizes = [(inputs, width, 3, stride), (width, outputs, 3, 1)]
        layers: list[nn.Module] = []
        for number, size in enumerate(sizes):
            layers += [nn.ReLU()] if number > 0 else []
            layers += [convolution(*size)]
        self.layers = nn.Sequential(*layers)
        is_same = stride == 1 and inputs == outputs
        self.shortcut = nn.Identity() if is_same else convolution(inputs, outputs, 1, stride)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.relu(self.layers(x) + self.shortcut(x))


def make_resnet(depth: int, width: int, classes: int) -> nn.Sequential:
    """``width``: channels of the first stage, 64 in the usual networks."""
    blocks, is_bottleneck = DEPTHS[depth]
    layers: list[nn.Module] = [convolution(3, width, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)]
    channels = width
    for stage, count in enumerate(blocks):
        for number in range(count):
            stride = 2 if stage > 0 and number == 0 else 1
            layers.append(Block(channels, width << stage, stride, is_bottleneck))
            channels = (width << stage) * (4 if is_bottleneck else 1)
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def parse_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, choices=DEPTHS, default=18, help="layers of the ResNet")
    parser.add_argument("--width", type=int, default=64, help="channels of its first stage")
    parser.add_argument("--image", type=int, default=64, help="pixels of an image's side")
    parser.add_argument("--batch", type=int, default=16, help="images per step and rank")
    parser.add_argument("--warmup", type=int, default=3, help="steps before the clock runs")
    parser.add_argument("--rounds", type=int, default=5, help="how often the speed is taken")
    parser.add_argument("--steps", type=int, default=5, help="steps per round")
    parser.add_argument("--compression", choices=["none", "fp16", "bf16"], default="none", help="what travels")
    parser.add_argument("--device", default="cpu", help="where each rank computes: cpu, cuda, ...")
    return parser.parse_args()


def main() -> None:
    options = parse_options()
    hvd.init()
    device = torch.device(options.device)
    if device.type == "cuda":
        torch.cuda.set_device(hvd.local_rank() % torch.cuda.device_count())  # ranks may have to share one
    torch.manual_seed(hvd.rank())
    model = make_resnet(options.depth, options.width, classes=1000).to(device)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9),
        named_parameters=model.named_parameters(),
        compression=getattr(hvd.Compression, options.compression),
    )
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    images = torch.randn(options.batch, 3, options.image, options.image, device=device)
    labels = torch.randint(0, 1000, (options.batch,), device=device)

    def train(steps: int) -> float:
        """Returns the seconds that so many steps take."""
        began = time.perf_counter()
        for _ in range(steps):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
        loss.item()  # an accelerator may still be at it
        return time.perf_counter() - began

    if hvd.rank() == 0:
        millions = sum(parameter.numel() for parameter in model.parameters()) / 1e6
        print(f"ResNet-{options.depth}, {millions:.1f} million parameters, {options.batch} images of {options.image} x "
              f"{options.image} per rank, ranks: {hvd.size()}, threads each: {torch.get_num_threads()}")  # fmt: skip
    if options.warmup > 0:
        train(options.warmup)
    speeds = [options.steps * options.batch / train(options.steps) for _ in range(options.rounds)]
    own = torch.tensor([statistics.mean(speeds), statistics.pstdev(speeds)], dtype=torch.float64)
    of_ranks = hvd.allgather(own.unsqueeze(0), name="speeds")
    if hvd.rank() == 0:
        for rank, (mean, deviation) in enumerate(of_ranks.tolist()):
            print(f"  rank {rank}: {mean:.1f} +- {deviation:.1f} images per second")
        print(f"  total: {float(of_ranks[:, 0].sum()):.1f} images per second")


if __name__ == "__main__":
    main()
