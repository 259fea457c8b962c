"""Random programs of ``ronde.jax`` beside NumPy: helpers within helpers, of every kind that JAX traces and keeps by itself.

A program is a tree of linear functions of a vector, so that NumPy can tell its value and its gradient on every rank. Helpers are
shared by the programs and called with several shapes. Ranks have vectors of other lengths at each step, trace again at
moments of their own, and lose now and then what JAX has kept.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, Callable, List, Set

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

import ronde.jax as rj

CALLS = ("sum", "average", "grouped", "broadcast", "allgather", "alltoall", "reducescatter")
ONE_PART = ("jit", "checkpoint", "scan", "unrolled", "while", "vmap", "twice", "two shapes", "own rule", "pullback", "pullbacks")
TWO_PARTS = ("sequence", "cond")

Vectors = List[np.ndarray]  # one of each rank


@dataclasses.dataclass
class Node:
    kind: str
    parts: List["Node"]
    number: int  # a call's root, name and weight; which branch; how many times
    call: Any = None  # of a vector, in JAX: one function for ever, so that its traces are kept


def has_gradient(node: Node) -> bool:
    # Horovod's rules give the gradient's gradient of the others another factor than the call itself has.
    is_turned_back = node.kind not in ("pullback", "pullbacks") or calls_in(node) <= {"sum", "average", "grouped", "alltoall"}
    return node.kind != "while" and is_turned_back and all(has_gradient(part) for part in node.parts)


def calls_in(node: Node) -> Set[str]:
    return {node.kind} if not node.parts else set().union(*map(calls_in, node.parts))


def write(dice: random.Random, depth: int, known: List[Node]) -> Node:
    if known and dice.random() < 0.4:
        return dice.choice(known)
    number = dice.randrange(2, 30)
    if depth == 0 or dice.random() < 0.2:
        return compiled(Node(dice.choice(CALLS), [], number))
    kind = dice.choice(ONE_PART + TWO_PARTS + ("sequence",))
    parts = [write(dice, depth - 1, known) for _ in range(2 if kind in TWO_PARTS else 1)]
    if kind in ("own rule", "pullback", "pullbacks") and not has_gradient(parts[0]):
        kind = "jit"
    return compiled(Node(kind, parts, number))


# In JAX.


def late(value: Any) -> Any:
    """A number, after work that takes each rank another time."""
    turns = (lax.stop_gradient(jnp.abs(value)) * 1000).astype(jnp.int32) % 5
    worked = lax.fori_loop(0, turns, lambda _, each: jnp.tanh(each @ each), jnp.full((60, 60), lax.stop_gradient(value)))
    return value + 0 * worked[0, 0]


def call_of(node: Node) -> Callable[[Any], Any]:
    name = f"random.{node.kind}.{node.number}" if node.number % 3 == 0 else None
    world = rj.size()

    def reduced(x: Any) -> Any:
        mean = late(x.mean())
        if node.kind == "sum":
            return rj.allreduce(mean, op=rj.Sum, name=name)
        if node.kind == "average":
            return rj.allreduce(mean, name=name)
        if node.kind == "grouped":
            one, other = rj.grouped_allreduce([mean, jnp.stack([mean, mean])], op=rj.Sum, name=name)
            return one + 2 * other[1]
        if node.kind == "broadcast":
            return rj.broadcast(mean, node.number % world, name=name)
        if node.kind == "allgather":
            return (rj.allgather(mean[None], name=name) * jnp.arange(1.0, world + 1)).sum()
        if node.kind == "alltoall":
            sent = mean * jnp.arange(1.0, world + 1)
            return (rj.alltoall(sent, name=name) * jnp.arange(1.0, world + 1)).sum()
        return rj.reducescatter(mean * jnp.arange(1.0, world + 1), op=rj.Sum, name=name)[0]

    return lambda x: 0.5 * x + 0.1 * node.number * reduced(x)


def compiled(node: Node) -> Node:
    """With its function, whose inner ones are made once, as a program has them."""
    part = node.parts[0].call if node.parts else call_of(node)
    other = node.parts[-1].call if node.parts else None
    kind, times = node.kind, 1 + node.number % 3

    def body(x: Any, _: Any) -> Any:
        return part(x), None

    def counted(state: Any) -> Any:
        return state[0] + 1, part(state[1])

    def not_yet(state: Any) -> Any:
        return state[0] < times

    vmapped, checkpointed, jitted = jax.vmap(part), jax.checkpoint(part), jax.jit(part)
    own_rule = jax.custom_vjp(part)
    own_rule.defvjp(lambda x: (part(x), x), lambda x, gradient: jax.vjp(part, x)[1](gradient))

    def of_two_shapes(x: Any) -> Any:
        return jitted(x) + jitted(jnp.stack([x[0], x.sum()])).sum()

    def by_pullback(x: Any) -> Any:
        _, pullback = jax.vjp(part, x)
        return pullback(x)[0] + 2 * pullback(x[::-1])[0]

    def by_two_pullbacks(x: Any) -> Any:
        two = jnp.stack([x[0], x.sum()])
        (_, one), (_, other) = jax.vjp(jitted, x), jax.vjp(jitted, two)
        return one(x)[0] + other(two)[0].sum()  # in the order of the calls

    ways = {
        "jit": jitted,
        "checkpoint": checkpointed,
        "scan": lambda x: lax.scan(body, x, None, length=times)[0],
        "unrolled": lambda x: lax.scan(body, x, None, length=times, unroll=2)[0],
        "while": lambda x: lax.while_loop(not_yet, counted, (0, x))[1],
        "vmap": lambda x: vmapped(jnp.stack([x, 3 * x])).sum(0),
        "twice": lambda x: jitted(x) + 3 * jitted(x + 1),
        "two shapes": of_two_shapes,
        "own rule": own_rule,
        "pullback": by_pullback,
        "pullbacks": by_two_pullbacks,
        "sequence": lambda x: other(part(x)),
        "cond": lambda x: lax.cond(lax.stop_gradient(x[0]) * 0 + node.number % 2 > 0, part, other, x),
    }
    node.call = ways.get(kind, part)
    return node


# In NumPy.


def both_ways(kind: str, root: int, each: np.ndarray, backward: bool) -> np.ndarray:
    """What a call makes of the ranks' numbers, and Horovod's rules of their gradients."""
    world = len(each)
    ranks = np.arange(1.0, world + 1)
    if kind in ("sum", "average", "grouped"):
        return np.full(world, each.sum() * {"sum": 1, "average": 1 / world, "grouped": 3}[kind])
    if kind == "broadcast":
        return each.mean() * (np.arange(world) == root) if backward else np.full(world, each[root])
    if kind == "allgather":
        return ranks * each.mean() if backward else np.full(world, (ranks * each).sum())
    if kind == "alltoall":
        return ranks * (ranks * each).sum()
    return np.full(world, world * (ranks * each).sum()) if backward else ranks * each.sum()


def value(node: Node, xs: Vectors, linear: bool = False) -> Vectors:
    """Of the node's function on every rank; ``linear``: without what it adds."""

    def inner(xs: Vectors, at: int = 0) -> Vectors:
        return value(node.parts[at], xs, linear)

    kind = node.kind
    if kind in CALLS:
        reduced = both_ways(kind, node.number % len(xs), np.array([x.mean() for x in xs]), False)
        return [0.5 * x + 0.1 * node.number * more for x, more in zip(xs, reduced)]
    if kind in ("scan", "unrolled", "while"):
        for _ in range(1 + node.number % 3):
            xs = inner(xs)
        return xs
    if kind == "vmap":
        return added(inner(xs), inner([3 * x for x in xs]))
    if kind == "twice":
        return added(inner(xs), [3 * x for x in inner([x + (not linear) for x in xs])])
    if kind == "two shapes":
        return added(inner(xs), [x.sum() for x in inner([np.stack([x[0], x.sum()]) for x in xs])])
    if kind == "pullback":
        return added(gradient(node.parts[0], xs), [2 * x for x in gradient(node.parts[0], [x[::-1] for x in xs])])
    if kind == "pullbacks":
        twos = gradient(node.parts[0], [np.stack([x[0], x.sum()]) for x in xs])
        return added(gradient(node.parts[0], xs), [two.sum() for two in twos])
    if kind == "sequence":
        return inner(inner(xs), 1)
    return inner(xs, 1 - node.number % 2) if kind == "cond" else inner(xs)


