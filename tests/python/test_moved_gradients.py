"""Gradients whose memory changes between a backward pass and the optimizer's step."""

from __future__ import annotations

import gc
from functools import partial

import numpy
import pytest
import torch
from torch import nn

from launching import wait_until


def other_storage(model):
    for parameter in model.parameters():
        parameter.grad.data = parameter.grad.data.clone()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("move", [other_storage, nn.Module.double], ids=["data", "double"])
def test_gradients_that_are_moved_while_under_way(hvd, rank, world, move):
    """The same tensor then has another storage: what was sent is reduced where it was, and the result comes over."""
    for _ in range(2):  # in another's memory, if the first one's was let go too early
        model = nn.Linear(1000, 3)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.full((1, 1000), float(rank + 1), dtype=model.weight.dtype)).sum().backward()
            move(model)
            optimizer.synchronize()
            mean = (world + 1) / 2
            assert bool((model.weight.grad == mean).all()) and bool((model.bias.grad == 1).all())
            with optimizer.skip_synchronize():
                optimizer.step()


@pytest.mark.ranks(2)
def test_new_places_in_the_middle_of_a_step(hvd, rank, world):
    """What was submitted before all places were made anew goes with its step, and nothing of it is waited for again."""
    model = nn.ModuleList([nn.Linear(4, 2, bias=False), nn.Linear(4, 2, bias=False)])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())

    def backward(*used):
        optimizer.zero_grad()
        sum(model[index](torch.full((1, 4), float(rank + 1))).sum() for index in used).backward()

    for _ in range(3):
        backward(0, 1)
        optimizer.step()
    for _ in range(2):
        backward(0)
        hvd.shutdown()
        hvd.init()
        optimizer.step()  # the first was reduced before, the second has never been; all have new places now
        assert bool((model[0].weight.grad == 1.5).all()) and not model[1].weight.grad.any()
        gc.collect()
        for _ in range(3):
            backward(0, 1)
            optimizer.synchronize()
            assert all(bool((each.weight.grad == 1.5).all()) for each in model)
            with optimizer.skip_synchronize():
                optimizer.step()


