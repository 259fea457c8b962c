"""ronde.jax: a call is made whether its result is used or not, also where a rank takes derivatives, or is refused on all."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from launching import run_job

import ronde.jax as rj


def ways():
    """Functions of a number that give its sum over the ranks."""
    def call(x):
        return rj.allreduce(x, op=rj.Sum)

    return {
        "plain": call,
        "jit": jax.jit(call),
        "checkpoint": jax.checkpoint(call),
        "scan": lambda x: lax.scan(lambda total, each: (total + call(each), None), 0.0, x[None])[0],
        "loop": lambda x: lax.fori_loop(0, 1, lambda _, x: call(x), x),
        "branch": lambda x: lax.cond(x > -1.0, call, lambda x: x, x),
        "two": lambda x: rj.grouped_allreduce([x, 2.0 * x], op=rj.Sum)[1] / 2.0,
        "rows": lambda x: rj.allgather(x[None]).sum(),
        "vmap": lambda x: jax.vmap(call)(x[None])[0],
    }


SAVING = functools.partial(jax.checkpoint, policy=jax.checkpoint_policies.everything_saveable)
OUTERS = ("plain", "checkpoint", "scan", "scan of checkpoint", "checkpoint of scan", "saving checkpoint of scan", "branch")


def outer(name, body):
    """The function of a pair that does what the body does, another way."""
    def scanned(w, x):
        (total, found), _ = lax.scan(lambda _, each: (body(w, each), None), (0.0 * x, 0.0 * x), x[None])
        return total, found

    if name in ("checkpoint", "scan of checkpoint"):
        body = jax.checkpoint(body)
    if name == "branch":
        return lambda w, x: lax.cond(w > -1.0, body, lambda w, x: (x, x), w, x)
    wrap = {"checkpoint of scan": jax.checkpoint, "saving checkpoint of scan": SAVING}.get(name, lambda function: function)
    return wrap(scanned if "scan" in name else body)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("around", OUTERS)
def test_a_call_whose_result_one_rank_does_not_use(rank, world, around):
    """JAX dropped it in the derivative of a scan, on that rank only: sums were of two steps from then on, with success."""
    def step(way, uses):
        def body(w, x):
            found = way(jax.lax.stop_gradient(x))
            return w * x, found if uses else x

        return jax.jit(jax.value_and_grad(outer(around, body), has_aux=True))

    for name, way in ways().items():
        steps = {uses: step(way, uses) for uses in (True, False)}
        for number in range(4):
            uses = not (rank == 0 and number == 1)
            x = 10.0 * number + rank
            (_, found), gradient = steps[uses](2.0, x)
            assert float(found) == (20.0 * number + 1 if uses else x), (name, number)
            assert float(gradient) == x, (name, number)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("around", ["plain", "checkpoint", "saving checkpoint", "scan"])
def test_a_call_whose_operand_does_not_change_on_one_rank(rank, world, around):
    """JAX made it once, before the loop, on that rank only: it met the other rank's in other iterations and steps."""
    wrap = {"checkpoint": jax.checkpoint, "saving checkpoint": SAVING}.get(around, lambda function: function)

    def iterations(w, x):
        def body(total, each):
            mine = lax.stop_gradient(2.0 * each) if rank == 0 else jnp.zeros(())
            return total + w * each, rj.broadcast(mine, 0)

        if around != "scan":
            return lax.scan(body, 0.0, x)
        total, found = lax.scan(lambda total, each: lax.scan(body, total, each), 0.0, x.reshape(3, 2))
        return total, found.ravel()

    step = jax.jit(jax.value_and_grad(wrap(iterations), has_aux=True))
    for number in range(3):
        x = 100.0 * number + np.arange(6.0)
        (_, found), gradient = step(2.0, x)
        np.testing.assert_array_equal(found, 2.0 * x)
        assert float(gradient) == x.sum()


UNSEEN = """
import functools, jax, jax.numpy as jnp, ronde.jax as rj
from jax import lax
from jax.custom_derivatives import linear_call
from jax.experimental.scheduling_groups import scheduling_group
rj.init()
rank = rj.rank()
call = lambda x: rj.allreduce(x, op=rj.Sum)

@jax.custom_vjp
def with_rule(x):
    return call(x)

with_rule.defvjp(lambda x: (call(x), None), lambda _, gradient: (gradient,))
ways = {
    "linear": lambda x: linear_call(lambda _, x: call(x), lambda _, gradient: gradient, (), x),
    "composite": lambda x: lax.composite(call, name="my.sum")(x),
    "in a branch": lambda x: lax.cond(x > 0, lambda x: lax.composite(call, name="my.sum")(x), lambda x: x, x),
    "scheduled": lambda x: scheduling_group("one")(call)(x),
    "solve": lambda x: lax.custom_linear_solve(lambda x: 2.0 * x, x, lambda _, x: call(x), symmetric=True),
    "remat": jax.checkpoint(call),
    "rule": with_rule,
    "scan": lambda x: lax.scan(lambda x, _: (call(x), None), x, length=1)[0],
    "of gradients only": lambda x: call(linear_call(lambda _, x: 1.0 * x, lambda _, gradient: call(gradient), (), x)),
}
for name, way in ways.items():
    @functools.partial(jax.jit, static_argnums=1)
    def step(x, uses):
        found = way(x)
        return found if uses else x

    told = []
    for number in range(6):
        uses = not (rank == 0 and number in (2, 3))
        try:
            found = float(step(jnp.float32(10 * number + rank + 1), uses))
            told.append("right" if found == (20 * number + 3 if uses else 10 * number + rank + 1) else "wrong")
        except NotImplementedError as error:
            told.append("refused" if "within JAX's" in str(error) else "failed")
        except Exception:
            told.append("failed")
    print(name + ":", *sorted(set(told)))
"""


@pytest.mark.parametrize("way", ["1", "0"])
def test_a_call_of_which_jax_does_not_know_is_refused(tmp_path, way):
    """JAX drops an operation whose result nobody uses, and what is in it: a rank left the call out, and its next one met the
    others'."""
    program = tmp_path / "program.py"
    program.write_text(UNSEEN)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="2", RONDE_JAX_FFI=way, forked="jax")
    assert ended.code == 0 and "wrong" not in ended.output, ended.output
    refused = "refused" if way == "1" else "failed"  # by JAX itself, where calls go through its callbacks
    for name in ("linear", "composite", "in a branch", "scheduled"):
        # A rank that has dropped the call has nothing to refuse.
        told = "refused" if name == "scheduled" else refused
        assert sorted(ended.lines(f"{name}:")) == [f"{name}: {told}", f"{name}: {told} right"], ended.output
    for name in ("solve", "remat", "rule", "scan", "of gradients only"):
        assert ended.lines(f"{name}:") == [f"{name}: right"] * 2, ended.output
