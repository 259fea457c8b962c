"""ronde.jax: ranks whose programs differ, by their shapes or by what only some of them compute, never wait for each other in a
circle, whatever memory XLA has calls share."""

from __future__ import annotations

import re

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from launching import run_job
from jax import lax

import ronde.jax as rj
from ronde.jax import _order

STEPS = 10


@pytest.fixture(params=[None, 0, 40], ids=["small", "large", "both"])
def most_bytes(request, monkeypatch):
    """Calls of more bytes stay one operation of XLA's: none here is, all are, or the larger ones."""
    if request.param is not None:
        monkeypatch.setattr(_order, "_MOST_BYTES", request.param)


def heavy(x):
    """0, after work."""
    return 0 * lax.fori_loop(0, 20, lambda _, each: jnp.tanh(each @ each), jnp.full((60, 60), x))[0, 0]


def nine_calls(weights, x, rows):
    """The sum of what nine calls make of a batch, several of them independent of each other."""
    world = rj.size()
    y = jnp.tanh(x @ weights)
    everyones = rj.allgather(y, rows=rows)
    swapped = rj.alltoall(jnp.stack([y.sum(0)] * world))
    again = rj.alltoall(jnp.stack([(y**2).sum(0)] * world))
    root = rj.broadcast(weights * 2, 1)
    loss = (everyones**2).sum() + swapped.sum() + (again * 3).sum() + (root * weights).sum()
    return loss + rj.allreduce(y.sum(), op=rj.Sum) + rj.allreduce((x @ weights).sum())


def expected_loss(weights, xs):
    ys = [np.tanh(x @ weights) for x in xs]
    loss = sum((y**2).sum() for y in ys) + sum(y.sum() for y in ys) + 3 * sum((y**2).sum() for y in ys)
    return loss + 2 * (weights**2).sum() + sum(y.sum() for y in ys) + np.mean([(x @ weights).sum() for x in xs])


@pytest.mark.ranks(2, 3, long=(2,))
@pytest.mark.parametrize("counts", [(2, 3, 4), (1, 1001, 1), pytest.param((5, 5, 5), marks=pytest.mark.long)], ids=str)
@pytest.mark.parametrize("reduced", ["after", "within"])
def test_batches_of_other_sizes(hvd, rank, world, most_bytes, counts, reduced):
    rows = counts[:world]
    generator = np.random.default_rng(7)
    weights = generator.uniform(-1, 1, (6, 5)).astype(np.float32)

    def loss(weights, x):
        return nine_calls(weights, x, rows) + (rj.allreduce(weights * x.sum()).sum() if reduced == "within" else 0)

    @jax.jit
    def step(weights, x):
        value, gradient = jax.value_and_grad(loss)(weights, x)
        return value, rj.allreduce(gradient), rj.allgather(x, rows=rows)

    for _ in range(STEPS):
        xs = [generator.uniform(-1, 1, (count, 6)).astype(np.float32) for count in rows]
        value, gradient, everyones = step(weights, xs[rank])
        more = np.mean([(weights * x.sum()).sum() for x in xs]) if reduced == "within" else 0
        np.testing.assert_allclose(value, expected_loss(weights, xs) + more, rtol=1e-4, atol=1e-3)
        np.testing.assert_array_equal(everyones, np.concatenate(xs))
        gradients = rj.allgather(gradient[None])
        assert np.isfinite(gradient).all() and (np.asarray(gradients) == np.asarray(gradient)).all()


@pytest.mark.ranks(3)
@pytest.mark.parametrize("first", ["set", "all"])
@pytest.mark.parametrize("graded", [False, True])
def test_calls_of_a_set_beside_calls_of_all(hvd, rank, world, most_bytes, first, graded):
    """The calls of a set, which only its members make, in a program with calls of all."""
    members = rj.add_process_set([0, 1])

    def of_set(x):
        return rj.allreduce(x * 2, op=rj.Sum, process_set=members).sum() if members.included() else 0.0 * x.sum()

    def of_all(x):
        return rj.allreduce(jnp.concatenate([x, x]), op=rj.Sum).sum()

    def program(x, y):
        order = (of_set, of_all, of_set, of_all)
        return sum(call(each) for call, each in zip(order if first == "set" else order[::-1], (x, y, y, x)))

    step = jax.jit(jax.value_and_grad(program, (0, 1)) if graded else program)
    try:
        for number in range(STEPS):
            values = [(each + 1.0) * (number + 1) for each in range(3)]
            result = step(jnp.full(5, values[rank]), jnp.full(5, 2 * values[rank]))
            once = 2 * 5 * (values[0] + values[1]) * (rank < 2) + 10 * sum(values)
            assert float(result[0] if graded else result) == 3 * once
            if graded:
                for gradient in result[1]:
                    assert gradient.tolist() == [2.0 * 2 * (rank < 2) + 2 * 3] * 5
    finally:
        assert rj.remove_process_set(members)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("where", ["straight", "scan", "cond", "helper", "while"])
def test_work_of_one_rank(hvd, rank, world, most_bytes, where):
    """Independent calls in a program in which rank 0 computes what the others do not."""

    def calls(x):
        mine = x + heavy(x[0]) if rank == 0 else x
        results = [
            rj.allreduce(mine * (i + 1), op=rj.Sum) if i % 2 else rj.allgather(x * (i + 1)).sum() * jnp.ones_like(x)
            for i in range(5)
        ]
        return sum(results[:: -1 if rank == 0 else 1])

    helper = jax.jit(calls)

    def program(x):
        if where == "scan":
            return lax.scan(lambda carry, row: (carry + calls(row), calls(carry)), x, jnp.stack([x, 2 * x]))[0] - x
        if where == "while":
            return lax.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + calls(x)), (0, 0 * x))[1]
        if where == "cond":
            return lax.cond(x[0] > 0, calls, lambda x: -calls(x), x) + calls(2 * x)
        return helper(x) + helper(2 * x) if where == "helper" else 3 * calls(x)

    step = jax.jit(program)
    for number in range(STEPS):
        x = np.full(4, float(rank + number + 1), np.float32)
        total = sum(each + number + 1.0 for each in range(world))
        assert step(x).tolist() == [3 * (2 + 4 + 4 * (1 + 3 + 5)) * total] * 4


