"""Programs' own hooks on gradients beside the optimizer's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch


def optimizer_of(hvd, model, **settings):
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    return hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum, **settings)


def backward_of_ones(model, rank):
    """A pass in which each rank's gradient of the weight is its number plus one."""
    model(torch.full((1, 2), rank + 1.0)).sum().backward()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("groups", [None, 1], ids=["single", "grouped"])
@pytest.mark.parametrize("passes", [1, 2])
def test_hooks_registered_later_change_what_is_reduced(hvd, rank, world, groups, passes):
    model = torch.nn.Linear(2, 2)
    optimizer = optimizer_of(hvd, model, groups=groups, backward_passes_per_step=passes)
    seen = []

    def double(parameter):
        seen.append(1)
        parameter.grad.mul_(2)

    total = sum(range(1, world + 1))
    # Doubled after each pass: of two passes the first's part is doubled twice.
    factor = 2 if passes == 1 else 6
    for step in range(4):
        if step == 1:
            model.weight.register_post_accumulate_grad_hook(double)
        if step == 3:
            model.bias.register_post_accumulate_grad_hook(double)
        optimizer.zero_grad()
        for _ in range(passes):
            backward_of_ones(model, rank)
        optimizer.synchronize()
        of_weight = passes if step == 0 else factor
        of_bias = passes if step < 3 else factor
        assert torch.equal(model.weight.grad, torch.full((2, 2), float(of_weight * total))), step
        assert torch.equal(model.bias.grad, torch.full((2,), float(of_bias * world))), step
    assert len(seen) == passes * (3 + 1)


def accumulator_of(parameter):
    """What autograd adds a gradient up with; programs older than PyTorch 2.1 put their hooks there."""
    return parameter.expand_as(parameter).grad_fn.next_functions[0][0]


def double(parameter, *_):
    parameter.grad.mul_(2)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("groups", [None, 1], ids=["single", "grouped"])
