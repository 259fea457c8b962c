"""Works of torch.distributed that nobody waits for, or no longer: what becomes of their results, tensors and threads."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook

from distributed_group import default_group
from ronde.exceptions import RondeError
from ronde.torch.distributed import _work
from ronde.torch.distributed._completer import Completer
from test_interrupts import Interrupt, interrupted


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def assert_comes(condition: Callable[[], bool]) -> None:
    """Within 10 s. Nothing tells when."""
    until = time.monotonic() + 10
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.001)


def gathered(world: int) -> torch.Tensor:
    """What gathering the ranks' numbers gives."""
    return torch.arange(float(world))


class Node:
    """Something in a cycle, so that the collector ends it."""

    def __init__(self, held: Any) -> None:
        self.held, self.itself = held, self


@pytest.mark.ranks(2)
def test_what_is_done_is_let_go(world):
    """Though the thread that completes futures sleeps afterwards, with nothing more to do."""
    tensor = torch.ones(3)
    assert dist.all_reduce(tensor, async_op=True).get_future().wait()[0].tolist() == [world] * 3
    alive = weakref.ref(tensor)
    del tensor
    assert_comes(lambda: alive() is None)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("waits", ["the thread that completes futures", "another thread"])
def test_who_polls_while_somebody_else_waits(world, waits):
    """Who waits frees what is asked again and again meanwhile."""
    for _ in range(500):
        tensors = [torch.ones(n) for n in (1, 300, 600, 1)]
        works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
        if waits == "another thread":
            waiter = threading.Thread(target=lambda works=works: [work.wait() for work in works])
            waiter.start()
        else:
            futures = [work.get_future() for work in works]
        for work in works:
            while not work.is_completed():
                pass
        if waits == "another thread":
            waiter.join()
        else:
            torch.futures.wait_all(futures)
        assert all(bool((tensor == world).all()) for tensor in tensors)


@pytest.mark.ranks(2)
def test_a_work_under_way_has_no_result(rank, world):
    """It gave the tensors as they were, this rank's own."""
    mine = torch.full((1000,), rank + 1.0)
    if rank == 0:
        work = dist.all_reduce(mine, async_op=True)
        with pytest.raises(RuntimeError, match=r"has not ended: call wait\(\) before result\(\)"):
            work.result()
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)
        work = dist.all_reduce(mine, async_op=True)
    work.wait()
    assert work.result()[0].unique().tolist() == [3.0]


@pytest.mark.ranks(2, 3)
def test_who_drops_a_work_gets_its_results_all_the_same(rank, world):
    """As over Gloo."""
    mine = torch.full((1,), float(rank))
    together, parts = torch.full((world,), -1.0), [torch.full((1,), -1.0) for _ in range(world)]
    dist.all_gather_into_tensor(together, mine, async_op=True)
    dist.all_gather(parts, mine, async_op=True)
    dist.barrier()
    assert_comes(lambda: torch.equal(together, gathered(world)) and torch.equal(torch.cat(parts), gathered(world)))


@pytest.mark.long
@pytest.mark.ranks(2)
def test_the_collector_may_end_works_while_others_are_handed_over(group, rank, world):
    """At each of the first allocations after a future was asked for: before, while and after the thread is started."""
    thresholds = gc.get_threshold()
    outputs: List[torch.Tensor] = []
    try:
        for count in range(60):
            group._completer = Completer()
            gc.collect()
            gc.disable()
            outputs.append(torch.full((world,), -1.0))
            node = Node(group.all_gather_single(outputs[-1], torch.full((1,), float(rank))))
            work = dist.all_reduce(torch.ones(1), async_op=True)
            del node
            gc.set_threshold(gc.get_count()[0] + count, 1, 1)
            gc.enable()
            future = work.get_future()
            gc.disable()
            assert future.wait()[0].item() == world
            gc.collect()
            group._completer.end_when_idle()
            assert_comes(lambda: not group._completer.runs())
    finally:
        gc.set_threshold(*thresholds)
        gc.enable()
    assert all(torch.equal(output, gathered(world)) for output in outputs)


