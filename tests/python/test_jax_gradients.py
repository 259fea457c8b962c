"""ronde.jax: derivatives of collectives, optimizers on averaged gradients, and the same start."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
from launching import run_job

import ronde.jax as rj
from ronde.exceptions import InvalidArgumentError, UnsupportedError

FEW = pytest.mark.ranks(2, 3, long=(3,))
BOTH = pytest.mark.parametrize("way", [jax.jit, lambda function: function], ids=["jit", "at_once"])


@FEW
@BOTH
def test_rules(hvd, rank, world, way):
    """Horovod's: the collective that brings the other ranks' gradients here. Rank r weighs what it gets by r + 1."""
    weight = float(rank + 1)
    total, mean = world * (world + 1) / 2, (world + 1) / 2
    rows = jnp.arange(2.0 * world).reshape(world, 2)

    def gradient(function, x=rows):
        return np.asarray(way(jax.grad(lambda x: (function(x) * weight).sum()))(x))

    assert (gradient(lambda x: rj.allreduce(x, op=rj.Sum)) == total).all()
    assert (gradient(rj.allreduce) == pytest.approx(mean))
    assert (gradient(lambda x: rj.allreduce(x, op=rj.Sum, prescale_factor=3.0)) == 3 * total).all()
    assert (gradient(lambda x: rj.grouped_allreduce({"a": x, "b": 2 * x}, op=rj.Sum)["b"]) == 2 * total).all()
    assert gradient(lambda x: rj.broadcast(x, 1)) == pytest.approx(mean if rank == 1 else 0.0)
    assert gradient(rj.allgather) == pytest.approx(mean)
    everyones = np.repeat(np.arange(1.0, world + 1)[:, None], 2, 1)
    assert np.array_equal(gradient(rj.alltoall), everyones)
    assert np.array_equal(gradient(lambda x: rj.reducescatter(x, op=rj.Sum)), world * everyones)
    assert np.array_equal(gradient(rj.reducescatter), everyones)
    assert (gradient(lambda x: rj.barrier(x)) == weight).all()


@FEW
def test_own_rows_of_a_gathered_gradient(hvd, rank, world):
    counts = list(range(world))  # the first has none, and takes part
    weights = jnp.arange(float(sum(counts)))
    gradient = jax.jit(jax.grad(lambda x: (rj.allgather(x, rows=counts) * weights).sum()))(jnp.ones(rank))
    assert gradient.tolist() == np.split(np.asarray(weights), np.cumsum(counts)[:-1])[rank].tolist()


@FEW
@BOTH
def test_of_higher_order_and_composed(hvd, rank, world, way):
    def loss(x):
        return rj.allreduce(x**3, op=rj.Sum).sum()

    # d/dx of the sum of all ranks' gradients, as Horovod's rules have it: 3 x^2 * world, then its gradient, again reduced.
    x = jnp.array([1.0, 2.0])
    assert np.asarray(way(jax.grad(loss))(x)) == pytest.approx(3 * world * np.array([1.0, 4.0]))
    twice = way(jax.grad(lambda x: jax.grad(loss)(x).sum()))(x)
    assert np.asarray(twice) == pytest.approx(6 * world * np.array([1.0, 2.0]))
    batched = way(jax.vmap(jax.grad(loss)))(jnp.stack([x, 2 * x]))
    assert np.asarray(batched) == pytest.approx(3 * world * np.array([[1.0, 4.0], [4.0, 16.0]]))
    kept = way(jax.grad(jax.checkpoint(lambda x: jnp.sin(loss(x)))))(x)
    assert np.asarray(kept) == pytest.approx(np.asarray(way(jax.grad(lambda x: jnp.sin(loss(x))))(x)))
    scanned = way(jax.grad(lambda x: jax.lax.scan(lambda c, _: (rj.allreduce(c * x), None), x, None, length=3)[0].sum()))
    assert np.asarray(scanned(x)) == pytest.approx(4 * np.asarray(x) ** 3)


@FEW
@BOTH
def test_third_derivatives_of_a_broadcast(hvd, rank, world, way):
    """What carries its gradients back is linear, so what carries that one's gradients back a second time is itself. It was
    divided by the number of ranks once more."""

    def carried_back(x, first, second):
        def once(gradient):
            return jax.vjp(lambda x: rj.broadcast(x, 0), x)[1](gradient)[0]

        def twice(gradient):
            return jax.vjp(once, first)[1](gradient)[0]

        def thrice(gradient):
            return jax.vjp(twice, second)[1](gradient)[0]

        return once(first), twice(second), thrice(first)

    once, twice, thrice = (float(each) for each in way(carried_back)(*map(jnp.float32, (1.0, 2.0 + 4.0 * rank, 3.0))))
    assert once == pytest.approx(2.0 + 2.0 * (world - 1) if rank == 0 else 0.0)
    assert twice == pytest.approx(3.0 / world) and thrice == once


@FEW
def test_beside_whole_numbers(hvd, rank, world):
    def loss(tree):
        reduced = rj.grouped_allreduce(tree, op=rj.Sum)
        return (reduced["x"] * reduced["n"]).sum()

    gradient = jax.jit(jax.grad(loss, allow_int=True))({"x": jnp.ones(2), "n": jnp.arange(2)})
    assert gradient["x"].tolist() == [0, world * world]


@pytest.mark.ranks(2)
def test_what_has_no_gradient(hvd, rank, world):
    with pytest.raises(UnsupportedError, match="only sums and averages have a gradient"):
        jax.grad(lambda x: rj.allreduce(x, op=rj.Max))(1.0)
    with pytest.raises(TypeError, match="forward-mode"):
        jax.jvp(rj.allreduce, (1.0,), (1.0,))


@FEW
@pytest.mark.parametrize("kind", ["wrapped", "chained", "own", "several passes"])
def test_optimizers(hvd, rank, world, kind):
    """Two steps of the ranks, each on its share, are two steps of one process on the whole batch."""
    generator = np.random.default_rng(0)
    batch = generator.normal(size=(2, 6 * world, 3)).astype(np.float32)
    inner = optax.adam(0.1)
    if kind == "chained":
        optimizer = optax.chain(rj.average_gradients(), inner)
    elif kind == "own":
        optimizer = rj.DistributedOptimizer(rj.GradientTransformation(inner.init, inner.update))
    elif kind == "several passes":
        optimizer = optax.MultiSteps(rj.DistributedOptimizer(inner), 2)
    else:
        optimizer = rj.DistributedOptimizer(inner)

    def loss_of(params, rows):
        return ((rows @ params["w"] + params["b"] - rows.sum(1)) ** 2).mean()

    def train(optimizer, share, passes):
        params = {"w": jnp.zeros(3), "b": jnp.zeros(())}
        state = optimizer.init(params)

        @jax.jit
        def step(params, state, rows):
            updates, state = optimizer.update(jax.grad(loss_of)(params, rows), state, params)
            return optax.apply_updates(params, updates), state

        for rows in batch:
            for part in np.split(share(rows), passes):
                params, state = step(params, state, part)
        return params

    passes = 2 if kind == "several passes" else 1
    alone = train(inner, lambda rows: rows, 1)
    together = train(optimizer, lambda rows: np.split(rows, world)[rank], passes)
    jax.tree.map(lambda one, other: np.testing.assert_allclose(one, other, rtol=2e-5), alone, together)


def line_search():
    return optax.chain(optax.sgd(1.0), optax.scale_by_backtracking_linesearch(5, store_grad=True))


def losses_of(rows, scale=1.0):
    return lambda params: scale * ((jnp.tanh(rows @ params["w"]) + params["b"] - rows.sum(1)) ** 2).mean()


def trained(optimizer, loss_of, searches, value_and_gradient=None):
    params = {"w": jnp.zeros(3), "b": jnp.ones(())}
    state = optimizer.init(params)

    @jax.jit
    def step(params, state):
        made = value_and_gradient(params, state=state) if value_and_gradient else jax.value_and_grad(loss_of)(params)
        more = {"grad": made[1], "value_fn": loss_of} if searches else {}
        updates, state = optimizer.update(made[1], state, params, value=made[0], **more)
        return optax.apply_updates(params, updates), state

    for _ in range(4):
        params, state = step(params, state)
    return np.append(params["w"], params["b"])


@FEW
@pytest.mark.parametrize("op, make, searches, from_state", [
    pytest.param(rj.Average, optax.lbfgs, True, False, marks=pytest.mark.long, id="lbfgs"),  # half a minute to compile
    pytest.param(rj.Average, line_search, True, False, id="line search"),
    pytest.param(rj.Average, line_search, True, True, id="line search, from the state"),
    pytest.param(rj.Average, optax.polyak_sgd, False, False, id="polyak_sgd, average"),
    pytest.param(rj.Sum, optax.polyak_sgd, False, False, id="polyak_sgd, sum"),
    pytest.param(rj.Sum, lambda: optax.chain(optax.sgd(0.1), optax.contrib.reduce_on_plateau(patience=1, rtol=0.2)), False,
                 False, id="plateau"),
])
def test_optimizers_that_go_by_values(hvd, rank, world, op, make, searches, from_state):
    """They went by each rank's own loss, and the ranks went apart."""
    rows = np.random.default_rng(1).normal(size=(4 * world, 3)).astype(np.float32)

    def train(optimizer, loss_of):
        ready = optax.value_and_grad_from_state(loss_of) if from_state else None
        return trained(optimizer, loss_of, searches, ready)

    alone = train(make(), losses_of(rows, 1.0 if op == rj.Average else world))
    together = train(rj.DistributedOptimizer(make(), op=op), losses_of(np.split(rows, world)[rank]))
    np.testing.assert_allclose(together, alone, rtol=2e-3, atol=2e-3)
    everyones = rj.allgather_object(together)
    assert all(np.array_equal(each, together) for each in everyones)