@pytest.mark.parametrize("elements", [2, 5000, 100_000])
def test_hooks_at_the_accumulator(hvd, rank, world, groups, elements):
    """Registered before the optimizer, so that with Horovod they run first."""
    a, b = parameters = [torch.nn.Parameter(torch.zeros(elements)) for _ in range(2)]
    accumulators = [accumulator_of(parameter) for parameter in parameters]
    for parameter, accumulator in zip(parameters, accumulators, strict=True):
        accumulator.register_hook(partial(double, parameter))
    plain = torch.optim.SGD(parameters, lr=1.0)
    settings = {"groups": groups} if groups else {}
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Sum, named_parameters=[("a", a), ("b", b)], **settings)
    for step in range(6):
        optimizer.zero_grad()
        ((a + b) * (rank + 1.0 + step)).sum().backward()
        optimizer.synchronize()
        total = 2.0 * (world * (world + 1) // 2 + step * world)
        assert all(bool((parameter.grad == total).all()) for parameter in parameters), step


@pytest.mark.ranks(2, 3)
def test_a_hook_may_put_another_gradient(hvd, rank, world):
    model = torch.nn.Linear(2, 2, bias=False)
    optimizer = optimizer_of(hvd, model)

    def replace(parameter):
        parameter.grad = torch.full_like(parameter, 7.0)

    model.weight.register_post_accumulate_grad_hook(replace)
    for _ in range(3):
        optimizer.zero_grad()
        backward_of_ones(model, rank)
        optimizer.synchronize()
        assert torch.equal(model.weight.grad, torch.full((2, 2), 7.0 * world))


@pytest.mark.ranks(2)
def test_hooks_on_one_rank_only(hvd, rank, world):
    model = torch.nn.Linear(2, 2, bias=False)
    optimizer = optimizer_of(hvd, model)

    def scale(parameter):
        parameter.grad.mul_(10)

    if rank == 0:
        model.weight.register_post_accumulate_grad_hook(scale)
    for _ in range(3):
        optimizer.zero_grad()
        backward_of_ones(model, rank)
        optimizer.synchronize()
        assert torch.equal(model.weight.grad, torch.full((2, 2), 12.0))


@pytest.mark.ranks(2)
def test_a_hook_that_goes_again_and_a_parameter_that_is_frozen(hvd, rank, world):
    model = torch.nn.Linear(2, 2)
    optimizer = optimizer_of(hvd, model)

    def scale(parameter):
        parameter.grad.mul_(3)

    handle = model.weight.register_post_accumulate_grad_hook(scale)
    backward_of_ones(model, rank)
    model.weight.requires_grad_(False)
    optimizer.synchronize()
    handle.remove()
    optimizer.zero_grad()
    backward_of_ones(model, rank)
    optimizer.synchronize()
    assert torch.equal(model.bias.grad, torch.full((2,), 2.0))
    model.weight.requires_grad_(True)
    for _ in range(3):
        optimizer.zero_grad()
        backward_of_ones(model, rank)
        optimizer.synchronize()
        assert torch.equal(model.weight.grad, torch.full((2, 2), 3.0))


@pytest.mark.ranks(2, 3)
def test_views_that_a_hook_takes_see_the_result(hvd, rank, world):
    model = torch.nn.Linear(2, 2)
    optimizer = optimizer_of(hvd, model)
    taken = []
    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(lambda each: taken.append((each.grad.view(-1), each.grad.numpy())))
    for _ in range(3):
        taken.clear()
        optimizer.zero_grad()
        backward_of_ones(model, rank)
        optimizer.synchronize()
        sums = {float(world), float(sum(range(1, world + 1)))}
        assert {value for view, array in taken for value in [*view.tolist(), *array.flatten().tolist()]} == sums


@pytest.mark.ranks(2)
def test_a_parameter_frozen_after_the_pass_is_reduced(hvd, rank, world):
    """Beside one that was frozen before. All is under way when the pass ends, so other calls may come before the step."""
    model = torch.nn.Sequential(*[torch.nn.Linear(2, 2, bias=False) for _ in range(3)])
    model[1].requires_grad_(False)
    optimizer = optimizer_of(hvd, model)
    for step in range(4):
        optimizer.zero_grad()
        model[0].requires_grad_(True)
        backward_of_ones(model, rank)
        model[0].requires_grad_(False)
        assert optimizer._reducer._under_way == 2
        if rank == 0 or step == 0:  # the first synchronize() is one more call of all ranks
            optimizer.synchronize()
        hvd.allreduce(torch.ones(1), name="loss")
        if rank == 1 and step > 0:
            optimizer.synchronize()
        for layer in (0, 2):
            gathered = hvd.allgather(model[layer].weight.grad.unsqueeze(0), name=f"check {layer}")
            assert bool((gathered == gathered[0]).all())
        with optimizer.skip_synchronize():
            optimizer.step()


def frozen_between_passes(hvd, model, rank):
    optimizer = optimizer_of(hvd, model, backward_passes_per_step=2)
    yield optimizer
    while True:
        backward_of_ones(model, rank)
        model[0].requires_grad_(False)
        backward_of_ones(model, rank)
        yield


def frozen_in_a_group(hvd, model, rank):
    model[1].requires_grad_(False)
    optimizer = optimizer_of(hvd, model, groups=1)
    yield optimizer
    while True:
        backward_of_ones(model, rank)
        model.requires_grad_(False)
        yield


@pytest.mark.ranks(2)
@pytest.mark.parametrize("train", [frozen_between_passes, frozen_in_a_group])
def test_what_a_pass_has_reached_is_reduced(hvd, rank, world, train):
    """Frozen or not when the step comes."""
    model = torch.nn.Sequential(*[torch.nn.Linear(2, 2, bias=False) for _ in range(3)])
    steps = train(hvd, model, rank)
    optimizer = next(steps)
    for _ in range(3):
        for layer in (0, 2):
            model[layer].requires_grad_(True)
        optimizer.zero_grad()
        next(steps)
        optimizer.synchronize()
        for layer in (0, 2):
            gathered = hvd.allgather(model[layer].weight.grad.unsqueeze(0), name=f"check {layer}")
            assert bool((gathered == gathered[0]).all())
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(2)
def test_hooks_of_passes_on_several_threads(hvd, rank, world):
    models = torch.nn.ModuleList([torch.nn.Linear(8, 8) for _ in range(3)])
    optimizer = optimizer_of(hvd, models)
    for parameter in models.parameters():
        parameter.register_post_accumulate_grad_hook(double)

    def run(model, step):
        model(torch.full((1, 8), rank + 1.0 + step)).sum().backward()

    with ThreadPoolExecutor(3) as threads:
        for step in range(40):
            optimizer.zero_grad()
            for done in [threads.submit(run, model, step) for model in models]:
                done.result()
            optimizer.synchronize()
            total = 2.0 * (world * (world + 1) // 2 + step * world)
            for model in models:
                assert model.weight.grad.unique().tolist() == [total], step
                assert model.bias.grad.unique().tolist() == [2.0 * world], step


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("is_first", [True, False], ids=["hooks first", "hooks last"])
@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("each", [True, False], ids=["one each", "one for all"])
def test_steps_within_the_programs_hooks(hvd, rank, world, each, to_none, is_first):
    """PyTorch's recipe "optimizer step in backward". With hooks that were there before the optimizer every step after the first
    was wrong: they zero the gradient, which then came to the optimizer as the next step's."""

    def train(make, ranks, hooks_first):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
        own = list(model.parameters())
        groups = [[parameter] for parameter in own] if each else [own]
        optimizers = [torch.optim.SGD(group, lr=0.05) for group in groups]

        def add_hooks():
            for number, group in enumerate(groups):

                def hook(_, number=number):
                    optimizers[number].step()
                    optimizers[number].zero_grad(set_to_none=to_none)

                group[0].register_post_accumulate_grad_hook(hook)  # the last that a pass comes to

        if hooks_first:
            add_hooks()
        for number, group in enumerate(groups):
            optimizers[number] = make(optimizers[number], group, f"in backward.{each}.{to_none}.{is_first}.{number}")
        if not hooks_first:
            add_hooks()
        for step in range(6):
            inputs = torch.randn(world, 8, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
            losses = [model(inputs[one]).square().mean() * (one + 1) for one in ranks]
            (sum(losses) / len(ranks)).backward()
        return torch.cat([parameter.detach().reshape(-1) for parameter in own])

    def distributed(optimizer, group, name):
        return hvd.DistributedOptimizer(optimizer, [(f"{name}.{i}", parameter) for i, parameter in enumerate(group)])

    found = train(distributed, [rank], is_first)
    torch.testing.assert_close(found, train(lambda optimizer, *_: optimizer, range(world), is_first))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Average", "Sum"])
@pytest.mark.parametrize("each", [True, False], ids=["one each", "one for all"])
def test_steps_within_hooks_of_what_was_frozen(hvd, rank, world, each, op):
    """A program cannot have a hook there before it requires a gradient, and steps in it as soon as it does."""

    def train(make, ranks):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1)).double()
        own = list(model.parameters())
        for parameter in own[:2]:
            parameter.requires_grad_(False)
        groups = [[parameter] for parameter in own] if each else [own]
        plain = [torch.optim.SGD(group, lr=0.05) for group in groups]
        optimizers = [make(plain[i], group, f"thawed.{each}.{op}.{i}") for i, group in enumerate(groups)]
        reached = []

        def hook(parameter):
            reached.append(parameter)
            if each or len(reached) == sum(one.requires_grad for one in own):
                reached.clear()
                number = [one is parameter for one in own].index(True) if each else 0
                optimizers[number].step()
                optimizers[number].zero_grad()

        for parameter in own[2:]:
            parameter.register_post_accumulate_grad_hook(hook)
        for step in range(6):
            if step == 3:
                for parameter in own[:2]:
                    parameter.requires_grad_(True)
                    parameter.register_post_accumulate_grad_hook(hook)
            inputs = torch.randn(world, 8, 4, generator=torch.Generator().manual_seed(step), dtype=torch.float64)
            losses = [model(inputs[one]).square().mean() * (one + 1) for one in ranks]
            (sum(losses) / (len(ranks) if op == "Average" else 1)).backward()
        assert not reached
        return torch.cat([parameter.detach().reshape(-1) for parameter in own])

    def distributed(optimizer, group, name):
        named = [(f"{name}.{i}", parameter) for i, parameter in enumerate(group)]
        return hvd.DistributedOptimizer(optimizer, named, op=getattr(hvd, op))

    found = train(distributed, [rank])
    torch.testing.assert_close(found, train(lambda optimizer, *_: optimizer, range(world)))
