"""ronde.torch: collectives, DistributedOptimizer, the backend of torch.distributed under DDP, SyncBatchNorm."""

from __future__ import annotations

import io

import numpy as np
import ronde.torch as hvd
import torch
import training
from checks import Checks, check_collectives

hvd.init()
checks = Checks(hvd.rank(), hvd.size())
checks.holds("two ranks", hvd.size() == 2, hvd.size())
check_collectives(checks, hvd, torch.from_numpy)


def learn(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> np.ndarray:
    """The weights after all steps of this rank's part."""
    for inputs, targets in training.batches(training.part(hvd.rank(), hvd.size()), hvd.size()):
        optimizer.zero_grad()
        torch.nn.functional.mse_loss(model(torch.from_numpy(inputs)), torch.from_numpy(targets)).backward()
        optimizer.step()
    return next(model.parameters()).detach().numpy().T


def fresh() -> "tuple[torch.nn.Module, torch.optim.Optimizer]":
    """A linear model that begins differently on each rank, and its optimizer."""
    model = torch.nn.Linear(training.INPUTS, 1, bias=False)
    model.weight.data.copy_(torch.from_numpy(training.first_weights(hvd.rank()).T))
    return model, torch.optim.SGD(model.parameters(), lr=training.RATE, momentum=training.MOMENTUM)


model, optimizer = fresh()
hvd.broadcast_parameters(model.state_dict(), root_rank=0)
optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
hvd.broadcast_optimizer_state(optimizer, root_rank=0)
checks.same("DistributedOptimizer", learn(model, optimizer), training.learnt_alone())
saved = io.BytesIO()
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
saved.seek(0)
state = torch.load(saved)
optimizer.load_state_dict(state["optimizer"])
checks.holds("saved and loaded", bool(torch.equal(state["model"]["weight"], model.weight)))

layer = hvd.SyncBatchNorm(3, momentum=1.0)
layer(torch.from_numpy(checks.mine("batch", (8, 3), "float32") * np.float32(hvd.rank() + 1)))
scaled = np.concatenate([each * (rank + 1) for rank, each in enumerate(checks.all_of("batch", (8, 3)))])
checks.same("SyncBatchNorm", layer.running_mean.numpy(), scaled.mean(0), 1e-4)

import ronde.torch.distributed  # noqa: E402, F401 - registers the backend

torch.distributed.init_process_group("ronde")
model, optimizer = fresh()
checks.same("DDP", learn(torch.nn.parallel.DistributedDataParallel(model), optimizer), training.learnt_alone())
torch.distributed.destroy_process_group()
checks.end()