@pytest.mark.ranks(1, 2, 3)
def test_gradients_that_are_parts_of_the_programs_own_memory(hvd, rank, world):
    """As with Horovod results come where the program has put the gradient, and stay there."""
    model = torch.nn.Linear(3, 2)
    flat = torch.zeros(8)
    model.weight.grad, model.bias.grad = flat[:6].view(2, 3), flat[6:]
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum)
    total = float(world * (world + 1) // 2)
    for _ in range(4):
        flat.zero_()
        model(torch.full((1, 3), rank + 1.0)).sum().backward()
        optimizer.synchronize()
        assert flat.tolist() == [total] * 6 + [world] * 2
        assert model.weight.grad.data_ptr() == flat.data_ptr()


@pytest.mark.ranks(1, 2, 3)
def test_gradients_that_the_program_holds(hvd, rank, world):
    model = torch.nn.Linear(3, 2)
    for parameter in model.parameters():
        parameter.grad = torch.zeros_like(parameter)
    gradients = [parameter.grad for parameter in model.parameters()]
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters(), op=hvd.Sum)
    total = float(world * (world + 1) // 2)
    for _ in range(4):
        for gradient in gradients:
            gradient.zero_()
        model(torch.full((1, 3), rank + 1.0)).sum().backward()
        optimizer.synchronize()
        assert bool((gradients[0] == total).all()) and gradients[1].tolist() == [world] * 2
        assert all(gradient is parameter.grad for gradient, parameter in zip(gradients, model.parameters(), strict=True))


def from_a_flat_buffer(parameter):
    buffer = torch.zeros(parameter.numel())
    parameter.grad = buffer.view_as(parameter)
    return buffer


def in_a_detached_tensor(parameter):
    parameter.grad = torch.zeros_like(parameter)
    return parameter.grad.detach()


def in_an_array(parameter):
    parameter.grad = torch.zeros_like(parameter)
    return parameter.grad.numpy()


def in_another_parameter(parameter):
    parameter.grad = torch.zeros_like(parameter)
    other = torch.nn.Parameter(torch.zeros_like(parameter))
    other._grad = parameter.grad  # as asynchronous actor-critic programs do, once
    return Seen(other)


def in_a_storage_of_the_programs(parameter):
    storage = torch.UntypedStorage(parameter.numel() * parameter.element_size())
    parameter.grad = torch.empty(0).set_(storage, 0, parameter.shape)
    return SeenInStorage(storage)


def in_the_storage_of_the_gradient(parameter):
    parameter.grad = torch.zeros_like(parameter)
    return SeenInStorage(parameter.grad.untyped_storage())


class SeenInStorage:
    def __init__(self, storage):
        self.storage = storage

    def __setitem__(self, key, value):
        self.storage.fill_(value)

    def tolist(self):
        return torch.empty(0).set_(self.storage).tolist()


class Seen:
    """The gradient of a parameter."""

    def __init__(self, parameter):
        self.parameter = parameter

    def __setitem__(self, key, value):
        self.parameter.grad[key] = value

    def tolist(self):
        return self.parameter.grad.tolist()


def from_an_array(parameter):
    array = numpy.zeros(parameter.shape, numpy.float32)
    parameter.grad = torch.from_numpy(array)
    return array


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "see",
    [
        from_a_flat_buffer, in_a_detached_tensor, in_another_parameter, in_an_array, from_an_array,
        in_a_storage_of_the_programs, in_the_storage_of_the_gradient,
    ],
)
def test_gradients_that_the_program_sees_in_another_way(hvd, rank, world, see):
    """Its memory is as large as the gradient, and what knows it is another tensor or NumPy."""
    parameter = torch.nn.Parameter(torch.zeros(3, 2))
    seen = see(parameter)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=1.0), op=hvd.Sum)
    for step in range(4):
        seen[...] = 0
        ((rank + 1.0 + step) * parameter).sum().backward()
        optimizer.synchronize()
        total = float(world * (world + 1) // 2 + step * world)
        assert torch.tensor(seen.tolist()).flatten().tolist() == parameter.grad.flatten().tolist() == [total] * 6


@pytest.mark.ranks(2, 3)
def test_fresh_gradients_go_to_shared_memory(hvd, rank, world):
    """Also those of parameters that are used twice, whose gradient PyTorch adds up in place."""
    model = torch.nn.Linear(3, 3)
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, named_parameters=model.named_parameters())
    for _ in range(2):
        optimizer.zero_grad()
        model(model(torch.ones(1, 3))).sum().backward()
        optimizer.synchronize()
        for unit in optimizer._reducer._units:
            assert unit.place is not None and unit.parameters[0].grad is unit.place.view


@pytest.mark.ranks(2)
@pytest.mark.parametrize("grouped", [False, True])
def test_what_comes_after_an_error_reaches_no_gradient(hvd, rank, world, grouped):
    """A reduction that is still under way when a step has failed ends later, when its gradient is zeroed and filled anew."""
    a, b, c = parameters = [torch.nn.Parameter(torch.zeros(4)) for _ in range(3)]
    plain = torch.optim.SGD(parameters, lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Sum, groups=[[b, c]] if grouped else None)
    (a + b + c).sum().backward()  # as in training before
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    if rank == 0:
        (100 * (b + c)).sum().backward()  # under way; the other rank does not come yet
        optimizer._reducer.restart()  # as after an error
        optimizer.zero_grad(set_to_none=False)
        hvd.allreduce(torch.ones(1), name="go on")
    else:
        hvd.allreduce(torch.ones(1), name="go on")
        (10 * (b + c)).sum().backward()
        reducer = optimizer._reducer
        ended = [place.is_free for place in reducer._placed.values()]
        ended += [partial(hvd.poll, flight.handle) for flight in reducer._flights.values()]
        wait_until(lambda: all(each() for each in ended), 30, "the end of what was under way")
        reducer.restart()
        optimizer.zero_grad(set_to_none=False)
    hvd.barrier()
    assert b.grad.tolist() == c.grad.tolist() == [0.0] * 4
    for _ in range(2):
        optimizer.zero_grad(set_to_none=False)
        ((rank + 1) * (a + b + c)).sum().backward()
        optimizer.synchronize()
        assert all(parameter.grad.tolist() == [3.0] * 4 for parameter in parameters)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("is_flat", [True, False])