@FEW
@pytest.mark.parametrize("how", [{"op": rj.Sum}, {"prescale_factor": 2.0}, {"op": rj.Adasum, "postscale_factor": 0.5}], ids=str)
def test_a_line_search_on_what_is_no_average_is_refused(hvd, rank, world, how):
    """What optax.value_and_grad_from_state takes from the state is reduced already, and was reduced again."""
    loss_of = losses_of(np.ones((4, 3), np.float32))
    with pytest.raises(ValueError, match=r"a line search \(value_fn\) goes by averages"):
        trained(rj.DistributedOptimizer(line_search(), **how), loss_of, True, optax.value_and_grad_from_state(loss_of))


@FEW
def test_same_start(hvd, rank, world):
    key = jax.random.key(rank)
    mine = {
        "w": jnp.full((2, 2), rank, jnp.bfloat16),
        "raw": jax.random.key_data(key),
        "key": key,
        "state": optax.adam(0.1).init({"w": jnp.full(3, float(rank))}),
        "host": np.full(2, rank, np.int64),
        "step": rank,
        "rate": 0.5 * rank,
        "activation": jnp.tanh,
        "none": None,
    }
    same = rj.broadcast_parameters(mine, root_rank=1)
    assert jax.tree.structure(same) == jax.tree.structure(mine)
    assert same["w"].dtype == jnp.bfloat16 and float(same["w"].sum()) == 4
    assert same["raw"].tolist() == jax.random.key_data(jax.random.key(1)).tolist()
    assert float(jax.random.normal(same["key"])) == float(jax.random.normal(jax.random.key(1)))
    assert isinstance(same["host"], np.ndarray) and same["host"].tolist() == [1, 1]
    assert (same["step"], same["rate"], type(same["step"])) == (1, 0.5, int) and same["activation"] is jnp.tanh
    assert mine["host"][0] == rank, "the argument was changed"
    assert rj.broadcast_object({"seed": rank}) == {"seed": 0} and rj.allgather_object(rank) == list(range(world))
    with pytest.raises(InvalidArgumentError, match="before a function is traced"):
        jax.jit(rj.broadcast_parameters)(jnp.ones(2))
    with pytest.raises(ValueError, match=r"parameters\['w'\]"):
        rj.broadcast_parameters({"w": jnp.ones(2 + rank)})


