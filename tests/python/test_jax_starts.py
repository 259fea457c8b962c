"""ronde.jax: a program with calls that is started again with such arguments as before, which takes a short way."""

from __future__ import annotations

import gc
import threading
import time

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import ronde.jax as rj
from ronde.jax import _starts

TWO = pytest.mark.ranks(2)


def summed(tree):
    return rj.grouped_allreduce(tree, op=rj.Sum)


def lists(rank, number):
    return [jnp.full(shape, float(rank + number)) for shape in ((3,), (600, 500), (0,), ())]


def check(found, expected):
    for each, value in zip(found, expected):
        np.testing.assert_array_equal(np.asarray(each), np.full(each.shape, value, each.dtype))


@pytest.fixture
def described(monkeypatch):
    """How often JAX has looked up where a program's arguments lie."""
    from jax._src import pjit

    looked, resolve = [], pjit._resolve_in_shardings
    monkeypatch.setattr(pjit, "_resolve_in_shardings", lambda *arguments: looked.append(1) or resolve(*arguments))
    return looked


@TWO
def test_what_is_started_again_is_not_described_again(rank, described):
    """It took JAX 11 us an argument."""
    step = jax.jit(summed, donate_argnums=0)
    for number in range(6):
        check(jax.block_until_ready(step(lists(rank, number))), [2.0 * number + 1] * 4)
        if number == 1:
            described.clear()
    assert not described


@TWO
@pytest.mark.parametrize("kind", ["number", "array of NumPy's", "number of NumPy's"])
def test_arguments_that_are_no_arrays_of_jax(rank, described, kind):
    """They may have another value each time."""
    of = {"number": float, "array of NumPy's": lambda x: np.full(3, x, np.float32), "number of NumPy's": np.float32}[kind]
    step = jax.jit(lambda tree, more: summed([each + jnp.sum(more) * 0 + jnp.max(more) for each in tree]))
    for number in range(5):
        check(step(lists(rank, number), of(number)), [4.0 * number + 1] * 4)
        if number == 1:
            described.clear()
    assert not described


@TWO
def test_random_keys(rank, described):
    step = jax.jit(lambda key, x: rj.allreduce(x + jax.random.randint(key, (), 0, 1000), op=rj.Sum))
    for number in range(5):
        key = jax.random.key(number)
        expected = 2.0 * int(jax.random.randint(key, (), 0, 1000)) + 1
        described.clear()
        assert float(step(key, jnp.float32(rank))) == expected
        assert number < 1 or not described


def others(rank, number):
    """Arguments of the same shapes and types that are something else to JAX."""
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    plain = lists(rank, number)
    device = jax.devices()[0]
    named = NamedSharding(Mesh(np.array([device]), ("x",)), PartitionSpec())
    return {
        "plain": plain,
        "committed": [jax.device_put(each, device) for each in plain],
        "named": [jax.device_put(each, named) for each in plain],
        "NumPy's": [np.asarray(each) for each in plain],
        "mixed": [np.asarray(each) if place % 2 else each for place, each in enumerate(plain)],
    }


@TWO
def test_arguments_that_change(rank):
    step = jax.jit(summed)
    for number in range(3):
        for _ in range(3):
            for arguments in others(rank, number).values():
                check(step(arguments), [2.0 * number + 1] * 4)
        for arguments in others(rank, number).values():
            for _ in range(3):
                check(step(arguments), [2.0 * number + 1] * 4)


@TWO
def test_another_layout(rank):
    layout = pytest.importorskip("jax.experimental.layout")
    if not hasattr(layout, "Format"):
        pytest.skip("this JAX has no public Format")
    step = jax.jit(summed)
    rows = np.arange(12, dtype=np.float32).reshape(3, 4)
    turned = layout.Format(layout.Layout((1, 0)), jax.sharding.SingleDeviceSharding(jax.devices()[0]))
    for _ in range(3):
        for array in (jnp.asarray(rows), jax.device_put(rows, jax.devices()[0]), jax.device_put(rows, turned)):
            for _ in range(3):
                np.testing.assert_array_equal(np.asarray(step([array])[0]), 2 * rows)


@TWO
def test_settings_that_change(rank):
    step = jax.jit(lambda x: rj.allreduce((x @ x)[0, 0], op=rj.Sum))
    x = jnp.eye(2)
    for _ in range(3):
        for _ in range(3):
            assert float(step(x)) == 2.0
        with jax.default_matmul_precision("float32"):
            for _ in range(3):
                assert float(step(x)) == 2.0
        with jax.debug_nans(True):
            for _ in range(3):
                assert float(step(x)) == 2.0