def test_the_programs_gradients_stay_its_own_after_an_error(hvd, rank, world, is_flat):
    a, b, other = parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(3)]
    flat = torch.zeros(6)
    a.grad, b.grad = (flat[:3], flat[3:]) if is_flat else (torch.zeros(3), torch.zeros(3))
    mine = [flat] if is_flat else [a.grad, b.grad]
    named = list(zip("abc", parameters, strict=True))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=0.0), named_parameters=named, op=hvd.Sum)
    for step in range(5):
        other.grad = None
        for gradient in mine:
            gradient.zero_()
        fails = step == 1
        other.data = other.data.to(torch.float64 if fails and rank == 1 else torch.float32)
        ((a + b) * (rank + 1.0 + step)).sum().add(other.float().sum()).backward()
        if fails:
            with pytest.raises(hvd.HorovodInternalError):
                optimizer.synchronize()
            continue
        optimizer.synchronize()
        assert all(bool((gradient == 2 * step + 3).all()) for gradient in [*mine, a.grad, b.grad])


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("way", ["place", "compressed", "grouped"])
def test_an_expanded_gradient(hvd, rank, world, way):
    """Whose elements are one place in memory: nothing can be written there."""
    a, b = parameters = [torch.nn.Parameter(torch.zeros(3)) for _ in range(2)]
    settings = {"place": {}, "compressed": {"compression": hvd.Compression.fp16}, "grouped": {"groups": [parameters]}}[way]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), op=hvd.Sum, **settings)
    for _ in range(2):
        a.grad, b.grad = torch.tensor(rank + 1.0).expand(3), torch.ones(3)
        optimizer.synchronize()
        assert a.grad.tolist() == [world * (world + 1) / 2] * 3 and b.grad.tolist() == [world] * 3


def kept_as(how: str, gradient: torch.Tensor):
    kinds = {
        "itself": lambda: gradient,
        "detached": gradient.detach,
        "flat": lambda: gradient.view(-1),
        "numpy": gradient.numpy,
        "in a parameter": lambda: torch.nn.Parameter(gradient),
        "by DLPack": lambda: torch.from_dlpack(gradient),
        "by NumPy's DLPack": lambda: numpy.from_dlpack(gradient),
    }
    return kinds[how]()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("how", ["itself", "detached", "flat", "numpy", "in a parameter", "by DLPack", "by NumPy's DLPack"])
def test_gradients_kept_from_one_pass_to_the_next(hvd, rank, world, how):
    """As PCGrad and GradNorm do. zero_grad() sets None, so each pass makes a gradient of its own."""
    w = torch.nn.Parameter(torch.zeros(2, 3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), named_parameters=[(f"kept.{how}", w)])
    kept = []
    for task in range(5):
        optimizer.zero_grad()
        (w * (task + 1) * (rank + 1)).sum().backward()
        optimizer.synchronize()
        if task != 3:  # of one nothing is kept
            kept.append(((task + 1) * (world + 1) / 2, kept_as(how, w.grad)))
        assert bool((w.grad == (task + 1) * (world + 1) / 2).all())
    for expected, gradient in kept:
        assert bool((torch.as_tensor(gradient) == expected).all()), expected


@pytest.mark.ranks(2)
def test_kept_gradients_leave_the_place_shared(hvd, rank, world):
    w = torch.nn.Parameter(torch.zeros(1000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), named_parameters=[("kept.shared", w)])
    kept, addresses = None, set()
    for task in range(6):
        optimizer.zero_grad()
        (w * (rank + 1)).sum().backward()
        optimizer.synchronize()
        kept = w.grad
        addresses.add(w.grad.data_ptr())
        assert w.grad is kept
    assert len(addresses) == 1


