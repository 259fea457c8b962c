"""What only one rank knows must not decide alone: passes that some drop, gradients that some have, parameters that some use."""

from __future__ import annotations

import gc
import signal
import time

import pytest
import torch
from torch import nn

from ronde.exceptions import MismatchError

KINDS = ["place", "group", "fp16"]


def options_of(hvd, kind):
    return {"place": {}, "group": {"groups": 1}, "fp16": {"compression": hvd.Compression.fp16}}[kind]


def made(hvd, kind="place", **more):
    a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    named = [("apart.a", a), ("apart.b", b)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), named, op=hvd.Sum, **options_of(hvd, kind), **more)
    return a, b, optimizer


def take_steps(optimizer, a, b, numbers):
    for step in numbers:
        optimizer.zero_grad()
        ((a + b) * 2**step).sum().backward()
        optimizer.step()


def step_apart(hvd, rank, optimizer, a, b):
    """A step of all ranks, and one that rank 0 drops after all have begun it."""
    take_steps(optimizer, a, b, [0])
    optimizer.zero_grad()
    (a + b).sum().backward()
    hvd.barrier()
    if rank == 0:
        optimizer.load_state_dict(optimizer.state_dict())
    else:
        optimizer.step()


def are(parameter, value):
    torch.testing.assert_close(parameter.detach(), torch.full_like(parameter, float(value)))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dropped", [0, 2], ids=["the first", "a later"])
def test_a_pass_that_only_one_rank_has_made_is_dropped(hvd, rank, world, kind, dropped):
    """Its gradients do not meet the others' next ones."""
    a, b, optimizer = made(hvd, kind)
    expected = 0.0
    for step in range(5):
        optimizer.zero_grad()
        if step == dropped:
            if rank == 0:
                ((a + b) * 100).sum().backward()
            hvd.barrier()
            optimizer.load_state_dict(optimizer.state_dict())
            continue
        ((a + b) * (step + 1)).sum().backward()
        optimizer.step()
        expected -= world * (step + 1)
        are(a, expected)
        are(b, expected)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_parameter_that_only_one_rank_used_in_a_dropped_pass(hvd, rank, world, kind):
    """For the first time in it, so that no rank knows yet whether its gradients are sparse."""
    a, b, optimizer = made(hvd, kind)
    for step in range(5):
        optimizer.zero_grad()
        loss = (a * 2**step).sum()
        if step > 1 or (step == 1 and rank == 0):
            loss = loss + (b * 2**step).sum()
        loss.backward()
        if step == 1:
            optimizer.load_state_dict(optimizer.state_dict())
        else:
            optimizer.step()
    are(a, -world * (1 + 4 + 8 + 16))
    are(b, -world * (4 + 8 + 16))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_passes_of_one_step_reach_other_parameters_and_are_dropped(hvd, rank, world, kind):
    a, b, optimizer = made(hvd, kind, backward_passes_per_step=2)
    for step in range(4):
        optimizer.zero_grad()
        for each in range(2):
            if step == 1 and rank != 0:
                loss = (b if each else a).sum() * 100
            else:
                loss = ((a + b) * 2**step).sum()
            loss.backward()
        if step == 1:
            optimizer.load_state_dict(optimizer.state_dict())
        else:
            optimizer.step()
    for parameter in (a, b):
        are(parameter, -2 * world * (1 + 4 + 8))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_one_rank_loads_a_state_between_steps(hvd, rank, world, kind):
    """And the others follow: they have dropped nothing."""
    a, b, optimizer = made(hvd, kind)
    take_steps(optimizer, a, b, range(2))
    if rank == 0:
        optimizer.zero_grad()
        optimizer.load_state_dict(optimizer.state_dict())
    take_steps(optimizer, a, b, range(2, 4))
    for parameter in (a, b):
        are(parameter, -world * 15)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_collected", [True, False])
def test_the_successor_of_an_optimizer_that_ends_in_the_middle_of_a_step(hvd, rank, world, kind, is_collected):
    a, b, optimizer = made(hvd, kind)
    (a.sum() + (b.sum() if rank == 0 else 0)).backward()
    old = None if is_collected else optimizer
    del optimizer
    gc.collect()
    for parameter in (a, b):
        parameter.grad = None
    named = [("apart.a", a), ("apart.b", b)]
    if old is not None:
        a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
        named = [("apart.a", a), ("apart.b", b)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), named, op=hvd.Sum, **options_of(hvd, kind))
    take_steps(optimizer, a, b, range(3))
    for parameter in (a, b):
        are(parameter, -world * 7)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unused_on", ["no rank", "one rank"])
