"""A training step of torch's DistributedDataParallel over Gloo or over Ronde, or of ronde.torch's DistributedOptimizer,
and what of it is exposed communication: its time less that of the same step without communication, taken in turn in the
same processes.

One thread a rank. The multi-layer perceptron has 50 MB of gradients: with 16 samples a rank communication and computing
take about as long, with one sample there is little to compute and communication is most of the step. The small
convolutional network mostly computes.
"""

from __future__ import annotations

import argparse
import json
import statistics

import torch
from torch import nn

from ranks import Rank, join_torch_gloo, summary


def mlp(samples: int = 16) -> tuple[nn.Module, torch.Tensor]:
    layers = [layer for _ in range(3) for layer in (nn.Linear(2048, 2048), nn.ReLU())]
    return nn.Sequential(*layers, nn.Linear(2048, 10)), torch.randn(samples, 2048)


def mlp_batch_1() -> tuple[nn.Module, torch.Tensor]:
    return mlp(samples=1)


def cnn() -> tuple[nn.Module, torch.Tensor]:
    layers: list[nn.Module] = []
    channels = 3
    for width in (32, 64, 128, 256):
        layers += [nn.Conv2d(channels, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                   nn.MaxPool2d(2)]
        channels = width
    layers += [nn.Flatten(), nn.Linear(256 * 4, 256), nn.ReLU(), nn.Linear(256, 10)]
    return nn.Sequential(*layers), torch.randn(16, 3, 32, 32)


MODELS = {"mlp": mlp, "mlp_batch_1": mlp_batch_1, "cnn": cnn}


class Step:
    """One step of a model, called again and again."""

    def __init__(self, model, images, optimizer):
        self.model, self.images, self.optimizer = model, images, optimizer
        self.labels = torch.randint(0, 10, (len(images),))

    def __call__(self):
        self.optimizer.zero_grad()
        nn.functional.cross_entropy(self.model(self.images), self.labels).backward()
        self.optimizer.step()

    def checksum(self) -> float:
        return sum(parameter.double().sum().item() for parameter in self.model.parameters())


def make_model(name: str):
    torch.manual_seed(1)  # the same weights on all ranks
    return MODELS[name]()


def sgd(model):
    return torch.optim.SGD(model.parameters(), lr=1e-3)


def join_torch_ronde():
    """The same on Ronde's backend; `ronde run` says who meets whom."""
    import torch.distributed as dist

    import ronde.torch  # noqa: F401: makes the backend known

    dist.init_process_group("ronde")
    return dist


def ddp_step(name, place, dist):
    model, images = make_model(name)
    parallel = nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    return Step(parallel, images + place.rank, sgd(parallel)), dist.destroy_process_group


def gloo_ddp_step(name, place):
    return ddp_step(name, place, join_torch_gloo(place))


def ronde_ddp_step(name, place):
    return ddp_step(name, place, join_torch_ronde())


def ronde_step(name, place):
    import ronde.torch as hvd

    hvd.init()
    model, images = make_model(name)
    optimizer = hvd.DistributedOptimizer(sgd(model), named_parameters=model.named_parameters())
    return Step(model, images + place.rank, optimizer), hvd.shutdown


STEPS = {"gloo": gloo_ddp_step, "ronde_ddp": ronde_ddp_step, "ronde": ronde_step}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("contestant", choices=STEPS)
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--steps", type=int, default=20)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    place = Rank()
    step, leave = STEPS[arguments.contestant](arguments.model, place)
    place.stay_on_own_core()
    model, images = make_model(arguments.model)
    alone = Step(model, images, sgd(model))
    for _ in range(3):
        step()
        alone()
    with_others, without = [], []
    for _ in range(arguments.steps):
        with_others.append(place.timed(step))
        without.append(place.timed(alone))
    checksums = place.everyone(step.checksum())
    if any(checksum != checksums[0] for checksum in checksums):
        raise AssertionError(f"the ranks' weights differ after training: sums {checksums}")
    if place.rank == 0:
        compute_us = statistics.median(without) * 1e6
        exposed = [a - b for a, b in zip(with_others, without)]
        line = {
            "peer": arguments.contestant, "op": "training_step", "model": arguments.model, "ranks": place.size, "bytes": sum(4 * parameter.numel() for parameter in model.parameters()),
            "compute_us": round(compute_us, 3), "exposed_us": round(statistics.median(exposed) * 1e6, 3),
        }
        print(json.dumps(line | summary(with_others)), flush=True)
    leave()


if __name__ == "__main__":
    main()