@TWO
@pytest.mark.parametrize("clear", ["all", "one"])
def test_traces_that_are_dropped(rank, clear):
    """They are used no more, and nothing keeps them."""
    factor = 1.0
    step = jax.jit(lambda tree: summed([factor * each for each in tree]))
    gc.collect()
    before = len(_starts._starts)
    for factor in (1.0, 2.0, 3.0):
        for number in range(4):
            check(step(lists(rank, number)), [factor * (2 * number + 1)] * 4)
        assert len(_starts._starts) > 0
        jax.clear_caches() if clear == "all" else step.clear_cache()
    jax.clear_caches()
    gc.collect()
    assert len(_starts._starts) <= before


@TWO
def test_an_argument_that_was_donated_before(rank):
    step = jax.jit(lambda tree: summed(tree), donate_argnums=0)  # of another name than others, since it is lost after the error
    for number in range(4):
        arguments = lists(rank, number)
        check(step(arguments), [2.0 * number + 1] * 4)
    with pytest.raises((RuntimeError, ValueError), match="deleted|donated"):
        jax.block_until_ready(step(arguments))


@TWO
def test_calls_in_a_program_that_is_traced_around(rank):
    """Of a jitted function of which derivatives are taken outside, JAX starts the parts by another way."""
    step = jax.jit(lambda x: rj.allreduce(x * x, op=rj.Sum).sum())
    for number in range(5):
        gradient = jax.grad(step)(jnp.full(4, float(number + rank)))
        np.testing.assert_array_equal(np.asarray(gradient), np.full(4, 4.0 * (number + rank)))


@TWO
def test_threads_that_start_one_program(rank):
    """In turns, each with arguments of its own."""
    step = jax.jit(summed)
    found = []

    def run(number):
        found.append([np.asarray(each).max(initial=0) for each in step(lists(rank, number))[:2]])

    for number in range(6):
        thread = threading.Thread(target=run, args=(number,))
        thread.start()
        thread.join()
        run(number + 10)
    assert found == [[2.0 * number + 1] * 2 for start in range(6) for number in (start, start + 10)]


@TWO
def test_a_program_that_is_started_while_it_is_being_started(rank, monkeypatch):
    """By a signal handler or a finalizer: the outer one took what the inner one had left, and was broken from then on."""
    from jax._src.interpreters.pxla import ExecuteReplicated

    step = jax.jit(lambda v, w: rj.allreduce(v + w, op=rj.Sum))
    of_jax, of_numpy = jnp.ones(3), np.ones(3, np.float32)
    for each in (of_jax, of_numpy):
        check([step(each, each)], [4.0])
    handle, inner = ExecuteReplicated._handle_token_bufs, [True]

    def handle_and_start(self, *arguments):
        handle(self, *arguments)
        if inner and inner.pop():
            check([step(of_jax, of_jax)], [4.0])

    check([step(of_jax, of_jax)], [4.0])  # so that the next one is described anew
    monkeypatch.setattr(ExecuteReplicated, "_handle_token_bufs", handle_and_start)
    check([step(of_numpy, of_numpy)], [4.0])
    assert not inner
    for each in (of_numpy, of_numpy, of_jax, of_jax, of_numpy):
        check([step(each, each)], [4.0])


@TWO
def test_an_executable_that_jax_has_dropped_is_dropped(rank):
    before = list(_starts._starts.values())
    step = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))
    trace = step.trace(jnp.ones(3)).jaxpr
    for _ in range(3):
        check([step(jnp.ones(3))], [2.0])
    (kept,) = [start for start in _starts._starts.values() if all(start is not each for each in before)]
    assert kept.compiled() is not None
    jax.clear_caches()
    until = time.monotonic() + 10
    while kept.compiled() is not None and time.monotonic() < until:  # its last execution may have to be taken note of
        gc.collect()
        jax.block_until_ready(jnp.ones(1) + 1)
    assert kept.compiled() is None, trace
    check([step(jnp.ones(3))], [2.0])


@TWO
def test_arguments_that_cannot_be_described(rank, monkeypatch):
    """A device may know no layouts: JAX goes on without."""
    def none(self):
        raise RuntimeError("UNIMPLEMENTED: layouts")

    step = jax.jit(lambda x: rj.allreduce(x, op=rj.Sum))
    check([step(jnp.ones(3))], [2.0])
    monkeypatch.setattr(_starts, "_layout_of", none)
    check([step(jnp.ones(3)), step(jnp.ones(3))], [2.0, 2.0])
