"""Calls that are made behind futures of works of torch.distributed: ranks that come to them at different places among their
calls get an error, and never another call's sums; where the place is the same the sums are right, however the futures end."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist

from ronde import _process
from distributed_group import default_group


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def begun(value: float, group: Any = None) -> Any:
    """The future of a sum over the ranks' values."""
    return dist.all_reduce(torch.full((3,), value), group=group, async_op=True).get_future()


def sums_of(future: Any) -> torch.Tensor:
    """Of what is in the future, over the ranks."""
    sums = future.value()[0].clone()
    dist.all_reduce(sums)
    return sums


def in_a_pass(*hooks: Callable[[], Any]) -> None:
    """A backward pass that does these one after the other."""
    x = torch.ones(1, requires_grad=True)
    y = x
    for do in reversed(hooks):
        y = y * 1
        y.register_hook(lambda gradient, do=do: do() and None)
    y.sum().backward()


def wait_for_all(futures: List[Any]) -> None:
    """Raises the first one's error, when all have ended."""
    errors = []
    for future in futures:
        try:
            future.wait()
        except RuntimeError as error:
            errors.append(error)
    if errors:
        raise errors[0]


def has_ended(future: Any) -> bool:
    """True, when it has, well or not."""
    while not future.done():
        pass
    return True


def require_error(rank: int, do: Callable[[], Any]) -> None:
    """Ends on every rank with the sentence; after a barrier the ranks are in step."""
    words = "(?s)the ranks disagree about the order of 'noname.*behind the end of the call . before it"
    with pytest.raises(RuntimeError, match=words):
        do()
    dist.barrier()
    tensor = torch.full((3,), rank + 1.0)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [3.0] * 3


@pytest.mark.ranks(2)
@pytest.mark.parametrize("asks", [lambda future: future.done(), lambda future: None])
@pytest.mark.parametrize("step", range(2))
def test_a_pass_in_which_one_rank_asks_very_often_ends_with_an_error(rank, world, asks, step):
    """On that rank what is behind the first future runs before the second call, on the other at the end of the pass."""
    futures: List[Any] = []

    def first() -> None:
        futures.append(begun(rank + 1.0).then(sums_of))
        while rank == 0 and not futures[0].done():  # it goes on when it has ended
            pass
        asks(futures[0])

    def second() -> None:
        futures.append(begun(rank + 1.0).then(sums_of))

    def run() -> None:
        in_a_pass(first, second)
        wait_for_all(futures)

    require_error(rank, run)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", ["chained", "collected", "own", "own chained"])
