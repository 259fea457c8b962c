"""Random programs of Horovod's functions, with and without names, beside NumPy.

Every rank makes the same calls, those without a name in the same order. Calls with names are made in an order of each
rank's own, and what a rank waits for, polls or drops between its calls is its own too.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any, List, Optional, Tuple

import numpy as np
import torch

KINDS = ("allreduce", "allreduce_", "grouped_allreduce", "allgather", "broadcast", "alltoall", "reducescatter")
SIZES = (1, 2, 13, 300, 4097, 30000)


@dataclasses.dataclass(frozen=True)
class Call:
    kind: str
    name: Optional[str]
    size: int
    root: int
    seed: int


def write(seed: int, world: int) -> List[List[Call]]:
    """Rounds of calls; those of a round may be under way together, which the calls of one name must not."""
    dice = random.Random(seed)

    def call(number: int) -> Call:
        name = f"p{seed}.{number}" if dice.random() < 0.4 else None
        return Call(dice.choice(KINDS), name, dice.choice(SIZES), dice.randrange(world), 0)

    pattern = [call(number) for number in range(dice.randint(1, 6))]
    rounds = []
    for _ in range(dice.randint(2, 7)):
        rounds.append([dataclasses.replace(each, seed=dice.getrandbits(30)) for each in pattern])
    return rounds


def values(call: Call, rank: int, world: int) -> np.ndarray:
    """What a rank has for a call."""
    made = np.random.default_rng(call.seed * 1009 + rank).integers(-50, 50, (call.size * world, 2))
    return made.astype(np.float64)


def expected(call: Call, rank: int, world: int) -> np.ndarray:
    """What it gets."""
    everyones = [values(call, each, world) for each in range(world)]
    if call.kind in ("allreduce", "allreduce_", "grouped_allreduce"):
        return np.sum(everyones, axis=0)
    if call.kind == "allgather":
        return np.concatenate(everyones)
    if call.kind == "broadcast":
        return everyones[call.root]
    own = slice(rank * call.size, (rank + 1) * call.size)
    if call.kind == "alltoall":
        return np.concatenate([each[own] for each in everyones])
    return np.sum(everyones, axis=0)[own]


def begin(call: Call, hvd: Any, rank: int, world: int) -> Any:
    """Makes the call; its handle."""
    tensor = torch.from_numpy(values(call, rank, world))
    if call.kind == "allreduce":
        return hvd.allreduce_async(tensor, name=call.name, op=hvd.Sum)
    if call.kind == "allreduce_":
        return hvd.allreduce_async_(tensor, name=call.name, op=hvd.Sum)
    if call.kind == "grouped_allreduce":
        return hvd.grouped_allreduce_async([tensor, tensor[:1]], name=call.name, op=hvd.Sum)
    if call.kind == "allgather":
        return hvd.allgather_async(tensor, name=call.name)
    if call.kind == "broadcast":
        return hvd.broadcast_async(tensor, call.root, name=call.name)
    if call.kind == "alltoall":
        return hvd.alltoall_async(tensor, name=call.name)
    return hvd.reducescatter_async(tensor, name=call.name, op=hvd.Sum)


def finish(call: Call, handle: Any, hvd: Any, rank: int, world: int, where: str) -> None:
    """Waits for it and looks at the result."""
    result = hvd.synchronize(handle)
    result = result[0] if isinstance(result, (list, tuple)) else result
    wanted = expected(call, rank, world)
    assert np.array_equal(result.numpy(), wanted), f"{where}: expected {wanted}, found {result}"


def run(seed: int, hvd: Any, rank: int, world: int) -> None:
    """Runs the program of this seed; raises AssertionError where a result is not NumPy's."""
    own = random.Random(seed * 31 + rank)
    pending: List[Tuple[Call, Any]] = []

    def finish_one() -> None:
        call, handle = pending.pop(own.randrange(len(pending)))
        finish(call, handle, hvd, rank, world, f"program {seed}, rank {rank}, {call}")

    for calls in write(seed, world):
        for call in _in_own_order(own, calls):
            pending.append((call, begin(call, hvd, rank, world)))
            while pending and own.random() < 0.3:
                if own.random() < 0.3:
                    hvd.poll(pending[own.randrange(len(pending))][1])
                elif _may_wait(pending, calls):
                    finish_one()
                else:
                    break
        # A name is free again once it was waited for. Of the others some are dropped, some kept.
        kept = []
        for call, handle in pending:
            if call.name is not None:
                finish(call, handle, hvd, rank, world, f"program {seed}, rank {rank}, {call}")
            elif own.random() < 0.8:
                kept.append((call, handle))
        pending[:] = kept
    while pending:
        finish_one()


def _in_own_order(own: random.Random, calls: List[Call]) -> List[Call]:
    """Those without a name stay in their order."""
    named = [call for call in calls if call.name is not None]
    own.shuffle(named)
    order = [call for call in calls if call.name is None]
    for call in named:
        order.insert(own.randint(0, len(order)), call)
    return order


def _may_wait(pending: List[Tuple[Call, Any]], calls: List[Call]) -> bool:
    """Ranks whose orders differ would wait for each other: in the midst of a round only if no call of it has a name."""
    return all(call.name is None for call in calls) and len(pending) > 0
