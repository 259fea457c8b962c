"""ronde.jax: collectives at once and in jax.jit, under grad, scan and vmap; optax's optimizer in a compiled step."""

from __future__ import annotations

import os
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import ronde.jax as hvd
import training
from checks import Checks, check_collectives

hvd.init()
checks = Checks(hvd.rank(), hvd.size())
checks.holds("two ranks", hvd.size() == 2, hvd.size())


def rows(of_all: Any) -> Any:
    """An all-gather in a compiled program cannot ask the ranks."""
    return {"rows": of_all}


check_collectives(checks, hvd, jnp.asarray, "at once", rows_of_all=rows)
check_collectives(checks, hvd, jnp.asarray, "jit", lambda function, *arrays: jax.jit(function)(*arrays), rows)

mine = jnp.asarray(checks.mine("several", (4, 3)))
sums = np.sum(checks.all_of("several", (4, 3)), 0, dtype="float32")
first, second = jax.jit(lambda x: (hvd.allreduce(x, op=hvd.Sum), hvd.allreduce(2 * x, op=hvd.Sum)))(mine)
checks.same("two calls of one program", np.stack([first, second]), np.stack([sums, 2 * sums]))
gradient = jax.jit(jax.grad(lambda x: (hvd.allreduce(x, op=hvd.Sum) * mine).sum()))(mine)
checks.same("grad", gradient, sums)
_, scanned = jax.jit(lambda x: jax.lax.scan(lambda carry, row: (carry, hvd.allreduce(row, op=hvd.Sum)), 0, x))(mine)
checks.same("scan", scanned, sums)


def calls_in_derivative(is_used: bool) -> int:
    """Of a function that scans rows, and averages each besides: so many calls has the compiled program."""
    def loss(scale: Any) -> Any:
        def body(total: Any, row: Any) -> Any:
            average = hvd.allreduce(jax.lax.stop_gradient(row))
            return total + (scale * row).sum(), average.sum() if is_used else row.sum()

        total, averages = jax.lax.scan(body, 0.0, mine)
        return total, averages

    text = jax.jit(jax.value_and_grad(loss, has_aux=True)).lower(2.0).as_text()
    return text.count("@ronde_jax_start") + text.count("@ronde_jax_collective")


if tuple(map(int, jax.__version__.split(".")[:2])) >= (0, 7):  # before, JAX drops it (docs/jax.md)
    kept = [calls_in_derivative(True), calls_in_derivative(False)]
    checks.holds("a call in the derivative of a scan whose result nobody uses", kept == [1, 1], kept)
# Only where XLA calls Ronde's library itself: what goes through Python knows no vmap.
checks.same("vmap", jax.jit(jax.vmap(lambda row: hvd.allreduce(row, op=hvd.Sum)))(mine), sums)

try:
    jax.jit(lambda x: hvd.allreduce(x, name="mismatch"))(jnp.zeros(3 + hvd.rank())).block_until_ready()
    found = "no error"
except Exception as error:  # which one, depends on JAX and on who comes last
    found = str(error)
checks.holds("a mismatch is told", "mismatch" in found and "shape" in found, found)

parameters = hvd.broadcast_parameters({"weights": jnp.asarray(training.first_weights(hvd.rank()))})
optimizer = hvd.DistributedOptimizer(optax.sgd(training.RATE, momentum=training.MOMENTUM))
state = optimizer.init(parameters)


@jax.jit
def step(parameters: Any, state: Any, inputs: Any, targets: Any) -> Any:
    """One step of this rank's part of a batch."""
    gradients = jax.grad(lambda of: ((inputs @ of["weights"] - targets) ** 2).mean())(parameters)
    updates, state = optimizer.update(gradients, state, parameters)
    return optax.apply_updates(parameters, updates), state


for inputs, targets in training.batches(training.part(hvd.rank(), hvd.size()), hvd.size()):
    parameters, state = step(parameters, state, inputs, targets)
checks.same("DistributedOptimizer", parameters["weights"], training.learnt_alone())

# An execution of this rank's that fails before its first call is known by XLA's run ids: are they what they are thought to be?
hvd.shutdown()
os.environ["RONDE_TIMEOUT_S"] = "2"
hvd.init()
raises = False


def look(x: Any) -> Any:
    if raises:
        raise RuntimeError("the callback's own")
    return np.asarray(x)


seen = jax.jit(lambda x: hvd.allreduce(jax.pure_callback(look, jax.ShapeDtypeStruct(x.shape, x.dtype), x), op=hvd.Sum))
found = []
for number in range(8 if jax.__version_info__ >= (0, 6) else 0):
    raises = number == 3 and hvd.rank() == 1
    try:
        found.append(float(seen(jnp.full(3, 10.0 * number + hvd.rank()))[0]) == 20.0 * number + 1)
    except Exception:
        found.append(None)
checks.holds("an execution without calls", False not in found and None not in found[5:], found)
checks.end()
