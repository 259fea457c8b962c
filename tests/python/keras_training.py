"""A small model of Keras 3 and a training run, the same for every backend and number of ranks: rank r reads every size-th
example from the r-th on, so that all ranks together read the batches that one process reads."""

from __future__ import annotations

from typing import Any, List

import numpy as np

#: Of all ranks together; a multiple of the numbers of ranks that are tested.
GLOBAL_BATCH = 24
STEPS = 50


def make_model(keras: Any, seed: int = 0) -> Any:
    """Two layers; weights by the seed alone, whatever the backend."""
    model = keras.Sequential([keras.Input((6,)), keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(size=weight.shape).astype("float32") * 0.3 for weight in model.get_weights()])
    return model


def make_data(rank: int, size: int, steps: int = STEPS) -> Any:
    """Inputs and targets of this rank."""
    generator = np.random.default_rng(7)
    inputs = generator.normal(size=(GLOBAL_BATCH * steps, 6)).astype("float32")
    targets = np.sin(inputs.sum(1, keepdims=True)).astype("float32")
    return inputs[rank::size], targets[rank::size]


def make_optimizer(keras: Any, kind: str) -> Any:
    """One of those that are compared."""
    if kind == "adam":
        return keras.optimizers.Adam(0.01)
    if kind == "clipped":
        return keras.optimizers.SGD(0.05, momentum=0.9, global_clipnorm=0.5)
    if kind == "ema":
        return keras.optimizers.SGD(0.05, use_ema=True, ema_momentum=0.9, ema_overwrite_frequency=7)
    if kind == "accumulating":
        return keras.optimizers.SGD(0.05, momentum=0.9, clipnorm=0.5, gradient_accumulation_steps=3)
    if kind == "scaled":
        return keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), initial_scale=8.0, dynamic_growth_steps=10)
    return keras.optimizers.SGD(0.05, momentum=0.9, nesterov=True)




def record(keras: Any) -> Any:
    """A callback with ``losses``, the running mean over an epoch after each batch."""

    class Recorder(keras.callbacks.Callback):
        def __init__(self) -> None:
            super().__init__()
            self.losses: List[float] = []

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            self.losses.append(float(logs["loss"]))

    return Recorder()


def fit(keras: Any, optimizer: Any, rank: int, size: int, callbacks: Any = (), model: Any = None, **compiling: Any) -> Any:
    """One epoch of STEPS batches; the model and the running mean of the loss after each batch."""
    model = make_model(keras) if model is None else model
    model.compile(optimizer=optimizer, loss=keras.losses.MeanSquaredError(), **compiling)
    inputs, targets = make_data(rank, size)
    recorder = record(keras)
    model.fit(
        inputs, targets, batch_size=GLOBAL_BATCH // size, shuffle=False, epochs=1, verbose=0,
        callbacks=[*callbacks, recorder],
    )
    return model, np.array(recorder.losses)
