"""Ranks that run out of data join; the others go on."""

import time

import pytest
import torch

from ronde._lib import library


@pytest.mark.ranks(1, 2, 3, 5)
def test_uneven_numbers_of_steps(hvd, rank, world):
    for round in range(2):
        model = torch.nn.Linear(3, 1, bias=False)
        torch.nn.init.ones_(model.weight)
        optimizer = hvd.DistributedOptimizer(
            torch.optim.SGD(model.parameters(), lr=1.0), named_parameters=model.named_parameters(), op=hvd.Sum
        )
        for step in range(8 + 3 * rank):
            optimizer.zero_grad()
            model(torch.ones(1, 3)).sum().backward()
            optimizer.synchronize()
            going_on = sum(step < 8 + 3 * other for other in range(world))
            assert model.weight.grad.tolist() == [[float(going_on)] * 3]
            with optimizer.skip_synchronize():
                optimizer.step()
        assert hvd.join() == world - 1
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == world


@pytest.mark.ranks(2, 3)
def test_the_result_is_the_last_rank(hvd, rank):
    if rank == 0:  # until the others have no more data
        while hvd.allreduce(torch.ones(1), name="who", op=hvd.Sum).item() > 1:
            pass
    elif rank == 1:
        hvd.allreduce(torch.ones(1), name="who", op=hvd.Sum)
    assert hvd.join() == 0


@pytest.mark.ranks(3)
def test_unnamed_operations_meet_again_after_join(hvd, rank, world):
    for _ in range(rank + 2):
        hvd.synchronize(hvd.allreduce_async(torch.ones(4)))
    pending = hvd.allreduce_async(torch.ones(4)) if rank == 2 else None
    if pending is not None:
        hvd.synchronize(pending)
    hvd.join()
    assert hvd.allreduce(torch.full((2,), float(rank)), op=hvd.Max).tolist() == [world - 1] * 2


@pytest.mark.ranks(2, 3)
def test_a_call_that_only_one_rank_made_before_the_join_is_nobodys_after_it(hvd, rank, world):
    """It has failed there, and the others owe it no call any more."""
    hvd.allreduce(torch.ones(1), name="joined.loss")
    if rank == 0:
        alone = hvd.allreduce_async(torch.full((1,), 1000.0), name="joined.loss", op=hvd.Sum)
        assert alone.cancel()
    hvd.barrier()
    hvd.join()
    for value in (10.0, 20.0, 30.0):
        assert hvd.allreduce(torch.full((1,), value), name="joined.loss", op=hvd.Sum).item() == value * world


@pytest.mark.ranks(2, 3)
def test_the_name_of_a_call_that_was_cancelled_is_free(hvd, rank, world):
    """Also where the cancelled call has ended before anybody looked."""
    if rank == 0:
        for value in range(3):
            alone = hvd.allreduce_async(torch.full((1,), float(value)), name="cancelled.alone")
            library().ronde_cancel(alone._operation.ticket)
            until = time.monotonic() + 20
            while not hvd.poll(alone) and time.monotonic() < until:
                pass
            assert alone.cancel()
    hvd.barrier()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["", "groups"])
def test_a_rank_loads_a_state_and_has_no_more_data(hvd, rank, world, options):
    """Each at its own end of the epoch, say; the others' steps are none of its."""
    weight = torch.nn.Parameter(torch.zeros(3))
    sgd = torch.optim.SGD([weight], lr=1.0)
    optimizer = hvd.DistributedOptimizer(sgd, [("loads.and.joins", weight)], op=hvd.Sum, **options)
    total = 0
    for _ in range(2):
        for step in range(2 + 2 * rank):
            optimizer.zero_grad()
            weight.sum().backward()
            optimizer.step()
            total += sum(step < 2 + 2 * other for other in range(world))
            assert weight.tolist() == [-float(total)] * 3
        optimizer.load_state_dict(optimizer.state_dict())
        hvd.join()
        hvd.broadcast_parameters({"weight": weight}, root_rank=world - 1)
        total = -int(weight[0])


