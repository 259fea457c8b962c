"""ronde.jax: calls in compiled programs meet their own, whatever each rank has traced before and whenever it makes them."""

from __future__ import annotations

import random_jax_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import ronde.jax as rj

FEW = pytest.mark.ranks(2, 3, long=(3,))


def total(x):
    return rj.allreduce(x.sum(), op=rj.Sum)


def less(x):
    return rj.allreduce(-x.sum(), op=rj.Sum)


@jax.custom_vjp
def own_rule(x):
    return total(x)


own_rule.defvjp(lambda x: (total(x), x), lambda x, gradient: (rj.allreduce(gradient, op=rj.Sum) * jnp.ones_like(x),))


def scanned(carry, row):
    return carry + total(row), None


def counted(state):
    number, sum_, x = state
    return number + 1, sum_ + total(x), x


def not_yet(state):
    return state[0] < 2


WAYS = {
    "jit": jax.jit(total),
    "nested": jax.jit(lambda x: NESTED(x) + 0 * NESTED(x + 1)),
    "scan": lambda x: lax.scan(scanned, 0.0, jnp.stack([x, x]))[0] / 2,
    "while": lambda x: lax.while_loop(not_yet, counted, (0, 0.0, x))[1] / 2,
    "checkpoint": jax.checkpoint(total),
    "cond": lambda x: lax.cond(x[0] >= 0, total, less, x),
    "custom_vjp": own_rule,
    "jitted_vjp": jax.jit(own_rule),
    "vmap": lambda x: jax.vmap(NESTED)(jnp.stack([x, 2 * x])).sum() / 3,
}
NESTED = jax.jit(jax.checkpoint(total))


@FEW
@pytest.mark.parametrize("way", WAYS)
def test_one_rank_traces_again(hvd, rank, world, way):
    """What is traced within is in JAX's caches for some shapes and not for others, and not for the same ones on every rank."""
    call, graded = WAYS[way], way != "while"  # for which JAX has no gradient

    def sums(few, batch):
        parts = [call(few), call(batch), call(few * 10), call(batch * 100)]
        return sum((i + 1) * part for i, part in enumerate(parts)), parts

    program = jax.jit(jax.value_and_grad(sums, (0, 1), has_aux=True) if graded else sums)
    for step in range(5):
        # In turn one rank has a batch of another size, at last two; another rank has lost what it had.
        counts = [4 + step * (other == step % world) - (step == 4 and other == 1) for other in range(world)]
        if step == 2 and rank == 1:
            jax.clear_caches()
        result = program(jnp.full(2, rank + 1.0), jnp.full(counts[rank], rank + 1.0))
        few = 2 * sum(range(1, world + 1))
        batch = sum(count * (other + 1) for other, count in enumerate(counts))
        _, parts = result[0] if graded else result
        assert [float(part) for part in parts] == [few, batch, 10 * few, 100 * batch], step
        if graded:
            for gradient, factor in zip(result[1], (1 + 3 * 10, 2 + 4 * 100)):
                assert np.unique(np.asarray(gradient)).tolist() == [factor * world], step
        assert float(rj.allreduce(float(rank), op=rj.Sum)) == sum(range(world))  # at once, between


def busy(x, turns):
    """The first of x, after work for so many turns."""
    return lax.fori_loop(0, turns, lambda _, value: value @ jnp.eye(300), x)[0]


@FEW
@pytest.mark.parametrize("way", ["helper", "pullback", "unrolled", "mapped", "named"])
def test_calls_that_coincide(hvd, rank, world, way):
    """One traced function that is called several times, whose calls each rank makes in an order of its own."""
    calls = 12

    @jax.jit
    def helper(x, turns):
        return rj.allreduce(busy(x, turns), op=rj.Sum, name="coinciding" if way == "named" else None)

    def body(carry, each):
        value, turns = each
        return carry, rj.allreduce(busy(jnp.full((32, 300), 1.0) * value, turns), op=rj.Sum)

    def program(x, turns):
        if way == "pullback":
            _, pullback = jax.vjp(lambda y: rj.allreduce(y, op=rj.Sum), x[0])
            return [pullback(busy(x * i, turns[i]))[0] for i in range(calls)]
        if way == "unrolled":
            return lax.scan(body, 0.0, (jnp.arange(float(calls)), turns), unroll=4)[1]
        if way == "mapped":
            return lax.map(lambda each: body(0.0, each)[1], (jnp.arange(float(calls)), turns), batch_size=3)
        return [helper(x * i, turns[i]) for i in range(calls)]

    compiled = jax.jit(program)
    generator = np.random.default_rng(rank)
    for _ in range(8):
        results = compiled(jnp.ones((32, 300)), generator.integers(0, 20, calls))
        assert [float(result[0]) for result in results] == [i * world for i in range(calls)]