def gradient(node: Node, gs: Vectors) -> Vectors:
    """From gradients of the function's results, on every rank, to those of its argument."""

    def inner(gs: Vectors, at: int = 0) -> Vectors:
        return gradient(node.parts[at], gs)

    kind = node.kind
    if kind in CALLS:
        each = both_ways(kind, node.number % len(gs), np.array([0.1 * node.number * g.sum() for g in gs]), True)
        return [0.5 * g + more / len(g) for g, more in zip(gs, each)]
    if kind in ("scan", "unrolled"):
        for _ in range(1 + node.number % 3):
            gs = inner(gs)
        return gs
    if kind == "vmap":
        return [4 * g for g in inner(gs)]
    if kind == "twice":
        return added(inner(gs), inner([3 * g for g in gs]))
    if kind == "two shapes":
        return added(inner(gs), spread(gs, inner([np.full(2, g.sum()) for g in gs])))
    if kind == "pullback":
        # The gradient of a linear function's gradient is the function, reversed where its argument was.
        return added(value(node.parts[0], gs, True), [2 * x[::-1] for x in value(node.parts[0], gs, True)])
    if kind == "pullbacks":
        return added(value(node.parts[0], gs, True), spread(gs, value(node.parts[0], [np.full(2, g.sum()) for g in gs], True)))
    if kind == "sequence":
        return inner(inner(gs, 1))
    return inner(gs, 1 - node.number % 2) if kind == "cond" else inner(gs)