@pytest.mark.ranks(2)
def test_the_thread_of_all_groups_ends_with_the_last():
    groups = [dist.new_group() for _ in range(2)]
    assert groups[0]._completer is groups[1]._completer
    own = Completer()
    for group in groups:
        group._completer.end_group()
        group._completer = own
        own.begin_group()
    dist.all_reduce(torch.ones(1), group=groups[0], async_op=True).get_future().wait()
    assert own.runs()
    dist.destroy_process_group(groups[0])
    dist.all_reduce(torch.ones(1), group=groups[1], async_op=True).get_future().wait()
    assert own.runs()
    dist.destroy_process_group(groups[1])
    assert_comes(lambda: not own.runs())


@pytest.mark.ranks(2)
def test_a_future_comes_though_a_wait_was_interrupted(rank, monkeypatch):
    got = torch.full((1,), -1.0)
    futures: List[Any] = []

    def interrupt(*_: Any) -> bool:
        futures.append(work.get_future())  # while the wait has it
        raise KeyboardInterrupt

    if rank == 0:
        work = dist.irecv(got, 1)
        monkeypatch.setattr(_work, "_wait_for", interrupt)
        with pytest.raises(KeyboardInterrupt):
            work.wait(timedelta(seconds=10))
        dist.barrier()
        [future] = futures
        assert_comes(future.done)
        assert future.wait()[0].item() == 3.0
    else:
        dist.barrier()
        dist.send(torch.full((1,), 3.0), 0)


def waits_elsewhere(future: Any) -> torch.Tensor:
    with ThreadPoolExecutor(1) as other:
        return other.submit(future.wait).result(timeout=120)[0]


def asks_elsewhere(future: Any) -> torch.Tensor:
    with ThreadPoolExecutor(1) as other:
        other.submit(assert_comes, future.done).result(timeout=120)
    return future.value()[0]


def is_told(future: Any) -> torch.Tensor:
    told = threading.Event()
    future.add_done_callback(lambda _: told.set())
    assert told.wait(20)
    return future.value()[0]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("look", [waits_elsewhere, asks_elsewhere, is_told])
def test_a_future_of_a_backward_pass_that_somebody_else_looks_at(rank, world, look):
    """While the thread of the pass waits for them."""
    weight = torch.ones(4, requires_grad=True)
    weight.register_hook(lambda gradient: look(dist.all_reduce(gradient.clone(), async_op=True).get_future()))
    for _ in range(3):
        weight.grad = None
        ((rank + 1.0) * weight).sum().backward()
        assert weight.grad is not None and weight.grad.tolist() == [world * (world + 1) / 2] * 4


@pytest.mark.ranks(2)
def test_whether_a_future_is_done_is_told_at_once(rank, world):
    """In a backward pass too, where the other rank waits for what comes after the question."""
    weight = torch.ones(4, requires_grad=True)

    def reduced(gradient: torch.Tensor) -> torch.Tensor:
        if rank == 1:
            dist.recv(torch.ones(1), 0)
        future = dist.all_reduce(gradient.clone(), async_op=True).get_future()
        if rank == 0:
            assert not future.done()
            dist.send(torch.ones(1), 1)
        while not future.done():
            pass
        return future.value()[0]

    weight.register_hook(reduced)
    ((rank + 1.0) * weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [3.0] * 4


@pytest.mark.ranks(2)
def test_what_a_signal_handler_raises_at_the_end_of_a_pass_is_told(rank):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(3, 2))
    model.register_comm_hook(None, default_hooks.allreduce_hook)
    for _ in range(2):
        model(torch.ones(1, 3)).sum().backward()
    if rank == 0:
        begun = time.monotonic()
        with pytest.raises(Interrupt), interrupted(0.2):
            model(torch.ones(1, 3)).sum().backward()  # the other rank does not come
        assert time.monotonic() - begun < 5
        dist.send(torch.ones(1), 1)
    else:
        dist.recv(torch.ones(1), 0)
    dist.barrier()