@FEW
def test_functions_of_one_name(hvd, rank, world):
    """Two programs whose functions are called alike, on ranks that trace them in another order."""

    def made(factor):
        def step(x):
            return rj.allreduce(factor * x.sum(), op=rj.Sum), rj.allreduce(x.max() + factor, op=rj.Max)

        return jax.jit(step)

    one, other = made(1.0), made(10.0)
    first, second = (one, other) if rank == 0 else (other, one)
    first.lower(jnp.ones(3)).compile()
    second.lower(jnp.ones(3)).compile()
    for count in (3, 3 + rank, 3):
        x = jnp.full(count, rank + 1.0)
        ones, others = one(x), other(x)
        counts = rj.allgather_object(count)
        expected = sum(each * (number + 1) for number, each in enumerate(counts))
        assert float(ones[0]) == expected and float(others[0]) == 10 * expected
        assert float(ones[1]) == world + 1 and float(others[1]) == world + 10


@pytest.mark.ranks(3)
def test_groups_are_counted_apart(hvd, rank, world):
    """A rank makes no calls of a group that it is not in, and its others have the same names nevertheless."""
    some = rj.add_process_set([0, 2])
    try:

        @jax.jit
        def step(x):
            pair = rj.allreduce(x, op=rj.Sum, process_set=some) if some.included() else x
            return pair, rj.allreduce(x, op=rj.Sum), rj.allreduce(x, op=rj.Max)

        pair, everyone, most = step(float(rank))
        assert (float(pair), float(everyone), float(most)) == (1.0 if rank == 1 else 2.0, 3.0, 2.0)
    finally:
        assert rj.remove_process_set(some)


@pytest.mark.ranks(2)
def test_names(hvd, rank, world):
    """They come from the program alone; those that are given say so, and are counted where the program has them again."""

    @jax.jit
    def helper(x):
        return rj.allreduce(rj.allreduce(x), name="given")

    def step(x):
        return helper(x) + helper(x + 1) + rj.broadcast(x, 0)

    def names():
        text = jax.jit(step).lower(1.0).as_text()
        found = sorted(part.split('"')[0] for part in text.split('name = "')[1:])
        return [name.replace(f"step@test_jax_names.py:{step.__code__.co_firstlineno}", "step") for name in found]

    given = ["allreduce.given@program", "allreduce.given@program~1"]
    expected = [*given, "allreduce.step.0/3", "allreduce.step.1/3", "broadcast.step.2/3"]
    assert names() == expected
    helper(2.0)
    jax.jit(lambda x: helper(x) * 2)(3.0)
    assert names() == expected
    jax.clear_caches()
    assert names() == expected


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("form", ["each its own", "one rank alone", "none"])
def test_results_that_a_rank_does_not_use(hvd, rank, world, form):
    """Their calls are made all the same. JAX dropped them, and the calls behind them met other calls: the sums were wrong, with
    success."""

    @jax.jit
    def step(weights, x):
        loss, gradient = jax.value_and_grad(lambda weights: (weights * x).sum())(weights)
        loss = rj.allreduce(loss, op=rj.Sum)
        other = rj.allreduce(loss * 100, op=rj.Sum)
        jax.lax.scan(lambda carry, each: (carry, rj.allreduce(each + 7, op=rj.Sum)), 0.0, jnp.arange(2.0))
        gradient = rj.allreduce(gradient, op=rj.Sum)
        uses = rank == 0 if form == "one rank alone" else form == "each its own"
        return gradient, (loss if rank == 0 else other) if uses else None

    found = []
    for number in range(4):
        found.append(jax.device_get(step(jnp.float32(2.0), jnp.float32(rank + 1 + 10 * number))))
    for number, (gradient, used) in enumerate(found):
        total = sum(of + 1.0 + 10 * number for of in range(world))
        assert gradient == total
        assert used is None or used == 2 * total * (1 if rank == 0 else 100 * world)


@FEW
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_random_programs(hvd, rank, world, seed):
    random_jax_programs.run(seed, rank, world)
