"""A rank of a training with Hugging Face Accelerate over the backend ronde."""

from __future__ import annotations

import torch
import torch.distributed as dist
from accelerate import Accelerator

import known_training
import ronde.torch  # noqa: F401  makes the name known

dist.init_process_group("ronde")
accelerator = Accelerator(cpu=True)
assert accelerator.num_processes == 2, accelerator.state
model = known_training.network()
batches = torch.utils.data.DataLoader(known_training.samples(), batch_size=known_training.BATCH)
model, optimizer, batches = accelerator.prepare(
    model, torch.optim.SGD(model.parameters(), lr=known_training.RATE), batches
)
for _ in range(known_training.EPOCHS):
    for inputs, targets in batches:
        optimizer.zero_grad()
        accelerator.backward(torch.nn.functional.mse_loss(model(inputs), targets))
        optimizer.step()
ranks = accelerator.gather(torch.tensor([accelerator.process_index]))
assert ranks.tolist() == [0, 1], ranks
known_training.check(accelerator.unwrap_model(model), known_training.batch_by_batch)
accelerator.end_training()  # which ends the group too
