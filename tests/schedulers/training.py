"""A few steps of training with averaged gradients, which every launcher is to run with the same result."""

from __future__ import annotations

from typing import Any, Dict, List

STEPS = 5


def train_torch(rate: float) -> List[float]:
    """The parameters after some steps, the same on all ranks."""
    import torch

    import ronde.torch as hvd

    hvd.init()
    torch.set_num_threads(1)
    torch.manual_seed(7)
    model = torch.nn.Linear(6, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    generator = torch.Generator().manual_seed(hvd.rank())
    for _ in range(STEPS):
        inputs = torch.randn(16, 6, generator=generator)
        optimizer.zero_grad()
        (model(inputs) - inputs.sum(1, keepdim=True)).square().mean().backward()
        optimizer.step()
    return [value for parameter in model.parameters() for value in parameter.detach().flatten().tolist()]


def train_numpy(rate: float) -> List[float]:
    """The same of a linear regression in NumPy."""
    import numpy as np

    import ronde.numpy as hvd

    hvd.init()
    random = np.random.default_rng(hvd.rank())
    weights = np.zeros(4)
    for _ in range(STEPS):
        inputs = random.normal(size=(32, 4))
        errors = inputs @ weights - inputs.sum(1)
        weights -= rate * hvd.allreduce(inputs.T @ errors / 32, hvd.Average, name="gradient")
    return [float(value) for value in weights]


def train(rate: float) -> Dict[str, Any]:
    """Both, and who this rank is."""
    import ronde.numpy as hvd

    result: Dict[str, Any] = {"numpy": train_numpy(rate), "torch": train_torch(rate)}
    return {**result, "who": (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size())}
