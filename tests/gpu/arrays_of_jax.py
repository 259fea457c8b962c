"""``ronde.jax`` where JAX computes on a GPU."""

from __future__ import annotations

import os
import sys
import traceback

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")  # the ranks share the GPU
if os.environ.get("RONDE_TEST_DEVICE") == "cpu":
    os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np

import ronde.jax as rj

rj.init()
RANK, WORLD = rj.rank(), rj.size()
PLATFORM = jax.default_backend()
MEAN = (WORLD - 1) / 2


def near(made, expected, what: str) -> None:
    assert all(device.platform == PLATFORM for device in made.devices()), f"{what}: on {made.devices()}"
    np.testing.assert_allclose(np.asarray(made), np.asarray(expected), rtol=1e-6, err_msg=what)


def at_once() -> None:
    for count in (0, 1, 1023, 1 << 20):
        near(rj.allreduce(jnp.arange(count, dtype=jnp.float32) + RANK), np.arange(count) + MEAN, "allreduce")
        near(rj.broadcast(jnp.full(count, float(RANK)), WORLD - 1), np.full(count, WORLD - 1.0), "broadcast")
    near(rj.allgather(jnp.full((2, 3), float(RANK))), np.repeat(np.arange(WORLD), 2)[:, None] * np.ones((1, 3)), "allgather")
    tree = rj.broadcast_parameters({"w": jnp.full((3, 4), float(RANK)), "b": [jnp.arange(3) + RANK]}, root_rank=WORLD - 1)
    near(tree["w"], np.full((3, 4), WORLD - 1.0), "broadcast_parameters")
    near(tree["b"][0], np.arange(3) + WORLD - 1, "broadcast_parameters")


def compiled() -> None:
    @jax.jit
    def program(x):
        y = x @ x.T
        return rj.allreduce(y), rj.broadcast(x + 1, 0), rj.allgather(x[:1])

    for turn in range(5):
        x = jnp.ones((64, 64)) * (RANK + turn)
        total, first, rows = program(x)
        near(total, np.full((64, 64), np.mean([64.0 * (r + turn) ** 2 for r in range(WORLD)])), "allreduce in jit")
        near(first, np.full((64, 64), turn + 1.0), "broadcast in jit")
        near(rows, np.repeat(np.arange(WORLD) + turn, 64).reshape(WORLD, 64), "allgather in jit")


def training() -> None:
    def loss_of(w, x):
        return ((x @ w - x.sum(1)) ** 2).mean()

    @jax.jit
    def step(w, x):
        loss, gradient = jax.value_and_grad(loss_of)(w, x)
        return w - 0.1 * rj.allreduce(gradient), rj.allreduce(loss)

    w = alone = jnp.zeros(8)
    for number in range(20):
        batches = [jax.random.normal(jax.random.key(number * WORLD + r), (32, 8)) for r in range(WORLD)]
        w, loss = step(w, batches[RANK])
        alone = alone - 0.1 * jax.grad(loss_of)(alone, jnp.concatenate(batches))
    np.testing.assert_allclose(np.asarray(w), np.asarray(alone), rtol=1e-3, atol=1e-4)


if __name__ == "__main__":
    has_failed = False
    for check in (at_once, compiled, training):
        try:
            check()
            print(f"rank {RANK}: {check.__name__} on {PLATFORM}: as expected", flush=True)
        except Exception:
            has_failed = True
            print(f"rank {RANK}: {check.__name__} FAILED: {traceback.format_exc()}", flush=True)
    rj.shutdown()
    sys.exit(has_failed)
