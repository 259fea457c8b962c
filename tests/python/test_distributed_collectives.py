"""The calls of torch.distributed over the backend ronde, against those of Gloo."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any, Callable, List

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group
from ronde.exceptions import MismatchError, TimedOutError

Op = dist.ReduceOp


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


@pytest.fixture
def gloo(group):
    return dist.new_group(backend="gloo")


def values(rank: int, dtype: torch.dtype, *shape: int) -> torch.Tensor:
    made = torch.arange(1, 1 + torch.Size(shape).numel()).reshape(shape) % 7 + 2 * rank + 1
    return made.to(dtype)


def same_as_gloo(gloo: Any, call: Callable[[Any], List[torch.Tensor]]) -> None:
    for mine, expected in zip(call(dist.group.WORLD), call(gloo), strict=True):
        assert mine.dtype == expected.dtype
        torch.testing.assert_close(mine, expected, rtol=0, atol=0)


@pytest.mark.ranks(1, 2, 3)
def test_all_reduce(gloo, rank):
    arithmetic = [Op.SUM, Op.PRODUCT, Op.MIN, Op.MAX]
    cases = [(op, dtype) for op in arithmetic for dtype in (torch.float32, torch.float64, torch.int64, torch.uint8)]
    cases += [(op, dtype) for op in (Op.BAND, Op.BOR, Op.BXOR) for dtype in (torch.int32, torch.int64, torch.uint8)]

    for op, dtype in cases:
        for shape in ((), (1,), (5, 7)):

            def call(where: Any) -> List[torch.Tensor]:
                tensor = values(rank, dtype, *shape)
                if op == Op.PRODUCT:
                    tensor = tensor % 5 + 1  # exact in floats, in whatever order
                dist.all_reduce(tensor, op=op, group=where)
                return [tensor]

            same_as_gloo(gloo, call)


@pytest.mark.ranks(1, 2, 3)
def test_reductions_that_gloo_has_not(rank, world):
    mean = torch.full((3,), float(rank))
    dist.all_reduce(mean, op=Op.AVG)
    assert mean.tolist() == [(world - 1) / 2] * 3
    scaled = torch.full((3,), float(rank + 1))
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(2.5))
    assert scaled.tolist() == [2.5 * world * (world + 1) / 2] * 3
    dist.all_reduce(scaled, op=dist._make_nccl_premul_sum(torch.full((1,), 2.0)))
    assert scaled.tolist() == [2.0 * world * 2.5 * world * (world + 1) / 2] * 3
    half = torch.full((3,), 1.5, dtype=torch.bfloat16)
    dist.all_reduce(half)
    assert half.tolist() == [1.5 * world] * 3


@pytest.mark.ranks(1, 2, 3)
def test_what_is_not_contiguous_or_empty(gloo, rank, world):
    table = values(rank, torch.float32, 4, 6)
    dist.all_reduce(table.t()[1:3])
    expected = values(rank, torch.float32, 4, 6)
    expected[:, 1:3] = sum(values(each, torch.float32, 4, 6)[:, 1:3] for each in range(world))
    assert torch.equal(table, expected)
    nothing = torch.empty(0, 3)
    dist.all_reduce(nothing)
    outputs = [torch.empty(0, 3) for _ in range(world)]
    dist.all_gather(outputs, nothing)
    dist.all_gather_into_tensor(torch.empty(0, 3), nothing)


@pytest.mark.ranks(1, 2, 3)
def test_rooted_calls(gloo, rank, world):
    for root in range(world):

        def broadcast(where: Any) -> List[torch.Tensor]:
            tensor = values(rank, torch.int64, 3, 2)
            dist.broadcast(tensor, src=root, group=where)
            return [tensor]

        def reduce(where: Any) -> List[torch.Tensor]:
            tensor = values(rank, torch.float32, 9)
            dist.reduce(tensor, dst=root, group=where)
            return [tensor] if rank == root else []

        def gather(where: Any) -> List[torch.Tensor]:
            outputs = [torch.empty(2, 2) for _ in range(world)] if rank == root else None
            dist.gather(values(rank, torch.float32, 2, 2), outputs, dst=root, group=where)
            return outputs or []

        def scatter(where: Any) -> List[torch.Tensor]:
            inputs = [values(each, torch.int32, 2, 3) for each in range(world)] if rank == root else None
            output = torch.empty(2, 3, dtype=torch.int32)
            dist.scatter(output, inputs, src=root, group=where)
            return [output]

        for call in (broadcast, reduce, gather, scatter):
            same_as_gloo(gloo, call)


@pytest.mark.ranks(1, 2, 3)
def test_gathers_and_scatters_of_all(gloo, rank, world):
    def all_gather(where: Any) -> List[torch.Tensor]:
        outputs = [torch.empty(3, 2, dtype=torch.int64) for _ in range(world)]
        dist.all_gather(outputs, values(rank, torch.int64, 3, 2), group=where)
        return outputs

    def into_tensor(where: Any) -> List[torch.Tensor]:
        output = torch.empty(3 * world, 2)
        dist.all_gather_into_tensor(output, values(rank, torch.float32, 3, 2), group=where)
        return [output]

    def reduce_scatter(where: Any) -> List[torch.Tensor]:
        output = torch.empty(4)
        dist.reduce_scatter(output, [values(rank + each, torch.float32, 4) for each in range(world)], group=where)
        return [output]

    def reduce_scatter_tensor(where: Any) -> List[torch.Tensor]:
        output = torch.empty(2, 3)
        dist.reduce_scatter_tensor(output, values(rank, torch.float32, 2 * world, 3), group=where)
        return [output]

    def all_to_all_single(where: Any) -> List[torch.Tensor]:
        sent = [(rank + each) % 3 for each in range(world)]
        output = torch.empty(sum(sent), 2)
        dist.all_to_all_single(output, values(rank, torch.float32, sum(sent), 2), sent, sent, group=where)
        return [output]

    def all_to_all_even(where: Any) -> List[torch.Tensor]:
        output = torch.empty(2 * world)
        dist.all_to_all_single(output, values(rank, torch.float32, 2 * world), group=where)
        return [output]

    for call in (all_gather, into_tensor, reduce_scatter, reduce_scatter_tensor, all_to_all_single, all_to_all_even):
        same_as_gloo(gloo, call)
    outputs = [torch.empty(each + 1) for each in range(world)]
    dist.all_to_all(outputs, [torch.full((rank + 1,), 10.0 * rank + each) for each in range(world)])
    assert [part.tolist() for part in outputs] == [[10.0 * each + rank] * (each + 1) for each in range(world)]


@pytest.mark.ranks(1, 3)
def test_calls_of_several_tensors(group, rank, world):
    first, second = torch.ones(3), torch.full((2, 2), float(rank))
    dist.all_reduce_coalesced([first, second])
    assert first.tolist() == [world] * 3 and second.flatten().tolist() == [world * (world - 1) / 2] * 4
    inputs = [torch.full((2,), float(rank)), torch.full((3,), rank)]
    outputs = [torch.empty(2 * world), torch.empty(3 * world, dtype=torch.int64)]
    group.allgather_into_tensor_coalesced(outputs, inputs).wait()
    assert outputs[1].tolist() == [each for each in range(world) for _ in range(3)]
    lists = [[torch.empty(2), torch.empty(3, dtype=torch.int64)] for _ in range(world)]
    group.allgather_coalesced(lists, inputs).wait()
    assert [[part.tolist() for part in each] for each in lists] == [[[r] * 2, [r] * 3] for r in range(world)]
    parts = [torch.empty(1), torch.empty(2)]
    whole = [torch.ones(world), torch.ones(2 * world)]
    group.reduce_scatter_tensor_coalesced(parts, whole, opts=dist.ReduceScatterOptions()).wait()
    assert parts[1].tolist() == [world] * 2
    with dist._coalescing_manager(async_ops=True) as manager:
        dist.all_reduce(first)
        dist.all_reduce(second)
    manager.wait()
    assert first.tolist() == [world * world] * 3


@pytest.mark.ranks(1, 2, 3)
def test_coalesced_gather_puts_the_tensors_of_each_rank_in_a_list(gloo, rank, world):
    def equal(where: Any) -> List[torch.Tensor]:
        """As many tensors as ranks, of one shape: where both layouts would do."""
        outputs = [[torch.empty(2) for _ in range(world)] for _ in range(world)]
        dist.all_gather_coalesced(outputs, [torch.full((2,), 10.0 * rank + each) for each in range(world)], where)
        return [tensor for outputs_of_rank in outputs for tensor in outputs_of_rank]

    def unequal(where: Any) -> List[torch.Tensor]:
        inputs = [torch.full((3, 2), 10.0 * rank), torch.full((), 10.0 * rank + 1), torch.full((4,), 10.0 * rank + 2)]
        outputs = [[torch.empty_like(each) for each in inputs] for _ in range(world)]
        work = dist.all_gather_coalesced(outputs, inputs, where, async_op=True)
        work.wait()
        return [tensor for outputs_of_rank in outputs for tensor in outputs_of_rank]

    same_as_gloo(gloo, equal)
    same_as_gloo(gloo, unequal)
    ones = [torch.ones(2)] * 2
    with pytest.raises(ValueError, match=f"the list of outputs has {world + 1} lists; expected one for each of the"):
        dist.all_gather_coalesced([[torch.empty(2)] * 2] * (world + 1), ones)
    with pytest.raises(ValueError, match="for rank 0 has 3 tensors; expected one for each of the 2 inputs"):
        dist.all_gather_coalesced([[torch.empty(2)] * 3] * world, ones)


@pytest.mark.ranks(2, 3)
def test_point_to_point(rank, world):
    right, left = (rank + 1) % world, (rank - 1) % world
    got = torch.empty(4, 2)
    works = dist.batch_isend_irecv(
        [dist.P2POp(dist.isend, torch.full((4, 2), float(rank)), right), dist.P2POp(dist.irecv, got, left)]
    )
    for work in works:
        work.wait()
    assert (got == left).all()
    if rank == 0:
        seen = set()
        for _ in range(world - 1):
            tensor = torch.empty(1, dtype=torch.int64)
            source = dist.recv(tensor, tag=7)
            assert tensor.item() == source
            seen.add(source)
        assert seen == set(range(1, world))
    else:
        dist.send(torch.tensor([rank]), 0, tag=7)
    message = [{"from": rank}]
    if rank == 0:
        dist.send_object_list(message, 1)
    elif rank == 1:
        dist.recv_object_list(message, 0)
        assert message == [{"from": 0}]


@pytest.mark.ranks(2, 3)
def test_objects_and_barrier(rank, world):
    objects = [None] * world
    dist.all_gather_object(objects, {"rank": rank})
    assert objects == [{"rank": each} for each in range(world)]
    gathered = [None] * world if rank == 1 else None
    dist.gather_object("x" * rank, gathered, dst=1)
    assert gathered == (["x" * each for each in range(world)] if rank == 1 else None)
    mine: List[Any] = [None]
    dist.scatter_object_list(mine, list(range(world)) if rank == 0 else [None] * world, src=0)
    assert mine == [rank]
    assert dist.barrier(async_op=True).wait()


@pytest.mark.ranks(2)
def test_works_and_futures(rank, world):
    tensor = torch.ones(3)
    work = dist.all_reduce(tensor, async_op=True)
    future = work.get_future()
    assert work.get_future() is future
    doubled = future.then(lambda done: done.value()[0] * 2)
    assert doubled.wait().tolist() == [2.0 * world] * 3
    assert work.wait() and work.is_completed() and work.is_success() and work.exception() is None
    assert dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item() == world
    # A future that cannot end yet does not hold up those asked for after it.
    got = torch.empty(1)
    if rank == 0:
        late = dist.irecv(got, 1)
        late_future = late.get_future()
        assert dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item() == world
        assert not late_future.done() and not late.is_completed()
        with pytest.raises(TimedOutError, match="wait"):
            late.wait(timedelta(seconds=0.01))
        dist.barrier()
        assert late_future.wait()[0].item() == 5.0
    else:
        assert dist.all_reduce(torch.ones(1), async_op=True).get_future().wait()[0].item() == world
        dist.barrier()
        dist.send(torch.full((1,), 5.0), 0)
    polled = dist.all_reduce(torch.ones(1), async_op=True)
    until = time.monotonic() + 30
    while not polled.is_completed():
        assert time.monotonic() < until
    assert polled.result()[0].item() == world


@pytest.mark.ranks(2)
def test_a_wait_that_timed_out_can_be_repeated(rank):
    got = torch.empty(1)
    if rank == 0:
        work = dist.irecv(got, 1)
        with pytest.raises(TimedOutError, match="Timed out: .* was not done within 0.01 s"):
            work.wait(timedelta(seconds=0.01))
        dist.barrier()
        assert work.wait() and got.item() == 3.0
    else:
        dist.barrier()
        dist.send(torch.full((1,), 3.0), 0)


@pytest.mark.ranks(2, 3)
def test_errors(group, rank, world):
    with pytest.raises(MismatchError, match=r"noname\.[0-9]+\.[0-9]+"):
        dist.all_reduce(torch.ones(2 + (rank == 1)))
    future = dist.all_reduce(torch.ones(2 + (rank == 1)), async_op=True).get_future()
    with pytest.raises(RuntimeError, match=r"noname\.[0-9]+\.[0-9]+"):
        future.wait()
    with pytest.raises(ValueError, match="3 elements; expected 2"):
        dist.all_gather([torch.empty(3)] * world, torch.ones(2))
    with pytest.raises(ValueError, match=f"list of outputs has {world + 1} tensors"):
        group.allgather([[torch.empty(2)] * (world + 1)], [torch.ones(2)])
    with pytest.raises(ValueError, match="do not divide"):
        dist.all_to_all_single(torch.empty(2 * world + 1), torch.empty(2 * world + 1))
    with pytest.raises(ValueError, match="the output of shape .* expected"):
        dist.reduce_scatter(torch.empty(world + 1), [torch.empty(1 + each) for each in range(world)])
    with pytest.raises(ValueError, match="sparse_csr"):
        dist.all_reduce(torch.eye(3).to_sparse_csr())
    with pytest.raises(ValueError, match="sparse_coo"):
        dist.broadcast(torch.eye(3).to_sparse(), src=0)
    # What PyTorch says by itself.
    with pytest.raises(ValueError, match="Invalid destination rank"):
        dist.send(torch.ones(1), rank)
    tensor = torch.ones(2)
    dist.all_reduce(tensor)
    assert tensor.tolist() == [world] * 2, "the group stays usable"


#: Calls with an output, or one of several tensors, of another type than the others. Of each the ranks' right form.
MIXED = {
    "all_gather_into_tensor": lambda group, world, other: group.all_gather_single(
        torch.zeros(2 * world, dtype=other), torch.full((2,), 0.7)
    ),
    "all_gather": lambda group, world, other: group.allgather(
        [[torch.zeros(2, dtype=other if rank == 0 else torch.float32) for rank in range(world)]], [torch.full((2,), 0.7)]
    ),
    "all_gather_coalesced": lambda group, world, other: group.all_gather_single_coalesced(
        [torch.zeros(2 * world), torch.zeros(2 * world, dtype=other)], [torch.full((2,), 0.7)] * 2
    ),
    "reduce_scatter_tensor": lambda group, world, other: group.reduce_scatter_single(
        torch.zeros(2, dtype=other), torch.full((2 * world,), 0.7)
    ),
    "reduce_scatter": lambda group, world, other: group.reduce_scatter(
        [torch.zeros(2)], [[torch.full((2,), 0.7).to(other if rank == 0 else torch.float32) for rank in range(world)]]
    ),
    "all_to_all_single": lambda group, world, other: group.all_to_all_single(
        torch.zeros(world, dtype=other), torch.full((world,), 0.7)
    ),
    "all_to_all": lambda group, world, other: group.alltoall(
        [torch.zeros(2, dtype=other) for _ in range(world)], [torch.full((2,), 0.7) for _ in range(world)]
    ),
    "scatter": lambda group, world, other: group.scatter(
        [torch.zeros(2, dtype=other if group.rank() == 0 else torch.float32)],
        [[torch.full((2,), 0.7) for _ in range(world)]] if group.rank() == 0 else [[]],
    ),
    "gather": lambda group, world, other: group.gather(
        [[torch.zeros(2, dtype=other) for _ in range(world)]] if group.rank() == 0 else [[]], [torch.full((2,), 0.7)]
    ),
}


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("which", MIXED)
def test_tensors_of_another_type_are_refused(group, rank, world, which):
    """As over Gloo: nothing is converted without a word. Who was not at fault is told so."""
    MIXED[which](group, world, torch.float32).wait()
    for other in (torch.int32, torch.float64):
        at_fault = rank == 0 or which not in ("scatter", "gather")
        with pytest.raises(ValueError if at_fault else RuntimeError, match="type" if at_fault else "refused there"):
            MIXED[which](group, world, other).wait()
    total = torch.tensor([rank + 1.0])
    group.allreduce([total]).wait()
    assert total.item() == world * (world + 1) / 2


@pytest.mark.ranks(2, 3)
def test_all_to_all_between_shapes_of_as_many_elements(group, rank, world):
    """As over Gloo, rows need not be of one size on both sides."""
    output = torch.empty(6 * world)
    dist.all_to_all_single(output, torch.full((world, 6), float(rank)))
    assert output.view(world, 6)[:, 0].tolist() == [float(other) for other in range(world)]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("elements", [3, 300_000])
def test_one_tensor_twice_in_a_list(gloo, rank, world, elements):
    """As over Gloo."""
    for group in (None, gloo):
        tensor = torch.full((elements,), rank + 1.0)
        dist.all_reduce_coalesced([tensor, torch.ones(2), tensor], group=group)
        assert bool((tensor == world * (world + 1) // 2).all())


@pytest.mark.ranks(2)
def test_a_tensor_whose_values_lie_in_another_says_so(hvd, rank, world):
    import torch.distributed._functional_collectives as functional

    pending = functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD)
    with pytest.raises(ValueError, match="AsyncCollectiveTensor, whose values lie in another tensor"):
        dist.all_reduce(pending)
    assert pending.wait().tolist() == [world] * 3
    with pytest.raises(ValueError, match="AsyncCollectiveTensor"):
        hvd.allreduce(functional.all_reduce(torch.ones(3), "sum", dist.group.WORLD))
