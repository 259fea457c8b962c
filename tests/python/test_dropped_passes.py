"""What a program may call between ``backward()`` and ``step()``, or in place of ``step()``."""

from __future__ import annotations

import contextlib
import os

import pytest
import torch
from torch import nn



def set_passes(hvd, optimizer):
    optimizer.set_backward_passes_per_step(2)


def broadcast_state(hvd, optimizer):
    hvd.broadcast_optimizer_state(optimizer, 0)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("between", [set_passes, broadcast_state])
@pytest.mark.parametrize("momentum", [0.0, 1e-9], ids=["no state", "state"])
@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"compression": "fp16"}], ids=["place", "group", "fp16"])
def test_what_comes_between_the_passes_and_the_step_reduces_nothing_twice(hvd, rank, world, between, momentum, options):
    """Ranks may have begun other gradients: one uses a parameter in one of two passes."""
    if "compression" in options:
        options = {"compression": hvd.Compression.fp16}
    a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([a, b], lr=1.0, momentum=momentum), op=hvd.Sum, backward_passes_per_step=2, **options
    )
    expected_a = expected_b = 0.0
    for step in range(5):
        optimizer.zero_grad()
        for each in range(2):
            loss = (a * 2**step).sum()
            if rank != 1 or each == 0:
                loss = loss + (b * 2**step).sum()
            loss.backward()
        if step in (1, 3):
            between(hvd, optimizer)
        optimizer.step()
        expected_a -= 2 * world * 2**step
        expected_b -= (2 * world - 1) * 2**step
        torch.testing.assert_close(a.detach(), torch.full((3,), expected_a))
        torch.testing.assert_close(b.detach(), torch.full((3,), expected_b))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_a_pass_that_all_ranks_drop_is_forgotten(hvd, rank, world, options):
    """They load a state in place of a step; one of them has not used a parameter in that pass."""
    a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), op=hvd.Sum, **options)
    expected = 0.0
    for step in range(5):
        optimizer.zero_grad()
        is_dropped = step in (1, 3)
        loss = (a * 10**step).sum()
        if rank == 0 or not is_dropped:
            loss = loss + (b * 10**step).sum()
        loss.backward()
        if is_dropped:
            optimizer.load_state_dict(optimizer.state_dict())
            continue
        optimizer.step()
        expected -= world * 10**step
        for p in (a, b):
            torch.testing.assert_close(p.detach(), torch.full((3,), expected))


@pytest.mark.ranks(2, 3)
def test_loading_in_the_middle_of_accumulation_adds_nothing_twice(hvd, rank, world):
    """Nothing is under way then; what the first pass has left in p.grad stays there."""
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), op=hvd.Sum, backward_passes_per_step=2)
    for step in range(3):
        optimizer.zero_grad()
        (p * (rank + 1)).sum().backward()
        optimizer.load_state_dict(optimizer.state_dict())
        (p * (rank + 1) * 10).sum().backward()
        optimizer.step()
        torch.testing.assert_close(p.detach(), torch.full((3,), -11.0 * (step + 1) * world * (world + 1) / 2))


@pytest.mark.ranks(2)
def test_loading_waits_for_no_rank(hvd, rank, world):
    """One rank drops its pass while the other waits for it in a call before its own."""
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("waits.for.no", p)])
    for step in range(2):  # so that it is replayed, or not
        optimizer.zero_grad()
        if rank == 0:
            p.sum().backward()
            optimizer.load_state_dict(optimizer.state_dict())
        hvd.allreduce(torch.ones(1), name="behind")
        if rank == 1:
            p.sum().backward()
            optimizer.load_state_dict(optimizer.state_dict())
        hvd.barrier()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "options, is_sparse",
    [({}, False), ({"groups": 1}, False), ({"compression": "fp16"}, False), ({}, True), ({"compression": "fp16"}, True)],
    ids=["place", "group", "fp16", "sparse", "sparse fp16"],
)
def test_a_gradient_that_the_program_takes_away_is_not_stepped(hvd, rank, world, options, is_sparse):
    """As DINO does with its last layer at first."""
    if "compression" in options:
        options = {"compression": hvd.Compression.fp16}
    a, b = nn.Parameter(torch.zeros(3)), nn.Parameter(torch.zeros(4, 2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), **options)
    steps = 0
    for step in range(5):
        optimizer.zero_grad()
        rows = nn.functional.embedding(torch.tensor([0, 1, 2, 3]), b, sparse=is_sparse)
        (a.sum() + (rows * (rank + 1)).sum()).backward()
        is_kept = step in (0, 3)
        if not is_kept:
            b.grad = None
        optimizer.step()
        steps += is_kept
        torch.testing.assert_close(a.detach(), torch.full((3,), -1.0 * (step + 1)))
        # In the first pass layouts are not agreed yet, and what is sparse is held back.
        torch.testing.assert_close(b.detach(), torch.full((4, 2), -steps * (world + 1) / 2))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_an_unused_embedding_in_the_step_in_which_a_rank_follows(hvd, rank, options):
    """The zeros that stand for its gradient are Ronde's: begun anew in another generation they still say nothing of a layout."""
    a, b = (nn.Embedding(4, 2, sparse=True, _weight=torch.zeros(4, 2)) for _ in range(2))
    named = [("dropped.embedding.a", a.weight), ("dropped.embedding.b", b.weight)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a.weight, b.weight], lr=1.0), named, sparse_as_dense=True, **options)
    row = torch.tensor([1])
    for step in range(3):
        optimizer.zero_grad()
        if step == 1 and rank == 1:
            optimizer.load_state_dict(optimizer.state_dict())
        loss = b(row).sum()
        if rank == 1 or step != 1:
            loss = loss + a(row).sum()
        loss.backward()
        optimizer.synchronize()
        assert a.weight.grad.layout == b.weight.grad.layout == torch.sparse_coo, step
        with optimizer.skip_synchronize():
            optimizer.step()