@pytest.mark.ranks(2)
def test_calls_made_as_one_are_those_of_a_thread(rank):
    """Another's that is refused meanwhile is not among them."""
    got = torch.zeros(3)
    if rank == 0:
        with dist.distributed_c10d._coalescing_manager(device=torch.device("cpu")):
            dist.irecv(got, 1)
            with ThreadPoolExecutor(1) as other, pytest.raises(RondeError):
                other.submit(dist.isend, torch.ones(1), 1, tag=1 << 40).result()
            dist.isend(torch.ones(1), 1)
        assert got.tolist() == [7.0] * 3
    else:
        dist.recv(torch.ones(1), 0)
        dist.send(torch.full((3,), 7.0), 0)


@pytest.mark.ranks(2)
def test_what_is_put_behind_a_future_may_wait_for_another(world):
    first, second = torch.ones(3), torch.ones(3)
    future = dist.all_reduce(first, async_op=True).get_future()
    behind = future.then(lambda _: dist.all_reduce(second, async_op=True).get_future().wait()[0] + first)
    assert_comes(behind.done)
    assert behind.wait().tolist() == [2.0 * world] * 3


@pytest.mark.ranks(2)
def test_a_hook_that_waits_while_the_backward_pass_goes_on(world):
    """PyTorch's PowerSGD waits in what it puts behind futures; buckets are done long before the pass is."""
    torch.manual_seed(1)
    layers = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.Linear(64, 64))
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.001)
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
    layers[0].register_full_backward_hook(lambda *_: time.sleep(0.1))
    for _ in range(4):
        model(torch.randn(4, 64)).sum().backward()
    for parameter in model.parameters():
        everyones = [torch.empty_like(parameter) for _ in range(world)]
        dist.all_gather(everyones, parameter.grad)
        assert all(torch.equal(each, everyones[0]) for each in everyones)


def reduced_again(future: Any) -> torch.Tensor:
    """What is put behind a future: the sum of the ranks' results so far, waited for."""
    value = future.value()
    value = value[0] if isinstance(value, list) else value
    return dist.all_reduce(value, async_op=True).get_future().wait()[0]


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("passes_over", [0, 1, 2])
def test_what_is_put_behind_futures_runs_in_one_order_whatever_the_timing(rank, world, passes_over):
    """Each gradient has a value of its own, so that sums of different buckets would be seen."""
    torch.manual_seed(1)
    layers = torch.nn.Sequential(*[torch.nn.Linear(16, 16, bias=False) for _ in range(4)])
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.001)
    places = {layer.weight: place for place, layer in enumerate(layers)}
    order: List[int] = []

    def hook(state, bucket):
        for gradient, parameter in zip(bucket.gradients(), bucket.parameters()):
            gradient.fill_(10.0 ** places[parameter] * (rank + 1))
        future = dist.all_reduce(bucket.buffer(), async_op=True).get_future()

        def link(before: Any) -> torch.Tensor:
            order.append(bucket.index())
            return reduced_again(before)

        return future.then(link).then(link)

    model.register_comm_hook(None, hook)
    layers[passes_over].register_full_backward_hook(lambda *_: time.sleep(0.05 * rank))
    for _ in range(4):
        order.clear()
        model(torch.randn(4, 16)).sum().backward()
        orders: List[Any] = [None] * world
        dist.all_gather_object(orders, order)
        assert orders == [orders[0]] * world
        for weight, place in places.items():
            assert weight.grad.eq(10.0**place * world * (world + 1) / 2 * world**2).all(), place


@pytest.mark.ranks(2)
@pytest.mark.parametrize("look", ["wait", "done", "wait for all", "chained"])
def test_a_hook_that_looks_at_its_future_itself(world, look):
    layers = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.Linear(16, 16))
    model = torch.nn.parallel.DistributedDataParallel(layers, bucket_cap_mb=0.001)

    def hook(state, bucket):
        future = dist.all_reduce(bucket.buffer().fill_(1.0), async_op=True).get_future()
        if look == "done":
            while not future.done():
                time.sleep(0.001)
        elif look == "wait for all":
            torch.futures.wait_all([future])
        elif look == "chained":
            future = future.then(reduced_again)
            future.wait()
        else:
            future.wait()
        assert bucket.buffer().eq(float(world if look != "chained" else world**2)).all(), "here, and not later"
        return future.then(lambda done: done.value()[0] if look != "chained" else done.value())

    model.register_comm_hook(None, hook)
    for _ in range(3):
        model(torch.randn(4, 16)).sum().backward()
        assert layers[0].weight.grad.eq(float(world if look != "chained" else world**2)).all()


