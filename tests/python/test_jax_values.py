"""ronde.jax: values of every collective, in compiled programs and at once, against NumPy."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax

import ronde.jax as rj

WORLDS = pytest.mark.ranks(1, 2, 3, 5)
FEW = pytest.mark.ranks(2, 3, long=(3,))
BOTH = pytest.mark.parametrize("way", [jax.jit, lambda function: function], ids=["jit", "at_once"])
TYPES = [np.float32, np.float16, ml_dtypes.bfloat16, np.int32, np.int8, np.uint8, np.uint16, np.uint32, np.complex64]
REDUCED = {
    "Sum": lambda stack: stack.sum(0),
    "Average": lambda stack: stack.sum(0) / len(stack),
    "Max": lambda stack: stack.max(0),
    "Product": lambda stack: stack.prod(0),
}


def inputs_of(world: int, shape, dtype=np.float32) -> list[np.ndarray]:
    """What each rank contributes: small whole numbers, whose reductions are exact but for averages."""
    generator = np.random.default_rng(world)
    return [generator.integers(1, 4, shape).astype(dtype) for _ in range(world)]


def assert_is(result: jax.Array, expected: np.ndarray, dtype=np.float32) -> None:
    assert isinstance(result, jax.Array) and result.dtype == dtype and result.shape == expected.shape
    if np.dtype(dtype).kind in "iu":
        assert np.array_equal(np.asarray(result), np.trunc(expected).astype(np.int64).astype(dtype))
    else:
        wide = np.complex128 if np.dtype(dtype).kind == "c" else np.float64
        kind = np.float32 if np.dtype(dtype).kind == "c" else dtype
        np.testing.assert_allclose(np.asarray(result).astype(wide), expected, rtol=2 * float(ml_dtypes.finfo(kind).eps))


@WORLDS
@BOTH
def test_allreduce(hvd, rank, world, way):
    inputs = [inputs_of(world, 37, dtype) for dtype in TYPES]
    cases = [(i, op) for i, dtype in enumerate(TYPES) for op in REDUCED if op != "Max" or np.dtype(dtype).kind != "c"]
    results = way(lambda xs: [rj.allreduce(xs[i], op=getattr(rj, op)) for i, op in cases])([each[rank] for each in inputs])
    for (i, op), result in zip(cases, results):
        wide = np.complex128 if np.dtype(TYPES[i]).kind == "c" else np.float64
        assert_is(result, REDUCED[op](np.stack([each.astype(wide) for each in inputs[i]])), TYPES[i])


@FEW
@BOTH
def test_shapes_and_scales(hvd, rank, world, way):
    def calls(x, truth):
        scaled = rj.allreduce(x, op=rj.Sum, prescale_factor=0.5, postscale_factor=3.0)
        return scaled, rj.broadcast(x, world - 1), rj.allreduce(truth, op=rj.Sum)

    for shape in ((), (0,), (3, 0, 2), (2, 3, 5), (70000,)):
        inputs = inputs_of(world, shape)
        truths = [each > 2 for each in inputs]
        scaled, sent, anyone = way(calls)(inputs[rank], truths[rank])
        assert_is(scaled, 1.5 * np.stack(inputs).sum(0))
        assert_is(sent, inputs[world - 1])
        assert np.array_equal(anyone, np.any(truths, 0))


@FEW
@BOTH
def test_pytrees(hvd, rank, world, way):
    inputs = [{"a": x, "b": [y, z]} for x, y, z in zip(*(inputs_of(world, s) for s in ((3,), (), (2, 2))))]
    expected = jax.tree.map(lambda *each: np.stack(each).sum(0), *inputs)
    for reduce in (rj.allreduce, rj.grouped_allreduce):
        result = way(lambda tree: reduce(tree, op=rj.Sum))(inputs[rank])
        jax.tree.map(assert_is, result, expected)
        assert reduce({"none": None, "empty": []}) == {"none": None, "empty": []}


@WORLDS
@pytest.mark.parametrize(
    ("way", "dtype"), [(jax.jit, np.float32), (jax.jit, np.uint32), (jax.jit, np.bool_), (lambda f: f, ml_dtypes.bfloat16)]
)
def test_rows(hvd, rank, world, way, dtype):
    def rows_of(count: int, value: int) -> np.ndarray:
        return (np.arange(count * 3).reshape(count, 3) + value).astype(dtype)

    everyones = [rows_of(2, r) for r in range(world)]
    assert np.array_equal(way(rj.allgather)(everyones[rank]), np.concatenate(everyones))
    counts = [r + (world > 1) - 1 for r in range(1, world + 1)]  # one rank has none, where there are several
    uneven = [rows_of(count, count) for count in counts]
    result = way(lambda x: rj.allgather(x, rows=counts))(uneven[rank])
    assert result.dtype == dtype and np.array_equal(result, np.concatenate(uneven))

    even = np.concatenate([rows_of(2, 10 * rank + to) for to in range(world)])
    expected = np.concatenate([rows_of(2, 10 * frm + rank) for frm in range(world)])
    assert np.array_equal(way(rj.alltoall)(even), expected)
    # Rank r sends r rows to each: the first sends nothing, but takes part.
    sent = np.concatenate([rows_of(rank, to) for to in range(world)])
    received = np.concatenate([rows_of(frm, rank) for frm in range(world)])
    result = way(lambda x: rj.alltoall(x, splits=[rank] * world, received_splits=range(world)))(sent)
    assert np.array_equal(result, received)


@WORLDS
@BOTH
def test_reducescatter(hvd, rank, world, way):
    for rows in (2 * world + 1, 1, 0):  # of one row all but the first rank get none
        inputs = inputs_of(world, (rows, 3))
        own = np.array_split(np.stack(inputs).sum(0), world)[rank]
        assert_is(way(lambda x: rj.reducescatter(x, op=rj.Sum))(inputs[rank]), own)


@FEW
def test_barrier(hvd, rank, world):
    rj.barrier()
    x, y = jax.jit(lambda x: rj.barrier((x, 2 * x)))(jnp.arange(3.0))
    assert x.tolist() == [0, 1, 2] and y.tolist() == [0, 2, 4]
    assert rj.barrier(jnp.ones(2)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="takes the arrays"):
        jax.jit(lambda x: (rj.barrier(), x)[1])(1.0)


@FEW
def test_control_flow(hvd, rank, world):
    def body(carry, x):
        carry = rj.allreduce(carry + x)
        return carry, carry

    carry, carries = jax.jit(lambda start: jax.lax.scan(body, start, jnp.arange(5.0)))(float(rank))
    mean = (world - 1) / 2
    assert float(carry) == pytest.approx(mean + 10)
    np.testing.assert_allclose(carries, mean + np.array([0, 1, 3, 6, 10]))

    @jax.jit
    def either(flag, x):
        return jax.lax.cond(flag, lambda x: rj.allreduce(x, op=rj.Sum), lambda x: rj.allreduce(x, op=rj.Max), x)

    assert either(True, float(rank)) == sum(range(world)) and either(False, float(rank)) == world - 1
    count = jax.jit(lambda x: jax.lax.while_loop(lambda x: x < 100, lambda x: rj.allreduce(x + 1, op=rj.Sum), x))(1.0)
    value = 1.0
    while value < 100:
        value = (value + 1) * world
    assert float(count) == value


@FEW
@BOTH
def test_vmap(hvd, rank, world, way):
    inputs = inputs_of(world, (4, 2 * world, 3))
    stack = np.stack(inputs)
    assert_is(way(jax.vmap(lambda x: rj.allreduce(x, op=rj.Sum)))(inputs[rank]), stack.sum(0))
    assert_is(way(jax.vmap(rj.allgather))(inputs[rank]), np.concatenate(inputs, 1))
    assert_is(
        way(jax.vmap(lambda x: rj.reducescatter(x, op=rj.Sum), in_axes=2, out_axes=2))(inputs[rank]),
        np.stack([np.array_split(stack.sum(0)[:, :, k], world)[rank] for k in range(3)], 2),
    )
    nested = way(jax.vmap(jax.vmap(lambda x: rj.broadcast(x, 0))))(inputs[rank])
    assert_is(nested, inputs[0])


@FEW
@BOTH
@pytest.mark.parametrize("elements", [4, 3])
def test_vmap_over_another_dimension_on_each_rank(hvd, rank, world, way, elements):
    """Where the dimension of the batch lies follows from what a rank computes beside. A square batch was added transposed, with
    success; others were refused."""
    inputs = inputs_of(world, (4, elements))
    mine = inputs[rank] if rank == 0 else np.ascontiguousarray(inputs[rank].T)
    at = 0 if rank == 0 else 1

    def over(call):
        return way(jax.vmap(call, in_axes=at))(mine)

    assert_is(over(lambda x: rj.allreduce(x, op=rj.Sum)), np.sum(inputs, 0))
    assert_is(over(lambda x: rj.broadcast(x, 1)), inputs[1])
    assert_is(over(rj.allgather), np.concatenate(inputs, 1))
    assert_is(over(lambda x: rj.grouped_allreduce([x, 2 * x], op=rj.Sum)[1]), 2 * np.sum(inputs, 0))
    flipped = np.eye(elements, dtype=np.float32)[::-1].copy()
    product = way(jax.vmap(lambda x: rj.allreduce(flipped @ x if rank == 0 else x, op=rj.Sum)))(inputs[rank])
    assert_is(product, np.sum([x[:, ::-1] if each == 0 else x for each, x in enumerate(inputs)], 0))


@FEW
@BOTH
def test_vmap_of_adasum(hvd, rank, world, way):
    """Each member of the batch is combined by itself, whatever dimension it lies along, nested too; what is not batched once."""
    x = np.random.default_rng(rank).normal(size=(2, 3, 4)).astype(np.float32)
    each = [[np.asarray(rj.allreduce(row, op=rj.Adasum)) for row in rows] for rows in x]

    def adasum(row):
        return rj.allreduce(row, op=rj.Adasum)

    assert_is(way(jax.vmap(jax.vmap(adasum)))(x), np.array(each))
    assert_is(way(jax.vmap(adasum, in_axes=1, out_axes=1))(x[0].T), np.array(each[0]).T)
    assert_is(way(jax.vmap(adasum))(x[0][:0]), np.zeros((0, 4)))
    whole = np.arange(1.0, 4.0, dtype=np.float32) * (1 + rank)
    alone = np.asarray(rj.allreduce(whole, op=rj.Adasum))

    def both(row, one):
        return tuple(rj.grouped_allreduce([row, one], op=rj.Adasum))

    rows, one = way(jax.vmap(both, in_axes=(0, None), out_axes=(0, None)))(x[0], whole)
    assert_is(rows, np.array(each[0]))
    assert_is(one, alone)


@FEW
def test_many_independent_calls(hvd, rank, world):
    """XLA makes them in another order on every rank and run, here since the ranks' work takes them unequally long: each
    meets its own."""

    @jax.jit
    def program(x, weights, turns):
        results = []
        for i in range(20):
            worked = jax.lax.fori_loop(0, turns[i], lambda _, value: value @ weights, x)
            results.append(rj.allreduce(worked[0, :300] * 0 + i, op=rj.Sum))
        return results

    x, weights = jnp.ones((32, 300)), jnp.eye(300)
    generator = np.random.default_rng(rank)
    for _ in range(6):
        for i, result in enumerate(program(x, weights, generator.integers(0, 20, 20))):
            assert float(result[0]) == i * world


@pytest.mark.ranks(3)
def test_process_sets(hvd, rank, world):
    some = rj.add_process_set([0, 2])
    try:
        if some.included():
            add = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum, process_set=some))
            assert add(float(rank)) == 2.0
            assert jax.jit(lambda x: rj.allgather(x, process_set=some))(jnp.array([rank])).tolist() == [0, 2]
            gradient = jax.jit(jax.grad(lambda x: (rj.allgather(x, process_set=some) * (rank + 1.0)).sum()))
            assert gradient(jnp.ones(2)).tolist() == [2.0, 2.0]
    finally:
        assert rj.remove_process_set(some)


@pytest.mark.ranks(2)
def test_traced_on_one_rank_more_often(hvd, rank, world):
    """Another batch size on one rank has the program traced anew there: names are the same."""
    step = jax.jit(lambda x: rj.allreduce(x.sum(), op=rj.Sum) + rj.allreduce(x.max(), op=rj.Max))
    for counts in ((4, 4), (4, 4), (3, 4), (5, 5), (7, 6), (4, 4)):
        assert float(step(jnp.ones(counts[rank]))) == sum(counts) + 1


@FEW
def test_results_take_the_memory_of_operands_that_are_not_needed(hvd, rank, world):
    """XLA gets a program's own memory from the kernel anew each time that it runs: a result in new memory costs its pages."""
    elements = 1 << 20
    made = jax.jit(lambda x, factor: rj.allreduce(x * factor, op=rj.Sum)[:3])
    x = jnp.ones(elements)
    temporary = made.lower(x, 2.0).compile().memory_analysis().temp_size_in_bytes
    values = made(x, 2.0)

    given = jax.jit(lambda x: (rj.allreduce(x, op=rj.Sum), rj.broadcast(x * 0 + rank, world - 1)), donate_argnums=0)
    donated = jnp.full(elements, float(rank))
    summed, sent = given(donated)

    assert temporary < 4 * elements * 1.5
    np.testing.assert_array_equal(values, [2.0 * world] * 3)
    np.testing.assert_array_equal(summed, np.full(elements, sum(range(world)), np.float32))
    np.testing.assert_array_equal(sent, np.full(elements, world - 1, np.float32))


