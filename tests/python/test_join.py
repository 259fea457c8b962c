"""Ranks that run out of data join; the others go on."""

import pytest
import torch


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
    if rank == 0:  # the others have no rows from here on, sooner or later
        while len(hvd.allgather(torch.tensor([rank]), name="who")) > 1:
            pass
    elif rank == 1:
        hvd.allgather(torch.tensor([rank]), name="who")
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


@pytest.mark.ranks(3)
def test_a_broadcast_from_who_has_joined_fails_on_the_others(hvd, rank):
    if rank != 1:
        with pytest.raises(hvd.HorovodInternalError, match="rank 1 has joined: its root has nothing to send"):
            hvd.broadcast(torch.ones(2), root_rank=1, name="from one")
        assert hvd.broadcast(torch.full((2,), float(rank)), root_rank=2, name="from two").tolist() == [2.0, 2.0]
    hvd.join()


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
