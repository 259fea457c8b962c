"""Random programs of torch.distributed, each run over two backends at once, call by call, so that results can be compared.

A program is a list of calls, the same on every rank. What a rank does between its calls is its own: it waits for some
works, polls or drops others, leaves some to another thread, and does all this at other moments on each rank. None of it
may change a result.
"""

from __future__ import annotations

import dataclasses
import random
import threading
import time
from typing import Any, Callable, List, Optional, Tuple

import torch
import torch.distributed as dist

KINDS = (
    "all_reduce",
    "all_reduce",
    "all_reduce",
    "broadcast",
    "all_gather",
    "all_gather_into_tensor",
    "reduce",
    "gather",
    "scatter",
    "reduce_scatter_tensor",
    "all_to_all_single",
    "barrier",
)
SIZES = (0, 1, 2, 14, 257, 4099, 40000)
DTYPES = (torch.float32, torch.float32, torch.float64, torch.int64)


@dataclasses.dataclass(frozen=True)
class Call:
    kind: str
    group: int
    size: int
    dtype: torch.dtype
    op: Any
    root: int  # in the group
    is_async: bool
    in_backward: bool
    seed: int


def write(seed: int, n_groups: int, n_ranks: int) -> List[Call]:
    """The calls of a program: some kinds and sizes, which come back, since what comes back is replayed."""
    dice = random.Random(seed)
    pattern = [_call(dice, n_groups, n_ranks) for _ in range(dice.randint(1, 5))]
    calls = []
    for _ in range(dice.randint(2, 8)):
        for call in pattern:
            calls.append(dataclasses.replace(call, seed=dice.getrandbits(30)))
        if dice.random() < 0.2:
            calls.append(_call(dice, n_groups, n_ranks))
    return calls


def _call(dice: random.Random, n_groups: int, n_ranks: int) -> Call:
    op = dice.choice((dist.ReduceOp.SUM, dist.ReduceOp.SUM, dist.ReduceOp.MAX, dist.ReduceOp.MIN))
    return Call(
        dice.choice(KINDS),
        dice.randrange(n_groups),
        dice.choice(SIZES),
        dice.choice(DTYPES),
        op,
        dice.randrange(n_ranks),
        dice.random() < 0.7,
        dice.random() < 0.2,
        dice.getrandbits(30),
    )


class _InBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, leaf: torch.Tensor, what: Callable[[], None]) -> torch.Tensor:
        ctx.what = what
        return leaf.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Tuple[torch.Tensor, None]:
        ctx.what()
        return gradient, None


def in_backward(what: Callable[[], None]) -> None:
    """Calls it within a backward pass."""
    _InBackward.apply(torch.ones(1, requires_grad=True), what).sum().backward()


def make(call: Call, group: Any, rank: int, world: int) -> Tuple[List[torch.Tensor], Optional[Any]]:
    """Makes the call on this group, whose ranks are all ranks; its results, and its work if there is one."""
    generator = torch.Generator().manual_seed(call.seed * 1009 + rank)
    if call.dtype.is_floating_point:
        whole = torch.randn(call.size * world, generator=generator, dtype=call.dtype)
    else:
        whole = torch.randint(-1000, 1000, (call.size * world,), generator=generator, dtype=call.dtype)
    parts = [whole[each * call.size : (each + 1) * call.size].clone() for each in range(world)]
    mine = parts[rank]
    asynchronous = call.is_async
    kind = call.kind
    if kind == "all_reduce":
        return [mine], dist.all_reduce(mine, call.op, group, asynchronous)
    if kind == "broadcast":
        return [mine], dist.broadcast(mine, call.root, group, asynchronous)
    if kind == "reduce":
        work = dist.reduce(mine, call.root, call.op, group, asynchronous)
        return ([mine] if rank == call.root else []), work
    if kind == "all_gather":
        outputs = [torch.empty_like(mine) for _ in range(world)]
        return outputs, dist.all_gather(outputs, mine, group, asynchronous)
    if kind == "all_gather_into_tensor":
        output = torch.empty(call.size * world, dtype=call.dtype)
        return [output], dist.all_gather_into_tensor(output, mine, group, asynchronous)
    if kind == "gather":
        outputs = [torch.empty_like(mine) for _ in range(world)] if rank == call.root else None
        return outputs or [], dist.gather(mine, outputs, call.root, group, asynchronous)
    if kind == "scatter":
        return [mine], dist.scatter(mine, parts if rank == call.root else None, call.root, group, asynchronous)
    if kind == "reduce_scatter_tensor":
        return [mine], dist.reduce_scatter_tensor(mine, whole, call.op, group, asynchronous)
    if kind == "all_to_all_single":
        output = torch.empty_like(whole)
        return [output], dist.all_to_all_single(output, whole, group=group, async_op=asynchronous)
    assert kind == "barrier"
    return [], dist.barrier(group, asynchronous)


