"""A rank of a training with the Trainer of Hugging Face's transformers over the backend ronde."""

from __future__ import annotations

import tempfile
from typing import Any, Dict

import torch
import torch.distributed as dist
from transformers import Trainer, TrainingArguments

import known_training
import ronde.torch  # noqa: F401  makes the name known


class Network(torch.nn.Module):
    """The known network, with the loss that the Trainer asks a model for."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = known_training.network()

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> Dict[str, torch.Tensor]:
        """The loss, of this rank's samples."""
        return {"loss": torch.nn.functional.mse_loss(self.inner(inputs), targets)}


class Unshuffled(Trainer):
    """Takes the samples as they come."""

    def _get_train_sampler(self, dataset: Any = None) -> torch.utils.data.Sampler:
        return torch.utils.data.SequentialSampler(self.train_dataset)


dist.init_process_group("ronde")
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(  # without ddp_backend, which knows the names of some backends only
        output_dir=folder,
        use_cpu=True,
        num_train_epochs=known_training.EPOCHS,
        per_device_train_batch_size=known_training.BATCH,
        optim="sgd",
        learning_rate=known_training.RATE,
        lr_scheduler_type="constant",
        max_grad_norm=0.0,
        save_strategy="no",
        logging_strategy="no",
        report_to=[],
        disable_tqdm=True,
        remove_unused_columns=False,
        dataloader_pin_memory=False,
        average_tokens_across_devices=False,
    )
    assert arguments.world_size == 2, arguments.world_size
    samples = [{"inputs": inputs, "targets": targets} for inputs, targets in known_training.samples()]
    model = Network()
    Unshuffled(model=model, args=arguments, train_dataset=samples).train()
known_training.check(model.inner, known_training.batch_by_batch)
dist.destroy_process_group()
