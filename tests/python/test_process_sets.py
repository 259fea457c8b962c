"""Process sets: groups of ranks with queues and names of their own."""

import os
import threading

import pytest
import torch

from launching import run_job
from ronde import process_sets


@pytest.fixture
def even(hvd, world):
    made = hvd.add_process_set(list(range(0, world, 2)))
    yield made
    hvd.remove_process_set(made)


def members_sum(made):
    return float(sum(rank + 1 for rank in made.ranks))


@pytest.mark.ranks(1, 2, 3, 5)
def test_each_set_adds_up_its_own(hvd, rank, world):
    odd_ranks = list(range(1, world, 2))
    sets = [hvd.add_process_set(ranks) for ranks in [list(range(0, world, 2)), odd_ranks] if 0 < len(ranks) < world]
    for made in sets:
        assert made.size() == len(made.ranks)
        assert made.included() == (rank in made.ranks)
        assert made.rank() == (made.ranks.index(rank) if rank in made.ranks else None)
        assert process_sets.registered()[made.process_set_id] == made.ranks
    for step in range(20):
        for made in sets:
            if made.included():
                ones = torch.full((1 + 4000 * (step % 3),), float(rank + 1))
                assert (hvd.allreduce(ones, op=hvd.Sum, process_set=made) == members_sum(made)).all()
                assert (hvd.allreduce(ones, name="x", process_set=made) == members_sum(made) / len(made.ranks)).all()
    for made in reversed(sets):
        assert hvd.remove_process_set(made) is True
        assert made.process_set_id is None and made.size() is None and made.rank() is None
        assert hvd.remove_process_set(made) is False


@pytest.mark.ranks(3, 5)
def test_every_operation_works_within_a_set(hvd, rank, world, even):
    if not even.included():
        return
    own, count = even.rank(), even.size()
    last = even.ranks[-1]
    assert hvd.broadcast(torch.tensor([float(rank)]), root_rank=last, process_set=even).item() == last
    assert hvd.allgather(torch.full((own + 1,), own), process_set=even).tolist() == [
        r for r in range(count) for _ in range(r + 1)
    ]
    back, splits = hvd.alltoall(torch.arange(count) + 10 * own, splits=[1] * count, process_set=even)
    assert back.tolist() == [10 * r + own for r in range(count)] and splits.tolist() == [1] * count
    assert hvd.reducescatter(torch.ones(count, 2), op=hvd.Sum, process_set=even).tolist() == [[count, count]]
    assert [t.item() for t in hvd.grouped_allreduce([torch.ones(1)] * 3, op=hvd.Sum, process_set=even)] == [count] * 3
    handle = hvd.allreduce_async_(torch.ones(2), op=hvd.Sum, process_set=even)
    assert hvd.synchronize(handle).tolist() == [count, count]
    hvd.barrier(process_set=even)
    assert hvd.allgather_object({"rank": rank}, process_set=even) == [{"rank": r} for r in even.ranks]
    assert hvd.broadcast_object([rank], root_rank=last, process_set=even) == [last]


@pytest.mark.ranks(3, 5)
def test_rooted_operations_and_messages_go_by_ranks_of_the_job(hvd, rank, world, even):
    if not even.included():
        return
    first, last, count = even.ranks[0], even.ranks[-1], even.size()
    total = hvd.reduce(torch.full((3,), float(rank)), root_rank=last, op=hvd.Sum, process_set=even)
    if rank == last:
        assert total.tolist() == [float(sum(even.ranks))] * 3
    rows = hvd.gather(torch.tensor([rank]), root_rank=last, process_set=even)
    assert rows is None if rank != last else rows.tolist() == even.ranks
    mine = hvd.scatter(torch.tensor(even.ranks), root_rank=last, process_set=even)
    assert mine.tolist() == [rank]
    for size in (1, 300_000):  # in the offer, and in pieces
        target = torch.empty(size)
        if rank == last:
            hvd.send(torch.full((size,), 7.0), first, tag=1, process_set=even)
        elif rank == first:
            assert hvd.recv(target, tag=1, process_set=even) == last
            assert (target == 7).all()
    if world == 5 and rank == first:
        with pytest.raises(ValueError, match="rank 1 is not in the group"):
            hvd.send(torch.ones(1), 1, process_set=even)


