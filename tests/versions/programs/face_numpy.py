"""ronde.numpy: collectives, in place too, a persistent all-reduce, and SGD by hand."""

from __future__ import annotations

import numpy as np
import ronde.numpy as hvd
import training
from checks import Checks, check_collectives

hvd.init()
checks = Checks(hvd.rank(), hvd.size())
checks.holds("two ranks", hvd.size() == 2, hvd.size())
check_collectives(checks, hvd, lambda array: array)

for dtype in ("float16", "float64", "int8", "uint16", "int64", "complex64"):
    mine = checks.mine(f"in place {dtype}", (33,), dtype)
    hvd.allreduce_(mine, op=hvd.Max if dtype[0] in "iu" else hvd.Sum)
    everyones = checks.all_of(f"in place {dtype}", (33,), dtype)
    checks.same(f"in place {dtype}", mine, np.max(everyones, 0) if dtype[0] in "iu" else np.sum(everyones, 0), 1e-3)
handle = hvd.allreduce_async(checks.mine("async", (9,)), op=hvd.Sum)
checks.same("async", hvd.synchronize(handle), np.sum(checks.all_of("async", (9,)), 0, dtype="float32"))
checks.same("turned", hvd.allreduce(checks.mine("turned", (3, 4)).T, op=hvd.Sum),
            np.sum(checks.all_of("turned", (3, 4)), 0, dtype="float32").T)

weights = hvd.broadcast(training.first_weights(hvd.rank()), 0)
velocity = np.zeros_like(weights)
for inputs, targets in training.batches(training.part(hvd.rank(), hvd.size()), hvd.size()):
    gradient = hvd.allreduce(2 * inputs.T @ (inputs @ weights - targets) / len(inputs))
    velocity = training.MOMENTUM * velocity + gradient
    weights = (weights - training.RATE * velocity).astype("float32")
checks.same("training", weights, training.learnt_alone())
checks.end()
