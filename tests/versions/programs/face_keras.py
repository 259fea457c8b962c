"""ronde.keras and ronde.tensorflow.keras: values, model.fit with callbacks, and a saved model that goes on.

The argument is the module. KERAS_BACKEND and TF_USE_LEGACY_KERAS say which Keras it is for.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from typing import Any, List, Tuple

import numpy as np
import training
from checks import Checks

module = sys.argv[1]
hvd: Any = importlib.import_module(module)
keras: Any = importlib.import_module("keras") if module == "ronde.keras" else importlib.import_module("tensorflow").keras
if os.environ.get("TF_USE_LEGACY_KERAS") == "1" and not keras.optimizers.SGD.__module__.startswith("tf_keras."):
    sys.exit("tf.keras is not that of tf_keras")
hvd.init()
checks = Checks(hvd.rank(), hvd.size())
checks.holds("two ranks", hvd.size() == 2, hvd.size())
#: Keras 2 is older than the format ".keras" of Keras 3.
SUFFIX = ".keras" if hasattr(keras, "__version__") and keras.__version__ >= "3" else ".h5"


def make_model(seed: int) -> Any:
    """Two layers; weights by the seed alone."""
    model = keras.Sequential([keras.layers.Dense(8, activation="tanh"), keras.layers.Dense(1)])
    model.build((None, training.INPUTS))
    generator = np.random.default_rng(seed)
    model.set_weights([generator.normal(size=weight.shape).astype("float32") * 0.3 for weight in model.get_weights()])
    return model


def fit(model: Any, data: Tuple[Any, Any], size: int, callbacks: List[Any]) -> Any:
    """Two epochs; returns the losses of both."""
    history = model.fit(*data, batch_size=training.BATCH // size, shuffle=False, epochs=2, verbose=0, callbacks=callbacks)
    return np.asarray(history.history["loss"], "float32")


def flat(model: Any) -> Any:
    """All weights in one array."""
    return np.concatenate([np.asarray(weight).ravel() for weight in model.get_weights()])


for name, do, expect in (
    ("allreduce", hvd.allreduce, lambda all_of: np.mean(all_of, 0, dtype="float32")),
    ("allgather", hvd.allgather, np.concatenate),
    ("broadcast", lambda x: hvd.broadcast(x, 1), lambda all_of: all_of[1]),
    ("reducescatter", lambda x: hvd.reducescatter(x, op=hvd.Sum),
     lambda all_of: np.array_split(np.sum(all_of, 0, dtype="float32"), hvd.size())[hvd.rank()]),
):
    checks.same(name, do(checks.mine(name, (5, 2))), expect(checks.all_of(name, (5, 2))))

for kind in ("SGD", "Adam"):
    settings = {"momentum": training.MOMENTUM, "nesterov": True} if kind == "SGD" else {}
    plain = make_model(0)
    plain.compile(optimizer=getattr(keras.optimizers, kind)(0.02, **settings), loss="mse")
    model = make_model(hvd.rank())
    optimizer = hvd.DistributedOptimizer(getattr(keras.optimizers, kind)(0.02, **settings))
    model.compile(optimizer=optimizer, loss="mse")
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    data = training.part(hvd.rank(), hvd.size())
    checks.same(f"losses of {kind}", fit(model, data, hvd.size(), callbacks), fit(plain, training.whole(), 1, []), 1e-4)
    checks.same(f"weights by {kind}", flat(model), flat(plain), 1e-4)
    # A saved model goes on as a distributed one, with its optimizer's variables.
    with tempfile.TemporaryDirectory() as folder:
        model.save(path := os.path.join(folder, f"model{SUFFIX}"))
        loaded = hvd.load_model(path)
    fit(plain, training.whole(), 1, [])
    fit(loaded, data, hvd.size(), [])
    checks.same(f"weights by {kind}, loaded", flat(loaded), flat(plain), 1e-4)

model.fit(*training.part(hvd.rank(), hvd.size()), batch_size=training.BATCH // hvd.size(), epochs=4, verbose=0, callbacks=[
    hvd.callbacks.LearningRateWarmupCallback(0.1, warmup_epochs=2),
    hvd.callbacks.LearningRateScheduleCallback(0.1, 0.1, start_epoch=3)])
rates = np.asarray(model.history.history["lr"], "float32")
checks.holds("rates", bool(np.allclose(rates, [0.075, 0.1, 0.1, 0.01], rtol=1e-4)), rates)
checks.end()