@pytest.mark.ranks(3)
def test_gradients_stay_within_the_set(hvd, rank, even):
    if not even.included():
        return
    own, count = even.rank(), even.size()
    x = torch.ones(2, requires_grad=True)
    hvd.allreduce(x, op=hvd.Sum, process_set=even).sum().backward()
    assert x.grad.tolist() == [count, count]
    rows = torch.ones(own + 1, requires_grad=True)
    (hvd.allgather(rows, process_set=even) * torch.arange(3.0)).sum().backward()
    assert rows.grad.tolist() == [0.0] if own == 0 else [1.0, 2.0]
    parts = torch.ones(count, requires_grad=True)
    (hvd.alltoall(parts, process_set=even) * (own + 1)).sum().backward()
    assert parts.grad.tolist() == [1.0, 2.0]
    whole = torch.ones(count, requires_grad=True)
    (hvd.reducescatter(whole, process_set=even) * (own + 1)).sum().backward()
    assert whole.grad.tolist() == [1.0, 2.0]


@pytest.mark.ranks(2, 3)
def test_one_more_unnamed_call_in_a_set_disturbs_nobody_else(hvd, rank, world):
    """Automatic names are counted per set: a member's extra calls leave the numbers of the other sets alone."""
    first = hvd.add_process_set([0])
    if rank == 0:
        for _ in range(3):
            handle = hvd.allreduce_async(torch.ones(1), process_set=first)
            hvd.synchronize(handle)
        pending = hvd.allreduce_async(torch.ones(1), process_set=first)
    handle = hvd.allreduce_async(torch.ones(1), op=hvd.Sum)
    assert hvd.synchronize(handle).item() == world
    if rank == 0:
        hvd.synchronize(pending)
    hvd.remove_process_set(first)


@pytest.mark.ranks(2)
def test_what_is_wrong_is_said_on_every_rank_alike(hvd, rank):
    with pytest.raises(ValueError, match="the same ranks exists"):
        hvd.add_process_set([1, 0])
    with pytest.raises(ValueError, match="rank 7; the ranks of this job are 0 to 1"):
        hvd.add_process_set([0, 7])
    with pytest.raises(ValueError, match="at least one rank"):
        hvd.add_process_set([])
    with pytest.raises(Exception, match=r"rank 0 for \[0\], rank 1 for \[1\]"):
        hvd.add_process_set([rank])
    with pytest.raises(NotImplementedError, match="communicators"):
        hvd.ProcessSet(object())
    assert hvd.remove_process_set(hvd.global_process_set) is False
    made = hvd.ProcessSet([0])
    with pytest.raises(ValueError, match="is not registered"):
        hvd.allreduce(torch.ones(1), process_set=made)
    assert hvd.add_process_set(made) is made
    with pytest.raises(ValueError, match="has been added already"):
        hvd.add_process_set(made)
    with pytest.raises(ValueError, match="the same ranks exists"):
        hvd.add_process_set([0])
    if rank == 1:
        with pytest.raises(ValueError, match="rank 1 belongs to no process set with the id"):
            hvd.allreduce(torch.ones(1), process_set=made)
    hvd.remove_process_set(made)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2, "the job stays usable"


