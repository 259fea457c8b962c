"""A rank of a training with PyTorch Lightning over the backend ronde."""

from __future__ import annotations

import logging
import warnings

import lightning
import torch
from lightning.pytorch.strategies import DDPStrategy

import known_training
import ronde.torch  # noqa: F401  makes the name known


class Known(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = known_training.network()

    def training_step(self, batch: list[torch.Tensor], _: int) -> torch.Tensor:
        inputs, targets = batch
        loss = torch.nn.functional.mse_loss(self.network(inputs), targets)
        self.log("loss", loss, sync_dist=True)
        return loss

    def train_dataloader(self) -> torch.utils.data.DataLoader:
        samples = known_training.samples()
        sampler = torch.utils.data.DistributedSampler(
            samples, self.trainer.world_size, self.trainer.global_rank, shuffle=False  # Lightning's own would
        )
        return torch.utils.data.DataLoader(samples, batch_size=known_training.BATCH, sampler=sampler)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=known_training.RATE)

    def on_train_end(self) -> None:
        known_training.check(self.network, known_training.sample_by_sample)


warnings.filterwarnings("ignore", message=".*num_workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
trainer = lightning.Trainer(
    strategy=DDPStrategy(process_group_backend="ronde"), accelerator="cpu", devices=2, max_epochs=known_training.EPOCHS,
    logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
trainer.fit(Known())