@pytest.mark.ranks(3, 5)
@pytest.mark.parametrize("then", ["a step", "a state is loaded", "a new optimizer"])
def test_a_join_of_some_ranks_leaves_the_optimizers_of_all_alone(hvd, rank, world, then):
    some = hvd.add_process_set([0, 1])

    def made(name, **more):
        weight = torch.nn.Parameter(torch.zeros(3))
        return weight, hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=1.0), [(name, weight)], op=hvd.Sum, **more)

    def step(weight, optimizer):
        optimizer.zero_grad()
        weight.sum().backward()
        optimizer.step()

    weight, optimizer = made("everyones")
    step(weight, optimizer)
    if rank < 2:
        of_some = made("of.some", process_set=some)
        for _ in range(3):
            of_some[1].load_state_dict(of_some[1].state_dict())
        step(*of_some)
        if rank == 0:
            step(*of_some)
        hvd.join(process_set=some)
        step(*of_some)
    hvd.barrier()
    if then == "a state is loaded":
        optimizer.load_state_dict(optimizer.state_dict())
    if then == "a new optimizer":
        new = made("new")
        step(*new)
        assert new[0].tolist() == [-float(world)] * 3
    step(weight, optimizer)
    assert weight.tolist() == [-2.0 * world] * 3
    hvd.remove_process_set(some)


def what_each_rank_has_a_part_in(hvd, world):
    """Calls that fail while a rank has joined."""
    rows = torch.ones(world, 2)
    weights = torch.nn.Linear(2, 1).state_dict()
    entries = torch.eye(3).to_sparse()
    return {
        "allgather": lambda: hvd.allgather(rows),
        "allgather, named": lambda: hvd.allgather(rows, name="rows"),
        "grouped allgather": lambda: hvd.grouped_allgather([rows, rows[:1]]),
        "allgather of objects": lambda: hvd.allgather_object({"a": 1}),
        "broadcast": lambda: hvd.broadcast(rows, root_rank=0),
        "broadcast in place": lambda: hvd.broadcast_(rows, root_rank=0),
        "broadcast of objects": lambda: hvd.broadcast_object("x", root_rank=0),
        "broadcast of parameters": lambda: hvd.broadcast_parameters(weights, root_rank=0),
        "alltoall": lambda: hvd.alltoall(rows),
        "reducescatter": lambda: hvd.reducescatter(rows),
        "grouped reducescatter": lambda: hvd.grouped_reducescatter([rows, rows]),
        "reduce": lambda: hvd.reduce(rows, root_rank=0),
        "gather": lambda: hvd.gather(rows, root_rank=0),
        "scatter": lambda: hvd.scatter(rows, root_rank=0),
        "sparse allreduce": lambda: hvd.sparse_allreduce_async(entries, "entries", hvd.Sum)(),
    }


@pytest.mark.ranks(3, 5)
def test_what_each_rank_has_a_part_in_fails_while_one_has_joined(hvd, rank, world):
    calls = what_each_rank_has_a_part_in(hvd, world)
    for _ in range(2):
        if rank != 1:
            for what, call in [*calls.items(), *calls.items()]:
                with pytest.raises(hvd.HorovodInternalError, match="while rank 1 has joined: only allreduce and barrier"):
                    call()
                total = hvd.allreduce(torch.ones(1), name="still", op=hvd.Sum).item()
                assert total == world - 1, f"after {what}"
        assert hvd.join() != 1
        for call in calls.values():
            call()


@pytest.mark.ranks(2)
def test_sparse_gradients_do_not_go_on_without_a_rank(hvd, rank, world):
    table = torch.nn.Embedding(4, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(table.parameters(), lr=0.1))
    for step in range(6):
        if step in (3, 4) and rank == 1:
            continue
        if step == 5:
            hvd.join()
        optimizer.zero_grad()
        table(torch.tensor([rank])).sum().backward()
        if step in (3, 4):
            with pytest.raises(hvd.HorovodInternalError, match="while rank 1 has joined"):
                optimizer.step()
        else:
            optimizer.step()
            assert table.weight.grad.to_dense()[:2].tolist() == [[0.5] * 2] * 2


@pytest.mark.ranks(4)
def test_join_within_a_process_set(hvd, rank):
    sets = [hvd.add_process_set([0, 1]), hvd.add_process_set([2, 3])]
    own = sets[rank // 2]
    for step in range(1 + own.rank()):
        total = hvd.allreduce(torch.ones(1), op=hvd.Sum, name="x", process_set=own)
        assert total.item() == (2.0 if step == 0 else 1.0)
    assert hvd.join(process_set=own) == own.ranks[1]
    for made in sets:
        hvd.remove_process_set(made)
