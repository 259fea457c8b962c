"""What is put behind futures of works of torch.distributed that a backward pass begins: in which order it runs, and what becomes
of it where an error ends the pass."""

from __future__ import annotations

import contextlib
import random
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


class Fails(torch.autograd.Function):
    """Does what it is given in its backward pass, and fails."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, do: Callable[[], None]) -> torch.Tensor:
        ctx.do = do
        return x * 2

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        ctx.do()
        raise RuntimeError("on purpose")


@pytest.mark.ranks(2)
def test_futures_of_a_pass_that_an_error_has_ended_fail(rank, world):
    """What is behind them would run in the next pass, or make calls when other ranks make others. The works go on."""
    tensor, kept, futures, ran = torch.full((3,), rank + 1.0), [], [], []

    def begin() -> None:
        kept.append(dist.all_reduce(tensor, async_op=True))
        futures.append(kept[0].get_future().then(lambda future: ran.append(future.value())))
        futures.append(dist.all_reduce(torch.ones(3), async_op=True).get_future().then(lambda future: ran.append(future.value())))

    with pytest.raises(RuntimeError, match="on purpose"):
        Fails.apply(torch.ones(1, requires_grad=True), begin).backward()
    assert kept[0].wait() and tensor.tolist() == [3.0] * 3
    weight = torch.ones(4, requires_grad=True)
    weight.register_hook(lambda gradient: dist.all_reduce(gradient.clone(), async_op=True).get_future().wait()[0])
    weight.sum().backward()  # which looks at futures
    for future in futures:
        with pytest.raises(RuntimeError, match="an error has ended the backward pass in which this future"):
            future.wait()
    assert not ran
    dist.barrier()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("ends", ["on one rank", "on all ranks"])
def test_steps_behind_a_pass_that_an_error_has_ended(rank, world, ends):
    """Each parameter is reduced by two calls, one behind the other's future. After a barrier all ranks are in step."""
    parameters = [torch.nn.Parameter(torch.zeros(8)) for _ in range(5)]
    fails = [False]

    def reduce(parameter: torch.Tensor) -> None:
        if fails[0] and parameter is parameters[2]:
            raise RuntimeError("on purpose")

        def again(future: Any) -> None:
            [sums] = future.value()
            dist.all_reduce(sums)
            sums.div_(world)

        dist.all_reduce(parameter.grad, async_op=True).get_future().then(again)

    for parameter in parameters:
        parameter.register_post_accumulate_grad_hook(reduce)
    for step in range(6):
        for parameter in parameters:
            parameter.grad = None
        fails[0] = step in (2, 4) and (ends == "on all ranks" or rank == 1)
        loss = sum(((number + 1.0 + step) * (rank + 1.0) * each).sum() for number, each in enumerate(parameters))
        if step in (2, 4):
            with pytest.raises(RuntimeError) if fails[0] else contextlib.suppress(RuntimeError):
                loss.backward()
            dist.barrier()
        else:
            loss.backward()
            assert [each.grad[0].item() for each in parameters] == [3.0 * (number + 1.0 + step) for number in range(5)]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("rest_s", [0.0, 0.01])
@pytest.mark.parametrize("ask", ["done", "is_completed"])
def test_a_pass_that_asks_until_something_has_ended_goes_on(rank, world, ask, rest_s):
    weight = torch.ones(4, requires_grad=True)
    ran: List[Any] = []

    def reduced(gradient: torch.Tensor) -> torch.Tensor:
        sums = gradient.clone()
        work = dist.all_reduce(sums, async_op=True)
        future = work.get_future()
        behind = future.then(ran.append)
        while not (behind.done() if ask == "done" else work.is_completed()):
            time.sleep(rest_s)
        assert len(ran) == 1
        return sums

    weight.register_hook(reduced)
    ((rank + 1.0) * weight).sum().backward()
    assert weight.grad is not None and weight.grad.tolist() == [3.0] * 4


@pytest.mark.ranks(2)
@pytest.mark.parametrize("how", ["static graph", "callback", "thread", "done", "is_completed"])
def test_calls_behind_futures_of_a_pass_are_in_the_order_of_the_buckets(rank, world, how):
    """Whoever looks at futures meanwhile, and in the first step of a static graph, too. Ranks pair calls by their order."""
    own = random.Random(rank)
    told: List[Any] = []
    works: List[Any] = []
    futures: List[Any] = []
    other = dist.new_group()

    def look() -> None:
        for _ in range(300):
            dist.all_reduce(torch.ones(3), group=other, async_op=True).get_future().wait()

    types = [torch.float32, torch.float64, torch.bfloat16, torch.float16]  # each has buckets of its own

    class Sums(torch.nn.Module):
        """Of its parameters, each so many times."""

        def __init__(self) -> None:
            super().__init__()
            self.all = torch.nn.ParameterList([torch.nn.Parameter(torch.ones(4).to(dtype)) for dtype in types])

        def forward(self) -> torch.Tensor:
            return torch.stack([(each.float() * (number + 1)).sum() for number, each in enumerate(self.all)]).sum()

    model = Sums()

    def hook(_, bucket):
        def again(future: Any) -> torch.Tensor:
            time.sleep(own.random() * 0.003)
            sums = future.value()[0].clone()
            dist.all_reduce(sums)
            return bucket.buffer().copy_(sums)

        works.append(dist.all_reduce(bucket.buffer().float(), async_op=True))
        futures.append(works[-1].get_future().then(again))
        if how == "callback":
            futures[-1].add_done_callback(told.append)
        time.sleep(own.random() * 0.003)
        if how == "done":
            told.append([each.done() for each in futures for _ in range(2)])
        if how == "is_completed":
            told.append([each.is_completed() for each in works for _ in range(2)])
        return futures[-1]

    wrapped = torch.nn.parallel.DistributedDataParallel(model, static_graph=how == "static graph", bucket_cap_mb=1e-5)
    wrapped.register_comm_hook(None, hook)
    with ThreadPoolExecutor(1) as thread:
        looks = thread.submit(look) if how == "thread" else None
        for _ in range(4):
            model.zero_grad()
            wrapped().backward()
            assert [each.grad[0].item() for each in model.all] == [(number + 1.0) * world * world for number in range(4)]
        if looks is not None:
            looks.result(timeout=60)
    assert how != "callback" or len(told) == 16


@pytest.mark.ranks(2)
@pytest.mark.parametrize("ask", ["done", "is_completed"])
def test_who_looks_three_times_and_goes_on_does_not_wait(rank, world, ask):
    """However long what is computed in between takes on each rank."""
    parameters = [torch.nn.Parameter(torch.zeros(100)) for _ in range(4)]
    model = torch.nn.Module()
    model.all = torch.nn.ParameterList(parameters)
    model.forward = lambda scale: sum(each.sum() * scale * 10**number for number, each in enumerate(parameters))

    def hook(_, bucket):
        work = dist.all_reduce(bucket.buffer(), async_op=True)
        first = work.get_future()
        result = first.then(lambda done: dist.all_reduce(done.value()[0], async_op=True).get_future().wait()[0])
        for _ in range(3):
            time.sleep(0.015 if rank == 0 else 0.002)
            first.done() if ask == "done" else work.is_completed()
        return result

    wrapped = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=400 / 2**20)
    wrapped.register_comm_hook(None, hook)
    for step in range(4):
        model.zero_grad()
        wrapped(rank + 1.0 + step).backward()
        total = sum(each + 1.0 + step for each in range(world)) * world
        assert [each.grad.unique().tolist() for each in parameters] == [[total * 10**number] for number in range(4)]