@pytest.mark.ranks(3)
def test_an_optimizer_reduces_within_its_set(hvd, rank, even):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), named_parameters=model.named_parameters(), process_set=even
    )
    for _ in range(5):
        optimizer.zero_grad()
        (model(torch.full((2, 4), float(rank + 1))).sum()).backward()
        optimizer.synchronize()
        expected = 2.0 * ((1 + 3) / 2 if even.included() else rank + 1)
        assert model.weight.grad.tolist() == [[expected] * 4]
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(3, fresh=True)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["shared", "grouped"])
def test_an_optimizer_follows_its_set_into_another_job(hvd, rank, options):
    """Its set is not there at first, and comes after another one."""
    ends = hvd.add_process_set([0, 2])
    model = torch.nn.Linear(4, 1)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), process_set=ends, **options)

    def gradient():
        optimizer.zero_grad()
        model(torch.full((1, 4), float(rank + 1))).sum().backward()
        optimizer.synchronize()
        return model.weight.grad.tolist()

    for _ in range(3):
        assert gradient() == [[2.0] * 4], "of (1 + 3) / 2, and rank 1's own"
    before = ends.process_set_id
    hvd.shutdown()
    all_but_last = hvd.ProcessSet([0, 1])
    hvd.init(process_sets=[all_but_last])
    assert all_but_last.process_set_id != before
    if ends.included():
        for _ in range(2):
            with pytest.raises(ValueError, match=r"ranks=\[0, 2\]\) is not registered"):
                gradient()
    hvd.add_process_set(ends)
    assert ends.process_set_id == before
    for _ in range(3):
        assert gradient() == [[2.0] * 4]
    assert hvd.remove_process_set(ends)
    hvd.add_process_set(ends)  # in the same job
    for _ in range(3):
        assert gradient() == [[2.0] * 4]


@pytest.mark.ranks(2, fresh=True)
def test_an_optimizer_made_alone_says_so_in_a_larger_job(hvd, rank, monkeypatch):
    """Else the ranks would go apart."""
    hvd.shutdown()
    with monkeypatch.context() as alone:
        for name in [name for name in os.environ if name.startswith(("RONDE_", "HOROVOD_", "WORLD_SIZE"))]:
            if name not in ("RONDE_LIBRARY", "RONDE_PROBE"):
                alone.delenv(name)
        hvd.init()
        assert hvd.size() == 1
        model = torch.nn.Linear(2, 1)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        hvd.shutdown()
    hvd.init()
    assert hvd.size() == 2
    with pytest.raises(ValueError, match=r"with no other rank, and would now have to with 2 ranks: make it anew"):
        optimizer.step()
    with optimizer.skip_synchronize():
        optimizer.step()


@pytest.mark.ranks(3, fresh=True)
def test_sets_given_to_init_last_until_shutdown(hvd, rank):
    hvd.shutdown()
    first, second = hvd.ProcessSet([0, 1]), hvd.ProcessSet([2])
    assert first.included() is None and first.size() is None
    for _ in range(3):
        hvd.init(process_sets=[first, second])
        assert (first.process_set_id, second.process_set_id) == (1, 2), "of the same ranks in each round"
        own = first if rank < 2 else second
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum, process_set=own).item() == len(own.ranks)
        assert hvd.global_process_set.ranks == [0, 1, 2]
        hvd.shutdown()
        assert first.process_set_id is None
    with pytest.raises(ValueError, match="the same ranks"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
    assert not hvd.is_initialized()
    hvd.init(process_sets="dynamic")


@pytest.mark.ranks(3)
def test_threads_of_a_rank_work_in_different_sets(hvd, rank):
    sets = [hvd.add_process_set(ranks) for ranks in ([0, 1], [1, 2], [0, 2])]
    wrong = []

    def work(made):
        for _ in range(50):
            got = hvd.allreduce(torch.full((100,), float(rank + 1)), op=hvd.Sum, name="x", process_set=made)
            if got[0].item() != members_sum(made):
                wrong.append(got[0].item())

    threads = [threading.Thread(target=work, args=(made,)) for made in sets if made.included()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for made in sets:
        hvd.remove_process_set(made)


def test_a_set_that_fails_leaves_the_job_its_shared_memory(tmp_path):
    ended = run_job(3, "a_set_fails.py", str(tmp_path / "note"), forked="torch", RONDE_TIMEOUT_S="3")
    assert ended.code == 0, ended.output
    assert "timed out" in ended.lines("ended: ")[0].lower()
    assert len(ended.lines("trained")) == 3, ended.output