@FEW
def test_one_checkpointed_function_for_several_layers(hvd, rank, world):
    """JAX traces it once; each time that it is written into the program its collectives have names of their own, since what is
    computed again in the backward pass may be under way together."""

    def layer(weight, x):
        return jnp.tanh((x - rj.allreduce(x.mean(0))) @ weight)

    def loss_of(layer):
        def loss(weights, x):
            for weight in weights:
                x = layer(weight, x)
            return (x**2).sum()

        return jax.jit(jax.value_and_grad(loss))

    generator = np.random.default_rng(3)
    weights = [jnp.asarray(generator.standard_normal((16, 16)) / 4, jnp.float32) for _ in range(4)]
    plain, checkpointed = loss_of(layer), loss_of(jax.checkpoint(layer))
    for step in range(20):
        x = jnp.asarray(np.random.default_rng([step, rank]).standard_normal((8, 16)), jnp.float32)
        expected, gradients = plain(weights, x)
        loss, others = checkpointed(weights, x)
        assert float(loss) == pytest.approx(float(expected), rel=1e-4)
        for one, other in zip(gradients, others):
            np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


HEADS = """
import sys, jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank, form = rj.rank(), sys.argv[1]

def loss(params):
    a = rj.allreduce(params["a"], op=rj.Sum)
    b = rj.allreduce(params["b"], op=rj.Sum)
    if form == "both":
        return (3 * a + 0 * b).sum() if rank == 0 else (0 * a + 5 * b).sum()
    return (3 * a).sum() if rank == 0 else (5 * b).sum()

try:
    got = jax.block_until_ready(jax.jit(jax.grad(loss))({"a": jnp.ones(3), "b": jnp.ones(3)}))
    print("got", float(got["a"][0]), float(got["b"][0]))
except Exception as error:
    print("raised", str(error))
"""