@pytest.mark.ranks(2)
def test_a_pair_whose_futures_are_out_in_a_backward_pass(rank):
    """The one is done when the other was called: nothing may wait for the first before."""
    got = torch.empty(1)

    class Exchanges(torch.autograd.Function):
        """Swaps a number with the other rank in its backward pass."""

        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            received = dist.irecv(got, 1 - rank).get_future()
            total = dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0]
            dist.send(torch.full((1,), float(rank)), 1 - rank) if rank == 0 else None
            received.wait() if rank == 1 else None
            dist.send(torch.full((1,), float(rank)), 1 - rank) if rank == 1 else None
            return gradient * total

    x = torch.ones(1, requires_grad=True)
    Exchanges.apply(x).backward()
    assert x.grad.item() == 2.0 and got.item() == 1.0 - rank


@pytest.mark.ranks(2)
def test_who_waits_for_a_work_that_another_gave_up_on(rank):
    got = torch.full((1,), -1.0)
    if rank == 0:
        work = dist.irecv(got, 1)
        assert work._claim()
        other = threading.Thread(target=work.wait, daemon=True)
        other.start()
        assert_comes(lambda: work._over is not None)
        work._claimed_by = threading.get_ident()
        work._recover()  # as one does whose time is up
        dist.barrier()
        other.join(10)
        assert not other.is_alive() and got.item() == 3.0
    else:
        dist.barrier()
        dist.send(torch.full((1,), 3.0), 0)


#: Calls of which rank 0's are refused before the engine sees them, by other errors than Ronde's.
HALF_REFUSED = {
    "memory": lambda bad: dist.reduce(torch.ones(1).expand(1 << 50) if bad else torch.ones(3), 1),
    "dimensions": lambda bad: dist.all_reduce(torch.ones([1] * (40 if bad else 1))),
    "type": lambda bad: dist.all_gather_into_tensor(
        torch.empty(4, dtype=torch.int32 if bad else torch.float32), torch.ones(2)
    ),
    "no values": lambda bad: dist.all_gather_into_tensor(torch.empty(4, device="meta" if bad else "cpu"), torch.ones(2)),
    "splits": lambda bad: dist.all_to_all_single(torch.ones(4), torch.ones(4), None, ["x", 2] if bad else [2, 2]),
}


@pytest.mark.parametrize("which", HALF_REFUSED)
@pytest.mark.ranks(2)
def test_a_call_that_is_refused_before_the_engine_sees_it_counts(rank, which):
    """Else the calls that follow would meet each other's neighbours."""
    for step in range(3):
        with pytest.raises(Exception, match=None if rank == 0 else "it was refused there"):
            HALF_REFUSED[which](rank == 0)
        values = torch.tensor([float(step + rank)])
        dist.all_reduce(values)
        assert values.item() == 2 * step + 1


@pytest.mark.ranks(2)
@pytest.mark.parametrize("op", ["SUM", "AVG", "MAX", "BAND", "PREMUL_SUM"])
def test_what_a_call_that_waits_returns_is_a_work_that_is_done(rank, world, group, op):
    options = dist.AllreduceOptions()
    options.asyncOp = False
    options.reduceOp = dist._make_nccl_premul_sum(2.0) if op == "PREMUL_SUM" else getattr(dist.ReduceOp, op)
    tensor = torch.full((3,), rank + 1, dtype=torch.int64 if op == "BAND" else torch.float32)
    work = group.allreduce([tensor], options)
    assert work.wait() and work.wait(timedelta(seconds=1)) and work.is_completed() and work.is_success()
    assert work.exception() is None and work.result()[0] is tensor and work.get_future().wait()[0] is tensor
    assert tensor.tolist() == [{"SUM": 3, "AVG": 1.5, "MAX": 2, "BAND": 0, "PREMUL_SUM": 6}[op]] * 3