@pytest.mark.parametrize("is_slow", [False, True])
def test_what_the_program_takes_away_stays_away_on_all_ranks(hvd, rank, world, kind, unused_on, is_slow):
    a, b, optimizer = made(hvd, kind)
    steps = 0
    for step in range(4):
        optimizer.zero_grad()
        loss = a.sum()
        if unused_on == "no rank" or rank != 1:
            loss = loss + b.sum()
        loss.backward()
        if is_slow and step == 2:  # so long that the others say how they stand before they come to the step
            if rank == 0:
                time.sleep(0.2)
            hvd.allreduce(torch.ones(1), name="apart.loss")
        if step % 2:
            b.grad = None
        else:
            steps += 1
        optimizer.step()
        assert (b.grad is None) == bool(step % 2)
    are(a, -4 * world)
    are(b, -steps * (world if unused_on == "no rank" else world - 1))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", ["fp16", "half", "bf16", "average"])
def test_gradients_that_vanish_on_their_way_are_gradients(hvd, rank, world, kind):
    """Also of a parameter that another rank has frozen: it steps by its momentum with the others."""
    dtype = torch.float16 if kind == "half" else torch.float32
    a, b = (nn.Parameter(torch.ones(3, dtype=dtype)) for _ in range(2))
    options = {"fp16": {"compression": hvd.Compression.fp16}, "bf16": {"compression": hvd.Compression.bf16}}.get(kind, {})
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=0.5, momentum=0.5), [("tiny.a", a), ("tiny.b", b)], **options)
    tiny = -(2.0**-24) if kind == "half" else -1e-42 if kind == "bf16" else -1e-9 if kind == "fp16" else -1e-45
    for step in range(3):
        optimizer.zero_grad()
        b.requires_grad_(step == 0 or rank == 0)
        loss = a.sum() + (b.sum() if step == 0 else 0)
        loss.backward()
        if step > 0 and rank == 0:
            b.grad = torch.full_like(b, tiny)
        optimizer.step()
    torch.testing.assert_close(b.detach(), torch.full_like(b, 1 - 0.5 * (1 + 0.5 + 0.25)))


@pytest.mark.ranks(2, 3)
def test_a_parameter_that_one_rank_freezes_before_its_optimizer_has_seen_it(hvd, rank, world):
    """Added to the wrapped optimizer, so that this one finds it in its next step."""
    a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    base = torch.optim.SGD([a], lr=1.0)
    optimizer = hvd.DistributedOptimizer(base, [("late.a", a)], op=hvd.Sum)
    base.add_param_group({"params": [b]})
    for step in range(4):
        optimizer.zero_grad()
        b.requires_grad_(step > 1 or rank != 0)
        (a + b).sum().backward()
        optimizer.step()
    are(a, -4 * world)
    are(b, -4 * world + 2)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}], ids=["", "sparse as dense"])
@pytest.mark.parametrize("first_used", ["in the epoch", "in its tail"])
def test_a_rank_that_had_joined_learns_what_the_others_have_agreed_on(hvd, rank, world, options, first_used):
    """It never uses a parameter that they have used first while it had no data."""
    a, b = (nn.Parameter(torch.zeros(3)) for _ in range(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), [("joined.a", a), ("joined.b", b)], op=hvd.Sum, **options)
    batches = 1 if first_used == "in its tail" else 0
    for epoch in range(2):
        for step in range(3 if rank != 1 or epoch else batches):
            optimizer.zero_grad()
            is_used = rank != 1 and (step >= batches or epoch)
            (a.sum() + (b.sum() if is_used else 0)).backward()
            optimizer.step()
        hvd.join()
    hvd.broadcast_parameters({"a": a.data, "b": b.data}, 0)
    are(a, -(3 * world + 3 * (world - 1) + batches))
    are(b, -(3 + 3 - batches) * (world - 1))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Sum", "Adasum"])