@pytest.mark.parametrize("form", ["one each", "both"])
def test_a_gradient_never_meets_another_calls(tmp_path, form):
    """JAX leaves the gradient of a call out where a rank does not use its result. It was added to that of another call, with
    success."""
    program = tmp_path / "heads.py"
    program.write_text(HEADS)
    ended = run_job(2, str(program), form, RONDE_TIMEOUT_S="2", forked="jax")
    got, raised = ended.lines("got"), ended.lines("raised")
    if form == "both":
        assert got == 2 * ["got 3.0 5.0"], ended.output
    else:
        assert len(raised) == 2 and all("'grad of allreduce." in line for line in raised), ended.output


PULLBACKS = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank = rj.rank()
helper = jax.jit(lambda x: rj.allreduce(x.mean(), op=rj.Sum))

def late(x):  # so that calls are under way together
    return x + 0 * jax.lax.fori_loop(0, 6, lambda _, each: jnp.tanh(each @ each), jnp.full((200, 200), x))[0, 0]

@jax.jit
def program(x, y, one, other):
    (a, back), (b, back_again) = jax.vjp(helper, x), jax.vjp(helper, y)
    return a, b, back(late(one))[0].sum(), back_again(late(other))[0].sum()

for step in range(3):
    one = jnp.float32(rank + 1)
    found = program(jnp.full(3 + rank, 1.0), jnp.full(3, 10.0), one, 100 * one)
    print("got", *map(float, jax.block_until_ready(found)))
"""


def test_pullbacks_in_the_order_of_their_calls(tmp_path):
    """Rank 0 keeps one trace of the helper, rank 1 has two. Rank 0 took each gradient for the other call's, and it was added to that
    one, with success."""
    program = tmp_path / "pullbacks.py"
    program.write_text(PULLBACKS)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="20", forked="jax")
    assert ended.lines("got") == 6 * ["got 2.0 20.0 3.0 300.0"], ended.output


BRANCHES = """
import jax, jax.numpy as jnp, ronde.jax as rj
rj.init()
rank = rj.rank()
helper = jax.jit(lambda x: rj.allreduce(x.mean(), op=rj.Sum))

@jax.jit
def program(first, x, y):
    def loss(x, y):
        return jax.lax.cond(first, lambda: helper(x), lambda: 3 * helper(y))
    return jax.value_and_grad(loss, argnums=(0, 1))(x, y)

for first in (True, False):
    loss, (x, y) = program(first, jnp.full(3 + rank, 1.0), jnp.full(3, 2.0))
    print("got", float(loss), round(float(x.sum()), 5), round(float(y.sum()), 5))
"""


def test_branches_that_call_one_function(tmp_path):
    """Rank 0 keeps one trace of it, rank 1 has two. JAX writes the branches' gradients in the order of the branches, and ranks gave
    them names of different calls: they timed out."""
    program = tmp_path / "branches.py"
    program.write_text(BRANCHES)
    ended = run_job(2, str(program), RONDE_TIMEOUT_S="20", forked="jax")
    assert sorted(ended.lines("got")) == 2 * ["got 12.0 0.0 6.0"] + 2 * ["got 2.0 2.0 0.0"], ended.output