@pytest.mark.ranks(2)
@pytest.mark.parametrize("layout", ["rows", "columns"])
def test_memory_that_is_used_again(hvd, rank, world, most_bytes, layout):
    """Operands are parameters, constants, transposed and used again; results go round a loop in swapped places."""
    generator = np.random.default_rng(3)
    inputs = [generator.integers(0, 9, (64, 48)).astype(np.float32) for _ in range(world)]
    ones = jnp.ones((48, 64))

    def swapped(carry, _):
        one, other = carry
        return (rj.allreduce(other, op=rj.Sum) % 7, rj.allreduce(one, op=rj.Max)), one.sum()

    @jax.jit
    def step(x):
        y = x.T if layout == "columns" else x.reshape(48, 64)
        one, other = rj.grouped_allreduce([y, y], op=rj.Sum)
        constant = rj.allreduce(ones, op=rj.Sum)
        (left, right), _ = lax.scan(swapped, (y, y + 1), None, length=5)
        return rj.allreduce(x, op=rj.Sum), one, other, constant, left, right, rj.allreduce(y @ y.T, op=rj.Sum), y

    def of_all(values):
        return sum(values), np.maximum(*values)

    for _ in range(STEPS):
        results = [np.asarray(each) for each in step(inputs[rank])]
        ys = [x.T if layout == "columns" else x.reshape(48, 64) for x in inputs]
        pairs = [(y, y + 1) for y in ys]
        for _ in range(5):
            left, right = sum(pair[1] for pair in pairs) % 7, np.maximum(*(pair[0] for pair in pairs))
            pairs = [(left, right)] * world
        expected = (
            sum(inputs), sum(ys), sum(ys), world * np.ones((48, 64)), *pairs[0], sum(y @ y.T for y in ys), ys[rank]
        )
        for result, other in zip(results, expected):
            np.testing.assert_array_equal(result, other)


@pytest.mark.ranks(2, 3)
def test_after_a_failure(hvd, rank, world, most_bytes):
    """What a failed program has started is given up on every rank: the next one's calls meet their own."""

    def program(x, y):
        results = [rj.allreduce(y + i, op=rj.Sum) for i in range(10)]
        return results, rj.allreduce(x, op=rj.Sum)

    step = jax.jit(program)
    for number in range(STEPS):
        with pytest.raises((jax.errors.JaxRuntimeError, ValueError), match=r"\[3\]"):
            jax.block_until_ready(step(jnp.ones(3 + (rank == 0)), jnp.float32(number)))
        rj.barrier()
        results, total = step(jnp.ones(3), jnp.float32(number))
        assert [float(result) for result in results] == [world * (number + i) for i in range(10)]
        assert total.tolist() == [world] * 3


@pytest.mark.ranks(2)
def test_starts_stand_in_the_programs_order(hvd, rank, world):
    """In what XLA has compiled: each start takes the token of the one before, and no start or end is lost or merged."""
    rows = (2, 3)

    def loss(weights, x):
        return nine_calls(weights, x, rows)

    text = jax.jit(jax.value_and_grad(loss)).lower(jnp.ones((6, 5)), jnp.ones((rows[rank], 6))).compile().as_text()
    calls = [line.strip() for line in text.splitlines() if 'custom_call_target="ronde_jax_' in line]
    tokens, ended = [], []
    for line in calls:
        result, *operands = re.findall(r"%[\w.\-]+", line.partition("custom_call_target")[0])
        if "ronde_jax_start" in line:
            assert not tokens or operands[-1] == tokens[-1]
            tokens.append(result)
        elif "ronde_jax_done" in line:
            assert operands == [tokens[-1]]
        else:
            assert operands == [operands[0]] and operands[0] in tokens
            ended.append(operands[0])
    assert len(tokens) > 6 and sorted(tokens) == sorted(ended)


CONDITION = """
import jax, jax.numpy as jnp, ronde.jax as rj
from jax import lax
rj.init()

@jax.jit
def doubled_until(x):
    return lax.while_loop(lambda x: rj.allreduce(x[:1], op=rj.Sum)[0] < 100, lambda x: x * 2, x)

for step in range(5):
    print("got", *doubled_until(jnp.full(2, 1.0 + step)))
"""


def test_calls_of_a_loops_condition_belong_to_one_execution(tmp_path):
    """Each evaluation of the condition counted as an execution of its own that gave up the one before, and the ranks asked each
    other in each, as after an error."""
    program = tmp_path / "condition.py"
    program.write_text(CONDITION)
    ended = run_job(2, str(program), RONDE_TIMELINE=str(tmp_path / "timeline.json"), forked="jax")
    expected = [f"got {value} {value}" for value in (64.0, 64.0, 96.0, 64.0, 80.0)]
    assert ended.code == 0 and sorted(ended.lines("got")) == sorted(2 * expected), ended.output
    timeline = (tmp_path / "timeline.json").read_text()
    assert "allreduce.doubled_until@" in timeline and "ronde.jax.meeting" not in timeline