def run(seed: int, pairs: List[Tuple[Any, Any]], rank: int, world: int) -> None:
    """Runs the program of this seed over both groups of each pair; raises AssertionError where results differ.

    Each backend gets its calls of a group in the program's order; the calls of different groups are made by different
    threads in half of the programs.
    """
    calls = write(seed, len(pairs), world)
    if seed % 2 == 0 or len(pairs) == 1:
        _run_calls(seed, calls, pairs, rank, world)
        return
    failures: List[BaseException] = []

    def run_group(index: int) -> None:
        try:
            _run_calls(seed + index, [call for call in calls if call.group == index], pairs, rank, world)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run_group, args=(index,)) for index in range(len(pairs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _run_calls(seed: int, calls: List[Call], pairs: List[Tuple[Any, Any]], rank: int, world: int) -> None:
    own = random.Random(seed * 31 + rank)  # what only this rank does
    reference: List[Tuple[List[torch.Tensor], Any]] = []
    tried: List[Tuple[List[torch.Tensor], Any]] = []
    pending: List[int] = []  # calls that this rank has not waited for
    for number, call in enumerate(calls):
        reference.append(make(call, pairs[call.group][0], rank, world))

        def make_it(call: Call = call) -> None:
            tried.append(make(call, pairs[call.group][1], rank, world))

        if call.in_backward:
            in_backward(make_it)
        else:
            make_it()
        if tried[-1][1] is not None:
            pending.append(number)
        _between(own, tried, pending)
    own.shuffle(pending)
    for number in pending:
        work = tried[number][1]
        if work is not None:
            work.wait()
    for _, work in reference:
        if work is not None:
            work.wait()
    for number, call in enumerate(calls):
        for expected, found in zip(reference[number][0], tried[number][0]):
            _expect(expected, found, world == 2, lambda: f"program {seed}, rank {rank}, call {number}: {call}")


def _expect(expected: torch.Tensor, found: torch.Tensor, to_the_bit: bool, where: Callable[[], str]) -> None:
    """A work that was dropped has no end that a program could wait for: its results come by themselves."""
    until = time.monotonic() + 10
    while not (torch.equal(expected, found) if to_the_bit else torch.allclose(expected, found, 1e-4, 1e-5)):
        assert time.monotonic() < until, f"{where()}: expected {expected}, found {found}"
        time.sleep(0.001)


def _between(own: random.Random, tried: List[Tuple[List[torch.Tensor], Any]], pending: List[int]) -> None:
    """What a rank does between two calls."""
    while pending and own.random() < 0.45:
        number = pending.pop(own.randrange(len(pending)))
        results, work = tried[number]
        what = own.random()
        if what < 0.5:
            work.wait()
        elif what < 0.65:
            while not work.is_completed() and own.random() < 0.95:
                pass
            pending.append(number)
            return
        elif what < 0.8:
            waiter = threading.Thread(target=work.wait)
            waiter.start()
            waiter.join()
        else:
            tried[number] = (results, None)  # dropped