@pytest.mark.ranks(2)
@pytest.mark.parametrize("which", [0, 1])
def test_a_gradient_with_other_memory_in_the_next_job(hvd, rank, world, which):
    """Programs clip like that. Its place does not fit any more, that of the other belongs to an engine that has ended."""
    pair = [nn.Parameter(torch.zeros(3)) for _ in range(2)]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(pair, lr=1.0), [(f"next job.{i}", p) for i, p in enumerate(pair)], op=hvd.Sum
    )
    for step in range(4):
        if step == 2:
            hvd.shutdown()
            hvd.init()
        optimizer.zero_grad()
        (pair[0].sum() * (rank + 1) + pair[1].sum() * (rank + 1)).backward()
        optimizer.synchronize()
        pair[which].grad.data = pair[which].grad.data.clamp(max=2.0)
        with optimizer.skip_synchronize():
            optimizer.step()
    assert pair[which].tolist() == [-8.0] * 3
    assert pair[1 - which].tolist() == [-12.0] * 3


@pytest.mark.ranks(2)
def test_a_storage_that_the_program_keeps_of_a_gradient_is_not_written_again(hvd, rank, world):
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (5, 2000, 50000)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), op=hvd.Sum)
    kept = []
    for step in range(5):
        optimizer.zero_grad()
        (sum(parameter.sum() for parameter in parameters) * (step + 1.0)).backward()
        optimizer.step()
        kept.append([parameter.grad.untyped_storage() for parameter in parameters] if step % 2 else [])
        for before, storages in enumerate(kept):
            for storage in storages:
                assert torch.empty(0).set_(storage).unique().tolist() == [(before + 1.0) * world], (step, before)


class Parts(torch.autograd.Function):
    """A product with each of some parameters; their gradients are parts of one tensor, which the program keeps."""

    @staticmethod
    def forward(ctx, x, together, kept, *parameters):
        ctx.x, ctx.together, ctx.kept, ctx.count = x, together, kept, len(parameters)
        return sum((each * x).sum() for each in parameters)

    @staticmethod
    def backward(ctx, gradient):
        ctx.kept.append(ctx.together([(gradient * ctx.x).reshape(-1) for _ in range(ctx.count)]).view(-1))
        parts = ctx.kept[-1].split(ctx.x.numel())
        return (None, None, None, *[each.view(ctx.x.shape) for each in parts])


@pytest.mark.ranks(2)
@pytest.mark.parametrize("together", [torch.cat, torch.stack])
def test_what_a_function_cuts_into_fresh_gradients_stays_as_it_is(hvd, rank, world, together):
    """As what a program gives to a pass does: its gradients get memory of their own."""
    parameters = [torch.nn.Parameter(torch.ones(3, 7)) for _ in range(3)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), op=hvd.Sum)
    for step in range(4):
        kept = []
        optimizer.zero_grad()
        Parts.apply(torch.full((3, 7), rank + 1.0 + step), together, kept, *parameters).backward()
        optimizer.step()
        expected = sum(each + 1.0 + step for each in range(world))
        assert kept[0].unique().tolist() == [rank + 1.0 + step]
        assert [each.grad.unique().tolist() for each in parameters] == [[expected]] * 3


@pytest.mark.ranks(2)
def test_parameters_that_are_put_together(hvd, rank, world):
    """Autograd makes their gradients as parts of one tensor, of which nobody else knows."""
    parameters = [torch.nn.Parameter(torch.zeros(size)) for size in (4, 9, 1)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), op=hvd.Sum)
    total = torch.zeros(14)
    for step in range(4):
        optimizer.zero_grad()
        (torch.cat(parameters) * torch.arange(14.0) * (rank + 1.0 + step)).sum().backward()
        optimizer.step()
        total -= torch.arange(14.0) * sum(each + 1.0 + step for each in range(world))
        assert torch.cat(parameters).tolist() == total.tolist()