def anew_in_another_job(hvd, some):
    hvd.shutdown()
    hvd.init(process_sets=[] if some is hvd.global_process_set else [some])


def anew_in_the_job(hvd, some):
    if some is not hvd.global_process_set:
        hvd.remove_process_set(some)
        hvd.add_process_set(some)


@pytest.mark.ranks(3, fresh=True)
@pytest.mark.parametrize("in_a_set", [False, True], ids=["all", "set"])
@pytest.mark.parametrize("anew", [anew_in_another_job, anew_in_the_job])
def test_who_has_followed_once_begins_anew_with_the_others(hvd, rank, world, in_a_set, anew):
    """After one rank alone has loaded a state and all have stepped: nothing of that is left in another job or set."""
    some = hvd.add_process_set(hvd.ProcessSet(range(world - 1))) if in_a_set else hvd.global_process_set
    members = world - in_a_set
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("anew.p", p)], op=hvd.Sum, process_set=some)
    for step in range(1, 9):
        if step in (2, 6) and rank == 0:
            optimizer.load_state_dict(optimizer.state_dict())
        if step in (4, 8):
            anew(hvd, some)
        if rank < members:
            optimizer.zero_grad()
            p.sum().backward()
            optimizer.step()
            assert p.tolist() == [-1.0 * members * step] * 3, step


@pytest.mark.ranks(2, 3)
def test_a_parameter_that_comes_again_into_an_optimizer_of_another_name(hvd, rank, world):
    """Under no name that an earlier one has dropped gradients of, on some ranks only."""
    a, b, c = (nn.Parameter(torch.zeros(3)) for _ in range(3))

    def made(**options):
        named = [("again.a", a), ("again.c", c)]
        return hvd.DistributedOptimizer(torch.optim.SGD([a, c], lr=1.0), named, op=hvd.Sum, **options)

    optimizer = made()
    optimizer.add_param_group({"params": [b]})
    for _ in range(3):
        optimizer.zero_grad()
        (a * 0 + b * 0).sum().backward()
        optimizer.step()
    optimizer.zero_grad()
    if rank == 1:
        (a + b).sum().backward()
    hvd.barrier()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    del optimizer
    hvd.barrier()
    optimizer = made(groups=1)
    for step in range(1, 4):
        if step == 2:
            optimizer.add_param_group({"params": [b]})
        optimizer.zero_grad()
        (a + b).sum().backward()
        optimizer.step()
        assert a.tolist() == [-1.0 * world * step] * 3, step
        assert step == 1 or b.tolist() == [-1.0 * world * (step - 1)] * 3, step


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_ranks_that_stepped_apart_and_have_all_loaded_a_state_since_are_not_told(hvd, rank, world, options):
    """They have rolled back: their weights are the same."""
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("back.p", p)], op=hvd.Sum, **options)

    def step(drops=False):
        optimizer.zero_grad()
        p.sum().backward()
        hvd.barrier()
        if drops:
            optimizer.load_state_dict(optimizer.state_dict())
        else:
            optimizer.step()

    for _ in range(2):
        step()
        step(drops=rank == 0)
        with torch.no_grad():
            p.zero_()
        optimizer.load_state_dict(optimizer.state_dict())
        step()
        assert p.tolist() == [-world] * 3
    step(drops=rank == 0)  # from the last step on it counts again
    with pytest.raises(hvd.HorovodInternalError, match="some ranks have stepped with gradients that others have dropped"):
        step()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_a_new_optimizer_after_a_pass_that_only_some_ranks_have_made_and_all_dropped(hvd, rank, world, options):
    """It does not meet their dropped gradients, however little time there is between."""

    def step(p, optimizer):
        optimizer.zero_grad()
        p.sum().backward()
        optimizer.step()

    for number in range(12):
        p = nn.Parameter(torch.zeros(3))
        named = [(f"anew.{number}", p)]
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), named, op=hvd.Sum, **options)
        step(p, optimizer)
        optimizer.zero_grad()
        if (rank == 0) == (number % 2 == 0):
            p.sum().mul(100).backward()
        optimizer.load_state_dict(optimizer.state_dict())
        p.grad = None
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), named, op=hvd.Sum, **options)
        step(p, optimizer)
        step(p, optimizer)
        assert p.tolist() == [-3.0 * world] * 3


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}], ids=["place", "group"])
def test_a_child_forked_between_a_pass_and_its_step_zeroes_its_gradients(hvd, rank, world, options):
    """Nothing of its own is under way."""
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("forked.p", p)], op=hvd.Sum, **options)
    for _ in range(2):
        optimizer.zero_grad()
        p.sum().backward()
        child = os.fork()
        if child == 0:
            code = 1
            with contextlib.suppress(BaseException):
                optimizer.zero_grad()
                assert p.grad is None
                code = 7
            os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        optimizer.step()
    assert p.tolist() == [-2.0 * world] * 3