@pytest.mark.parametrize("through", ["the distributed", "the wrapped"])
def test_a_parameter_that_another_one_replaces(hvd, rank, world, op, through):
    """In its group, under its number: as where a cloud of points grows."""
    p = nn.Parameter(torch.zeros(3))
    base = torch.optim.SGD([p], lr=1.0)
    optimizer = hvd.DistributedOptimizer(base, [("grows", p)], op=getattr(hvd, op))
    for step in range(4):
        optimizer.zero_grad()
        (p * (rank + 1)).sum().backward()
        optimizer.step()
        if step == 1:
            p = nn.Parameter(torch.cat([p.detach(), torch.zeros(2)]))
            (base if through == "the wrapped" else optimizer).param_groups[0]["params"][0] = p
    gathered = hvd.allgather(p.detach().reshape(1, -1))
    assert all(torch.equal(row, gathered[0]) for row in gathered)
    if op == "Sum":
        total = world * (world + 1) / 2
        torch.testing.assert_close(p.detach(), torch.tensor([-4 * total] * 3 + [-2 * total] * 2))
        assert len(optimizer._reducer._units) == 1


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("unused_on", ["one rank", "all ranks"])
def test_what_is_taken_away_of_gradients_that_were_zeroed_in_place(hvd, rank, world, kind, unused_on):
    """A rank that has not used the parameter has zeros of an earlier step, and takes them away too."""
    a, b, optimizer = made(hvd, kind)
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.5
    steps = []
    for step in range(4):
        optimizer.zero_grad(set_to_none=False)
        is_taken = step % 2 == 1
        is_used = not is_taken or (unused_on == "one rank" and rank != 1)
        (a.sum() + (b.sum() if is_used else 0.0)).backward()
        if is_taken:
            b.grad = None
        before = b.detach().clone()
        optimizer.step()
        steps.append(bool(torch.equal(before, b.detach())))
    assert steps == [False, True, False, True]
    are(b, -1.5 * world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_taken_away_in_the_step_in_which_a_rank_follows(hvd, rank, world, kind):
    a, b, optimizer = made(hvd, kind)
    take_steps(optimizer, a, b, [0])
    optimizer.zero_grad()
    if rank == 0:
        optimizer.load_state_dict(optimizer.state_dict())
    (a.sum() + (b.sum() if rank != 1 else 0.0)).backward()
    b.grad = None
    optimizer.step()
    assert b.grad is None
    are(a, -2 * world)
    are(b, -world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("is_broadcast", [False, True])
def test_a_pass_that_all_drop_after_one_has_loaded_a_state(hvd, rank, world, kind, is_broadcast):
    """The slower one's dropped gradients do not meet the others' next ones."""
    a, b, optimizer = made(hvd, kind)
    take_steps(optimizer, a, b, [0])
    for _ in range(2):
        if rank == 0:
            optimizer.load_state_dict(optimizer.state_dict())
        if is_broadcast:
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        optimizer.zero_grad()
        ((a + b) * 1000).sum().backward()
        hvd.barrier()
        if rank == 0:
            time.sleep(0.05)
        optimizer.load_state_dict(optimizer.state_dict())
    take_steps(optimizer, a, b, range(1, 4))
    are(a, -15 * world)
    are(b, -15 * world)


@pytest.mark.ranks(2, 3, 5)
@pytest.mark.parametrize("kind", KINDS)
def test_ranks_that_have_stepped_with_what_others_have_dropped_are_told(hvd, rank, world, kind):
    """All of them, in the next step; then they go on together."""
    a, b, optimizer = made(hvd, kind)
    step_apart(hvd, rank, optimizer, a, b)
    optimizer.zero_grad()
    (a + b).sum().backward()
    with pytest.raises(hvd.HorovodInternalError, match="some ranks have stepped with gradients that others have dropped"):
        optimizer.step()
    hvd.broadcast_parameters({"apart.a": a, "apart.b": b}, root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    take_steps(optimizer, a, b, range(1, 3))
    are(a, -7 * world)
    are(b, -7 * world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drops", ["all", "all but one"])
def test_an_optimizer_of_some_of_the_parameters_of_one_that_has_dropped_a_pass(hvd, rank, world, kind, drops):
    """A new name of the optimizer, and the old names of gradients."""
    a, b, c = (nn.Parameter(torch.zeros(3)) for _ in range(3))
    named = [("some.a", a), ("some.b", b), ("some.c", c)]

    def over(some, steps):
        chosen = torch.optim.SGD([parameter for _, parameter in some], lr=1.0)
        optimizer = hvd.DistributedOptimizer(chosen, some, op=hvd.Sum, **options_of(hvd, kind))
        for _ in range(steps):
            optimizer.zero_grad()
            sum(parameter.sum() for _, parameter in some).backward()
            optimizer.step()
        return optimizer

    optimizer = over(named, 1)
    optimizer.zero_grad()
    if drops == "all" or rank != 1:
        (a + b + c).sum().mul(1000).backward()
    del optimizer
    gc.collect()
    for _, parameter in named:
        parameter.grad = None
    hvd.barrier()
    over(named[1:], 3)
    are(b, -4 * world)
    are(c, -4 * world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", ["place", "fp16"])
def test_the_parameter_that_an_optimizer_has_its_name_from_leaves_it(hvd, rank, world, kind):
    """In a step in which a rank has no data."""
    a, b, optimizer = made(hvd, kind)
    take_steps(optimizer, a, b, [0])
    optimizer.param_groups[0]["params"] = [b]
    optimizer.zero_grad()
    if rank != 1:
        b.sum().backward()
    optimizer.step()
    if rank == 0:
        optimizer.load_state_dict(optimizer.state_dict())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    optimizer.zero_grad()
    b.sum().backward()
    optimizer.step()
    are(b, -3 * world + 1)


@pytest.mark.ranks(2, 3)
def test_state_that_is_broadcast_at_once_after_ranks_have_stepped_apart(hvd, rank, world):
    a, b, optimizer = made(hvd)
    step_apart(hvd, rank, optimizer, a, b)
    hvd.broadcast_parameters({"apart.a": a, "apart.b": b}, root_rank=0)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    take_steps(optimizer, a, b, range(1, 3))
    are(a, -7 * world)


@pytest.mark.ranks(2, 3)
def test_gradients_that_wait_for_a_generation_are_not_zeroed_by_mistake(hvd, rank, world):
    a, b, optimizer = made(hvd)
    take_steps(optimizer, a, b, [0])
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    (a + b).sum().backward()
    with pytest.raises(AssertionError, match="while gradients are being reduced"):
        optimizer.zero_grad()
    optimizer.step()
    are(a, -2 * world)


class Meanwhile(torch.autograd.Function):
    """Does something in the middle of a backward pass."""

    @staticmethod
    def forward(context, tensor, do):
        context.do = do
        return tensor.clone()

    @staticmethod
    def backward(context, gradient):
        context.do()
        return gradient, None


@pytest.mark.ranks(2, 3)
def test_gradients_that_were_added_to_dropped_ones_fail_as_an_elastic_job_survives(hvd, rank, world):
    """No mismatch of programs, which would fail again."""
    first, second, third = (nn.Parameter(torch.zeros(size)) for size in (300_000, 3, 3))
    named = [("added.first", first), ("added.second", second), ("added.third", third)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p for _, p in named], lr=1.0), named, op=hvd.Sum)

    def backward(do):
        optimizer.zero_grad()
        loss = Meanwhile.apply(third, do).sum()
        loss = loss + second.sum()
        (loss + first.sum()).backward()

    def let_rank_0_drop():
        hvd.barrier()
        hvd.barrier()

    backward(lambda: None)
    optimizer.step()
    if rank == 0:
        backward(lambda: None)
        hvd.barrier()
        optimizer.load_state_dict(optimizer.state_dict())
        hvd.barrier()
    else:
        backward(let_rank_0_drop)
        with pytest.raises(hvd.HorovodInternalError, match="added to those of a backward pass that another rank") as told:
            optimizer.step()
        assert not isinstance(told.value, MismatchError)
    for _ in range(2):
        backward(lambda: None)
        optimizer.step()
    for _, parameter in named:
        are(parameter, -3 * world)


class Alarm(Exception):
    """What a program's watchdog raises."""


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", KINDS)
def test_a_step_that_is_interrupted_on_one_rank_and_made_again(hvd, rank, world, kind):
    """The others come to it later; they wait for the next."""
    a, b, optimizer = made(hvd, kind)
    take_steps(optimizer, a, b, [0])

    def raise_alarm(*_):
        raise Alarm

    optimizer.zero_grad()
    (a + b).sum().backward() if rank == 0 else None
    if rank == 0:
        before = signal.signal(signal.SIGALRM, raise_alarm)
        signal.setitimer(signal.ITIMER_REAL, 0.1)
        with pytest.raises(Alarm):
            optimizer.step()
        signal.signal(signal.SIGALRM, before)
    hvd.barrier()
    optimizer.zero_grad()
    take_steps(optimizer, a, b, range(1, 3))
    are(a, -7 * world)
    are(b, -7 * world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("loaded", ["the first", "the second", "both"])
@pytest.mark.parametrize("on", ["one rank", "all ranks"])
@pytest.mark.parametrize("is_under_way", [False, True])
def test_optimizers_of_the_same_names_load_their_states(hvd, rank, world, loaded, on, is_under_way):
    """As two without names have, of a generator and a discriminator."""
    one, two = made(hvd), made(hvd)
    load_from = {"the first": [one], "the second": [two], "both": [one, two]}[loaded]
    for step in range(6):
        if step in (0, 3) and (rank == 0 or on == "all ranks"):
            for *_, optimizer in load_from:
                optimizer.load_state_dict(optimizer.state_dict())
        for a, b, optimizer in (one, two):
            optimizer.zero_grad()
            ((a + b) * 2**step).sum().backward()
            if is_under_way and step == 4 and optimizer is two[2] and rank == 0:
                one[2].load_state_dict(one[2].state_dict())
            optimizer.step()
    for a, b, _ in (one, two):
        are(a, -world * 63)
        are(b, -world * 63)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["apart.b", "apart.z", None], ids=["of its own", "another", "none"])
@pytest.mark.parametrize("steps_first", ["new", "old"])
def test_a_parameter_that_goes_to_a_new_optimizer(hvd, rank, world, name, steps_first):
    b, a, optimizer = made(hvd)
    both = [optimizer]
    for step in range(5):
        if step == 2:
            optimizer.param_groups[0]["params"] = [b]
            named = None if name is None else [(name, a)]
            new = hvd.DistributedOptimizer(torch.optim.SGD([a], lr=10.0), named, op=hvd.Sum)
            both = [new, optimizer] if steps_first == "new" else [optimizer, new]
        for each in both:
            each.zero_grad()
        (a + b).sum().backward()
        for each in both:
            each.step()
        if step == 3:
            for each in both:
                if rank == 0:
                    each.load_state_dict(each.state_dict())
    are(a, -32 * world)
    are(b, -5 * world)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("size", [3, 100_000])
def test_a_parameter_that_goes_to_another_optimizer(hvd, rank, world, size):
    a, b, c = (nn.Parameter(torch.zeros(size)) for _ in range(3))
    first = hvd.DistributedOptimizer(torch.optim.SGD([a, b], lr=1.0), [("moves.a", a), ("moves.b", b)], op=hvd.Sum)
    second = hvd.DistributedOptimizer(torch.optim.SGD([c], lr=1.0), [("moves.c", c)], op=hvd.Sum)
    for step in range(5):
        first.zero_grad()
        second.zero_grad()
        (a + b + c).sum().backward()
        first.step()
        second.step()
        if step == 2:
            first.param_groups[0]["params"] = [a]
            second.add_param_group({"params": [b]})
    for parameter in (a, b, c):
        are(parameter, -5 * world)


@pytest.mark.ranks(2, 3)
def test_a_member_that_leaves_its_group(hvd, rank, world):
    a, b, c = (nn.Parameter(torch.zeros(3)) for _ in range(3))
    named = [("leaves.a", a), ("leaves.b", b), ("leaves.c", c)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([a, b, c], lr=1.0), named, op=hvd.Sum, groups=[[a, b], [c]])
    for step in range(6):
        optimizer.zero_grad()
        (a + b + c).sum().backward()
        optimizer.step()
        if step == 1:
            optimizer.param_groups[0]["params"] = [b, c]
        if step == 3:
            optimizer.param_groups[0]["params"] = [c]
    are(a, -2 * world)
    are(b, -4 * world)
    are(c, -6 * world)


@pytest.mark.ranks(2, 3)
def test_ranks_do_other_things_before_their_steps(hvd, rank, world):
    """One waits for a value of all ranks first, the other in its step."""
    a, b, optimizer = made(hvd)
    other = nn.Parameter(torch.zeros(3))
    second = hvd.DistributedOptimizer(torch.optim.SGD([other], lr=1.0), [("apart.other", other)], op=hvd.Sum)
    for step in range(4):
        optimizer.zero_grad()
        second.zero_grad()
        (a + b + other).sum().backward()
        if rank == 0:
            optimizer.step()
            hvd.allreduce(torch.ones(1), name="apart.value")
            second.step()
        else:
            hvd.allreduce(torch.ones(1), name="apart.value")
            second.step()
            optimizer.step()
    for parameter in (a, b, other):
        are(parameter, -4 * world)