def test_outside_of_a_pass_what_is_behind_a_future_may_run_anywhere(rank, world, kind):
    """It is put there before the work has ended, or after: then it runs at once."""
    for step in range(6):
        work = dist.all_reduce(torch.full((3,), rank + 1.0), async_op=True)
        if (step + rank) % 2:
            work.wait()
        future = work.get_future()
        if kind == "chained":
            future = future.then(lambda done: done.value())
        if kind == "collected":
            future = torch.futures.collect_all([future]).then(lambda done: done.value()[0].value())
        if kind.startswith("own"):
            made: Any = torch.futures.Future()
            behind = made.then(lambda done: done.value()) if (step // 2 + rank) % 2 and kind == "own chained" else None
            future.then(lambda done, made=made: made.set_result(done.value()))
            future = behind or made
            if kind == "own chained" and not behind:
                future = made.then(lambda done: done.value())
        assert future.then(sums_of).wait().tolist() == [6.0] * 3
        dist.all_reduce(torch.ones(3))


@pytest.mark.ranks(2)
def test_outside_of_a_pass_ranks_that_differ_in_the_order_get_an_error(rank, world):
    def run() -> None:
        future = begun(rank + 1.0)
        if rank == 0:
            behind = future.then(sums_of)
            wait_for_all([future, behind, begun(rank + 10.0)] if has_ended(behind) else [])
        else:
            own = begun(rank + 10.0)
            wait_for_all([own, future.then(sums_of)])

    require_error(rank, run)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", ["one", "collected"])
def test_a_call_between_an_end_and_what_is_put_behind_it_is_the_programs_own(rank, world, kind):
    """As long as somebody can put something behind it, which another rank may have done before."""

    def sums_behind(future: Any) -> Any:
        return future.then(lambda _: sums_of(end))

    end = begun(rank + 1.0)

    def run() -> None:
        future = torch.futures.collect_all([end]) if kind == "collected" else end
        future.wait()
        futures = [sums_behind(future)] if rank == 0 else []
        futures.append(begun(rank + 10.0))
        wait_for_all(futures + ([sums_behind(future)] if rank == 1 else []))

    with pytest.raises(RuntimeError, match="the ranks disagree about the order of"):
        run()
    dist.barrier()


@pytest.mark.ranks(2)
def test_a_rank_without_a_pass_may_make_the_same_calls_by_itself(rank, world):
    for step in range(8):
        if rank == 0:
            futures: List[Any] = []
            in_a_pass(*[lambda: futures.append(begun(1.0).then(sums_of))] * 2)
            found = [future.wait()[0].item() for future in futures]
        else:
            sums = [torch.full((3,), 2.0) for _ in range(2)]
            for each in sums * 2:
                dist.all_reduce(each)
            found = [each[0].item() for each in sums]
        assert found == [6.0, 6.0]


@pytest.mark.ranks(2)
def test_calls_of_another_group_behind_a_future(rank, world):
    other = dist.new_group()

    def again(done: Any) -> Any:
        sums = done.value()[0].clone()
        dist.all_reduce(sums, group=other)
        return sums

    for step in range(6):
        futures: List[Any] = []
        in_a_pass(*[lambda: futures.append(begun(rank + 1.0).then(again))] * 3)
        assert [future.wait()[0].item() for future in futures] == [6.0] * 3

    def first() -> None:
        futures.append(begun(rank + 1.0).then(again))
        while rank == 0 and not futures[0].done():
            pass

    def run() -> None:
        futures.clear()
        in_a_pass(first, lambda: futures.append(begun(rank + 1.0).then(again)))
        wait_for_all(futures)

    run()  # whose calls are in one order in either group
    assert [future.wait()[0].item() for future in futures] == [6.0] * 2


@pytest.mark.ranks(2)
@pytest.mark.parametrize("other", [False, True], ids=["same group", "other group"])
def test_calls_behind_futures_are_replayed(rank, world, other):
    group = dist.new_group() if other else None

    def again(future: Any) -> torch.Tensor:
        sums = future.value()[0].clone()
        dist.all_reduce(sums, group=group)
        return sums

    def step() -> None:
        futures: List[Any] = []
        in_a_pass(*[lambda: futures.append(begun(rank + 1.0).then(again))] * 3)
        assert [future.wait()[0].item() for future in futures] == [6.0] * 3

    for _ in range(30):
        step()
    dist.barrier()
    before = _process.counters()
    for _ in range(30):
        step()
    dist.barrier()
    after = _process.counters()
    # Half of the 180 calls are behind futures; of three that look alike not all are told apart.
    assert after["replayed"] - before["replayed"] > 90 + (15 if other else 45)


def errors_of(do: Callable[[], Any]) -> List[str]:
    try:
        do()
    except RuntimeError as error:
        return [str(error)]
    return []


@pytest.mark.ranks(2)
@pytest.mark.parametrize("kind", ["same group", "group", "pair", "hvd", "hvd sparse"])
def test_calls_beside_others_futures(hvd, rank, world, kind):
    """Behind the end of a call of another group, of a send or recv, or made by functions that know nothing of futures. After
    such an error nobody knows before the next barrier which of the calls that follow is which."""
    group = dist.new_group() if kind == "group" else None

    def begin(tensor: torch.Tensor) -> Callable[[], Any]:
        if kind == "hvd":
            handle = hvd.allreduce_async_(tensor, op=hvd.Sum)
            return lambda: hvd.synchronize(handle)
        if kind == "hvd sparse":
            finish = hvd.sparse_allreduce_async(tensor.to_sparse(), op=hvd.Sum)
            return lambda: tensor.copy_(finish().to_dense())
        return dist.all_reduce(tensor, group=group, async_op=True).wait

    for turn in range(3):
        own, behind = torch.full((4,), 1000.0 * (rank + 1)), torch.full((4,), 10.0 * (rank + 1))
        unrelated, waits, may_go = torch.ones(4), [], threading.Event()
        if rank == 0:  # the other rank is to have put its call behind before the work can end
            dist.recv(torch.ones(1), 1, tag=9)
        if kind == "pair":
            work = dist.isend(unrelated, 1) if rank == 0 else dist.irecv(unrelated, 0)
        else:
            work = dist.all_reduce(unrelated, async_op=True)

        def run(_: Any) -> None:
            assert rank == 0 or may_go.wait(60)
            waits.append(begin(behind))

        future = work.get_future().then(run)
        if rank == 1:
            dist.send(torch.ones(1), 0, tag=9)
        else:
            future.wait()
        waits.append(begin(own))
        may_go.set()
        future.wait()
        found = [error for wait in waits for error in errors_of(wait)]
        words = "calls it at another place" if kind == "hvd sparse" else "disagree about the order of"
        assert len(found) == 2 and all(words in each for each in found), (own, behind, found)
        dist.barrier()
        if group is not None:
            dist.barrier(group)
        begin(own.fill_(1.0))()
        assert own.tolist() == [2.0] * 4
        dist.barrier()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("before", [0, 20], ids=["negotiated", "replayed"])
@pytest.mark.parametrize("kind", ["group", "pair", "barrier", "all", "pair by arrival"])
def test_which_end_a_call_is_behind_is_known(rank, world, kind, before):
    """Two calls behind two ends, which ranks come to in different orders."""
    group = dist.new_group() if kind == "group" else None
    for turn in range(before + 3):
        futures = []
        shared = begun(1.0) if kind == "all" else None
        order = (0, 1) if rank == 0 or turn < before else (1, 0)
        works = [dist.irecv(torch.ones(3), 1 - rank, tag=each) for each in range(2)] if kind == "pair by arrival" else []
        for number in range(2):
            if kind == "pair":
                works = [dist.isend(torch.ones(3), 1 - rank, tag=number), dist.irecv(torch.ones(3), 1 - rank, tag=number)]
                futures.append(torch.futures.collect_all([each.get_future() for each in works]))
            elif kind == "all":
                futures.append(torch.futures.collect_all([shared, begun(1.0)]))
            elif kind != "pair by arrival":
                futures.append(begun(1.0))
        if works and kind == "pair by arrival":
            sent = [dist.isend(torch.ones(3), 1 - rank, tag=each) for each in range(2)]
            for each in works + sent:
                each.wait()
            asked = {each: works[each].get_future() for each in order}
            futures = [asked[each] for each in range(2)]
        if kind == "barrier":
            dist.barrier()
        for future in futures:
            future.wait()
        sums = [torch.full((4,), 10.0**number) for number in range(2)]
        found = []
        for number in order:
            behind = futures[number].then(lambda _, each=sums[number]: dist.all_reduce(each, group=group))
            found += errors_of(behind.wait)
        if turn < before:
            assert not found and [each[0].item() for each in sums] == [2.0, 20.0]
            continue
        assert len(found) == 2 and all("disagree about the order of" in each for each in found), (sums, found)
        dist.barrier()
        if group is not None:
            dist.barrier(group)


@pytest.mark.ranks(2)
def test_calls_behind_sends_and_recvs_in_one_order(rank, world):
    for step in range(5):
        for number in range(3):
            received = torch.zeros(3)
            works = [dist.isend(torch.ones(3), 1 - rank, tag=number), dist.irecv(received, 1 - rank, tag=number)]
            futures = [each.get_future() for each in works]
            behind = futures[1].then(lambda _: dist.all_reduce(received))
            if (rank + number) % 2:
                works[1].wait()
            behind.wait()
            futures[0].wait()
            assert received.tolist() == [2.0] * 3
            dist.all_reduce(torch.ones(3))


@pytest.mark.ranks(2)
def test_two_calls_behind_one_future_are_in_the_order_in_which_they_were_put_there(rank, world):
    """The second when the future is done, and what is behind it already runs in another thread."""
    for turn in range(4):
        sums = [torch.full((4,), 10.0**number) for number in range(2)]
        runs = threading.Event()

        def first(_: Any) -> None:
            runs.set()
            if rank == 0:
                time.sleep(0.05)  # computes something
            dist.all_reduce(sums[0])

        if rank == 0:  # the other rank is to have put it there before the work can end
            dist.recv(torch.ones(1), 1, tag=9)
        future = dist.all_reduce(torch.ones(3), async_op=True).get_future()
        behind = [future.then(first)]
        if rank == 1:
            dist.send(torch.ones(1), 0, tag=9)
        assert runs.wait(60)
        behind.append(future.then(lambda _: dist.all_reduce(sums[1])))
        wait_for_all(behind)
        assert [each[0].item() for each in sums] == [2.0, 20.0]
        dist.barrier()


def put_behind(kind: str, end: Any, call: Callable[[int], Callable[[Any], Any]]) -> List[Any]:
    """Two calls, of which the second is made first if the end is still to come. What is to be waited for."""
    if kind == "chain":
        chained = end.then(lambda _: None)
        return [end.then(call(0)), chained.then(call(1))]
    if kind == "chains":
        chained, other = end.then(lambda _: None), end.then(lambda _: None)
        return [other.then(call(0)), chained.then(call(1))]
    if kind == "collected":
        both = torch.futures.collect_all([end.then(lambda _: None), end.then(lambda _: None)])
        return [end.then(call(0)), both.then(call(1))]
    filled: Any = torch.futures.Future()
    first = end.then(lambda done: filled.set_result(None) or call(0)(done))
    if kind == "filled":
        return [first, filled.then(call(1))]
    return [first, filled.then(lambda _: None).then(call(1))]


@pytest.mark.ranks(2)
@pytest.mark.parametrize("before", [0, 20], ids=["negotiated", "replayed"])
@pytest.mark.parametrize("kind", ["chain", "chains", "collected", "filled", "filled chain"])
def test_which_of_the_futures_of_one_end_a_call_is_behind_is_known(rank, world, kind, before):
    """On rank 0 each call is made as it is put there, on rank 1 when all are."""
    for turn in range(before + 3):
        sums = [torch.full((4,), 10.0**number) for number in range(2)]
        errors: List[str] = []

        def call(number: int) -> Callable[[Any], Any]:
            return lambda _: errors.extend(errors_of(lambda: dist.all_reduce(sums[number])))

        if rank == 0 and turn >= before:  # the other rank is to have put all there before the work can end
            dist.recv(torch.ones(1), 1, tag=9)
        end = begun(1.0)
        if rank == 0 or turn < before:
            end.wait()
        behind = put_behind(kind, end, call)
        if rank == 1 and turn >= before:
            dist.send(torch.ones(1), 0, tag=9)
        wait_for_all(behind)
        if turn < before:
            assert not errors and [each[0].item() for each in sums] == [2.0, 20.0]
            continue
        assert len(errors) == 2 and all("disagree about the order of" in each for each in errors), (sums, errors)
        dist.barrier()