def spread(xs: Vectors, twos: Vectors) -> Vectors:
    """Gradients of vectors like these from those of their first element and their sum."""
    return [sum_ + first * (np.arange(len(x)) == 0) for x, (first, sum_) in zip(xs, twos)]


def added(xs: Vectors, ys: Any) -> Vectors:
    return [x + y for x, y in zip(xs, ys)]


def run(seed: int, rank: int, world: int, steps: int = 4) -> None:
    """Writes programs by the seed, the same on all ranks, and runs them. AssertionError where a value is not NumPy's."""
    dice = random.Random(seed)
    known: List[Node] = []
    for _ in range(3):
        known.append(compiled(Node("jit", [write(dice, 1, known)], 1)))
    programs = []
    for _ in range(2):
        root = write(dice, 2, known)
        # The sum of the results' squares: its gradient is that of the vector with the weights 2 y.
        graded = has_gradient(root)
        programs.append((root, graded, jax.jit(jax.value_and_grad(loss_of(root)) if graded else loss_of(root))))
    for step in range(steps):
        lengths = [dice.choice((2, 3, 3, 4)) for _ in range(world)]
        xs = [np.random.default_rng([seed, step, each]).uniform(0.1, 1, lengths[each]) for each in range(world)]
        forgetting = dice.choice((None, None, *range(world)))
        for root, graded, program in programs:
            if forgetting == rank:
                jax.clear_caches()
            result = program(jnp.asarray(xs[rank], jnp.float32))
            if dice.random() < 0.3:
                assert float(rj.allreduce(float(rank), op=rj.Sum)) == world * (world - 1) / 2
            ys = value(root, xs)
            found = [result[0], result[1]] if graded else [result]
            expected = [(ys[rank] ** 2).sum()] + ([gradient(root, [2 * y for y in ys])[rank]] if graded else [])
            for one, other in zip(found, expected):
                nearly = 1e-3 * np.abs(other).max()
                np.testing.assert_allclose(np.asarray(one), other, rtol=2e-3, atol=nearly, err_msg=f"{seed} {step}")


def loss_of(node: Node) -> Callable[[Any], Any]:
    def loss(x: Any) -> Any:
        return (node.call(x) ** 2).sum()

    return loss
