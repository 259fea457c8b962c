"""A rank of a training with PyTorch-Ignite over the backend ronde."""

from __future__ import annotations

import ignite.distributed as idist
import torch
import torch.distributed as dist
from ignite.engine import Events, create_supervised_trainer

import known_training
import ronde.torch  # noqa: F401  makes the name known

dist.init_process_group("ronde")
assert idist.backend() == "ronde" and idist.get_world_size() == 2
bare = known_training.network()
assert idist.auto_model(bare) is bare, "ignite wraps models for this backend: then docs/from-ddp.md must say so"
model = torch.nn.parallel.DistributedDataParallel(bare)
optimizer = idist.auto_optim(torch.optim.SGD(model.parameters(), lr=known_training.RATE))
batches = idist.auto_dataloader(
    known_training.samples(), batch_size=known_training.BATCH * idist.get_world_size(), shuffle=False
)
trainer = create_supervised_trainer(model, optimizer, torch.nn.functional.mse_loss)
means = []
trainer.add_event_handler(Events.EPOCH_COMPLETED, lambda engine: means.append(idist.all_reduce(engine.state.output)))
trainer.run(batches, max_epochs=known_training.EPOCHS)
assert means[-1] < means[0] and idist.all_gather(means[-1]) == [means[-1]] * 2, means
known_training.check(model.module, known_training.sample_by_sample)
dist.destroy_process_group()