@FEW
@pytest.mark.parametrize("elements", [1, 1000, 100_000])
def test_operands_that_are_needed_afterwards_keep_their_values(hvd, rank, world, elements):
    @jax.jit
    def program(x):
        y = x * 2
        first = rj.allreduce(y, op=rj.Sum)
        second = rj.broadcast(y, 0)
        third, z = rj.barrier([y, x])
        again = rj.allreduce(first, op=rj.Sum)
        return x, y, first, second, third, z, again, rj.allreduce(x, op=rj.Sum), rj.allreduce(x, op=rj.Max)

    mine = np.full(elements, rank + 1, np.float32)
    total = sum(range(1, world + 1))
    expected = [rank + 1, 2 * (rank + 1), 2 * total, 2, 2 * (rank + 1), rank + 1, 2 * total * world, total, world]
    x = jnp.asarray(mine)
    for _ in range(20):
        for result, value in zip(program(x), expected):
            np.testing.assert_array_equal(result, np.full(elements, value, np.float32))
        np.testing.assert_array_equal(x, mine)


@FEW
def test_a_branch_under_vmap(hvd, rank, world):
    """Of a predicate of the whole batch all members take one branch; of another JAX would make the calls of both."""

    def sum_of(flag, batch, by_member):
        def one(x):
            taken = (flag > 0) & (x[0] < 1e9) if by_member else flag > 0
            return lax.cond(taken, lambda x: rj.allreduce(x, op=rj.Sum), lambda x: rj.allreduce(100 * x, op=rj.Sum), x)

        return jax.vmap(one)(batch)

    program = jax.jit(sum_of, static_argnums=2)
    for flag, factor in ((0, 100), (1, 1), (0, 100)):
        result = program(jnp.int32(flag), jnp.full((2, 3), rank + 1.0), False)
        assert (np.asarray(result) == factor * world * (world + 1) / 2).all()
    with pytest.raises(NotImplementedError, match="depends on the member of the batch"):
        program(jnp.int32(1), jnp.ones((2, 3)), True)

    def loop(x):
        return lax.while_loop(lambda x: rj.allreduce(x, op=rj.Sum)[0] < 8, lambda x: x + 1, x)

    with pytest.raises(NotImplementedError, match="in its condition"):
        jax.jit(jax.vmap(loop))(jnp.ones((2, 3)))


@FEW
def test_a_while_loop_under_checkpoint(hvd, rank, world):
    """JAX ended in an assertion: its rule for such loops keeps nothing of a body, and repeats nothing that has an effect."""

    def layer(w, v):
        v = lax.while_loop(
            lambda carry: carry[0] < 2, lambda carry: (carry[0] + 1, rj.allreduce(carry[1], op=rj.Sum)),
            (0, lax.stop_gradient(v)),
        )[1]
        return jnp.sin(w) * v

    def gradient(layer):
        return jax.jit(jax.grad(lambda w: layer(w, jnp.full(3, 1.0 + rank)).sum()))(jnp.ones(3))

    expected = np.cos(1) * world * world * (world + 1) / 2
    assert np.asarray(gradient(layer)) == pytest.approx(expected)
    assert np.asarray(gradient(jax.checkpoint(layer))) == pytest.approx(expected)
