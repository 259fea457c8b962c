"""Gradients that live in shared buffers: the same bits as from private memory, whatever happens to the model."""

from __future__ import annotations

import contextlib
import copy
import gc
import io
import logging
import os
import pickle
import re

import pytest
import torch
from torch import nn

from made_buckets import made_buckets
from ronde import _abi, _shared_buffer
from ronde.exceptions import ForkedError, error_of
from ronde.torch import _buckets, _gradients
from test_optimizer import batches, distributed, loss_of, make_model, share

#: Shared memory may be refused as used up, because the engine has lost a rank, by a system call.
REASONS = (_abi.OUT_OF_MEMORY, 2, 15)


@pytest.fixture
def buckets():
    with made_buckets() as made:
        yield made


def is_shared(tensor: torch.Tensor) -> bool:
    return _shared_buffer.holds(tensor.data_ptr())


def all_shared(model: nn.Module) -> bool:
    return all(p.grad is not None and is_shared(p.grad) for p in model.parameters() if p.requires_grad)


@contextlib.contextmanager
def refused(after: int = 0, code: int = _abi.OUT_OF_MEMORY):
    """Buckets are refused, from the n-th on."""
    allocate, left = _shared_buffer.allocate, [after]

    def refuse(name: str, n_bytes: int):
        left[0] -= 1
        if left[0] < 0:
            raise error_of(code, f"bucket '{name}': no room")
        return allocate(name, n_bytes)

    _shared_buffer.allocate = refuse
    try:
        yield
    finally:
        _shared_buffer.allocate = allocate


def step(model, optimizer, batch, rank, world, **how):
    optimizer.zero_grad(**how)
    loss_of(model, share(batch, rank, world)).backward()
    optimizer.step()


def bits_of(model: nn.Module) -> list[bytes]:
    return [tensor.detach().numpy().tobytes() for tensor in model.state_dict().values()]


def train(hvd, rank, world, *, steps=4, model=None, zero=None, **options) -> nn.Module:
    model = model or make_model()
    optimizer = distributed(hvd, "sgd", model, **options)
    for batch in batches(steps):
        step(model, optimizer, batch, rank, world, **(zero or {}))
    return model


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("zero", [{}, {"set_to_none": False}], ids=["to none", "to zeros"])
@pytest.mark.parametrize(
    "options",
    [{}, {"gradient_predivide_factor": 3.0}, {"op": 1}, {"op": 4}],
    ids=["average", "predivide", "sum", "max"],
)
def test_the_same_bits_as_from_private_memory(hvd, rank, world, zero, options):
    shared = train(hvd, rank, world, zero=zero, **options)
    assert all_shared(shared)
    with refused():
        private = train(hvd, rank, world, zero=zero, **options)
    assert not any(is_shared(p.grad) for p in private.parameters())
    assert bits_of(shared) == bits_of(private)
    with refused(after=0 if rank == 0 else 100):  # private on one rank only
        mixed = train(hvd, rank, world, zero=zero, **options)
    assert all_shared(mixed) == (rank != 0)
    assert bits_of(shared) == bits_of(mixed)


@pytest.mark.ranks(2)
def test_accumulated_gradients(hvd, rank, world):
    def run():
        model = make_model()
        optimizer = distributed(hvd, "sgd", model, backward_passes_per_step=3)
        for number, batch in enumerate(batches(3)):
            if number != 1:  # once they add up over steps, too
                optimizer.zero_grad()
            for _ in range(3):
                loss_of(model, share(batch, rank, world)).backward()
            optimizer.step()
        return model

    shared = run()
    assert all_shared(shared)
    with refused():
        assert bits_of(run()) == bits_of(shared)


@pytest.mark.ranks(2)
def test_one_memory_for_many_tensors(hvd, rank, world, buckets):
    model = train(hvd, rank, world)
    (bucket,) = buckets.addresses()
    gradients = [p.grad for p in model.parameters()]
    places = [gradient.data_ptr() - bucket for gradient in gradients]
    assert hvd.allgather_object(places) == [places] * world
    assert places[0] == 0 and all(place % 128 == 0 for place in places)
    # Each is a tensor of its own, for who saves it.
    file = io.BytesIO()
    torch.save(gradients[1], file)
    assert gradients[1].untyped_storage().nbytes() == gradients[1].nbytes and len(file.getvalue()) < 4096
    pickle.dumps(gradients)
    assert model is not None
    del model, gradients
    assert buckets.n_bytes() == 0


@pytest.mark.ranks(2)
def test_memory_is_split_by_type_and_size(hvd, monkeypatch):
    monkeypatch.setattr(_buckets, "_BUCKET_BYTES", 1024)
    tensors = [torch.ones(100), torch.ones(7, dtype=torch.float64), torch.ones(1000), torch.ones(100), torch.ones(28)]
    homes = dict(_buckets.homes_for(tensors, "test", pytest.fail))
    assert sorted(homes) == list(range(5))
    for index, home in homes.items():
        like = tensors[index]
        assert (home.dtype, home.shape, home.stride) == (like.dtype, like.shape, like.stride())
        assert not home.tensor.any() and home.address % 128 == 0
        home.tensor.fill_(index)
    assert all(bool((home.tensor == index).all()) for index, home in homes.items())
    assert homes[3].address % 4096 == 0 and homes[4].address == homes[3].address + 512
    assert homes[2].address % 4096 == 0 and homes[1].address % 4096 == 0


@pytest.mark.ranks(2)
def test_freezing_and_unfreezing(hvd, rank, world):
    def run():
        model = make_model()
        model[0].requires_grad_(False)
        optimizer = distributed(hvd, "sgd", model)
        first, *more = batches(4)
        step(model, optimizer, first, rank, world)
        assert model[0].weight.grad is None
        model[0].requires_grad_(True)
        model[3].requires_grad_(False)
        kept = model[3].weight.detach().clone()
        for batch in more[:2]:
            step(model, optimizer, batch, rank, world)
        assert torch.equal(model[3].weight, kept)
        model[3].requires_grad_(True)
        # What is thawed is reduced during the backward pass as well.
        optimizer.zero_grad()
        loss_of(model, share(more[2], rank, world)).backward()
        assert optimizer._reducer._under_way == 6
        optimizer.step()
        return model

    shared = run()
    assert all_shared(shared)
    with refused():
        assert bits_of(run()) == bits_of(shared)


@pytest.mark.ranks(2, 3)
def test_a_parameter_without_a_gradient_counts_as_zeros(hvd, rank, world):
    model = nn.ModuleList([nn.Linear(4, 2), nn.Linear(4, 2)])
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model[min(rank, 1)](torch.ones(1, 4)).sum().backward()
        optimizer.synchronize()
        assert all_shared(model)
        assert bool((model[0].bias.grad == 1 / world).all())
        torch.testing.assert_close(model[1].bias.grad, torch.full((2,), (world - 1) / world))
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(2)
def test_replaced_gradients(hvd, rank, world):
    """Between backward() and step(), and before backward()."""
    model = nn.Linear(3, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.0), model.named_parameters())
    x = torch.full((1, 3), rank + 1.0)
    for replacement in (
        lambda: torch.ones(1, 3),
        lambda: torch.ones(3, 1).t(),
        lambda: model.weight.grad,
    ):
        optimizer.zero_grad()
        model(x).sum().backward()
        model.weight.grad = replacement()
        optimizer.synchronize()
        assert model.weight.grad.tolist() == [[1.5] * 3]
        mine = torch.full((1, 3), 10.0)
        model.weight.grad = mine
        model(x).sum().backward()
        with optimizer.skip_synchronize():
            optimizer.synchronize()
        assert model.weight.grad.tolist() == [[11.5] * 3]


@pytest.mark.ranks(2)
@pytest.mark.filterwarnings("ignore:Using backward")
def test_create_graph(hvd, rank, world):
    """A gradient that has a graph keeps it, and is reduced where it lies."""

    def run():
        model = nn.Linear(3, 1)
        nn.init.constant_(model.weight, 0.5)
        nn.init.constant_(model.bias, 0.0)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for number in range(4):
            optimizer.zero_grad()
            loss = model(torch.full((2, 3), rank + 1.0)).pow(2).mean()
            loss.backward(create_graph=number % 2 == 1)
            assert (model.weight.grad.grad_fn is not None) == (number % 2 == 1)
            optimizer.synchronize()
            assert is_shared(model.weight.grad) == (number % 2 == 0) or not sharing
            for parameter in model.parameters():
                parameter.grad = parameter.grad.detach()
            with optimizer.skip_synchronize():
                optimizer.step()
        return model

    sharing = True
    shared = run()
    sharing = False
    with refused():
        assert bits_of(run()) == bits_of(shared)


@pytest.mark.ranks(2)
def test_to_and_load_state_dict(hvd, rank, world, buckets):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    all_batches = batches(6)
    step(model, optimizer, all_batches[0], rank, world)
    before = len(buckets.alive())
    model.load_state_dict(copy.deepcopy(model.state_dict()))
    optimizer.load_state_dict(optimizer.state_dict())
    step(model, optimizer, all_batches[1], rank, world)
    assert all_shared(model) and len(buckets.alive()) == before
    model.double()
    assert not any(is_shared(p.grad) for p in model.parameters())  # .to() has moved them
    for batch in all_batches[2:4]:
        optimizer.zero_grad()
        loss_of(model, (share(batch, rank, world)[0].double(), share(batch, rank, world)[1])).backward()
        optimizer.synchronize()
        assert all_shared(model) and all(p.grad.dtype == torch.float64 for p in model.parameters())
        for parameter in model.parameters():
            assert len(set(hvd.allgather_object(parameter.grad.sum().item()))) == 1
        for state in optimizer.state.values():
            state["momentum_buffer"] = state["momentum_buffer"].double()
        with optimizer.skip_synchronize():
            optimizer.step()
    assert len(buckets.alive()) == before
    model.float()
    optimizer.zero_grad()
    model.to(memory_format=torch.channels_last)
    loss_of(model, share(all_batches[4], rank, world)).backward()
    optimizer.synchronize()
    assert all_shared(model) and model[0].weight.grad.stride() == model[0].weight.stride()


@pytest.mark.ranks(2, 3)
def test_channels_last(hvd, rank, world):
    def make():
        torch.manual_seed(1)
        return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Conv2d(4, 4, 3), nn.Flatten(), nn.Linear(64, 3)).to(
            memory_format=torch.channels_last
        )

    shared = train(hvd, rank, world, model=make())
    assert all_shared(shared)
    weight = shared[1].weight
    assert not weight.is_contiguous() and weight.grad.stride() == weight.stride()
    with refused(after=0 if rank == 0 else 100):
        mixed = train(hvd, rank, world, model=make())
    assert bits_of(mixed) == bits_of(shared)
    with refused():
        assert bits_of(train(hvd, rank, world, model=make())) == bits_of(shared)


@pytest.mark.ranks(2)
def test_ranks_with_other_layouts_are_told(hvd, rank, world):
    model = nn.Conv2d(3, 3, 3, bias=False)
    if rank == 1:
        model.to(memory_format=torch.channels_last)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    model(torch.ones(1, 3, 4, 4)).sum().backward()
    with pytest.raises(hvd.HorovodInternalError, match="allreduce.weight"):
        optimizer.step()


@pytest.mark.ranks(2)
def test_parameters_that_cannot_be_shared(hvd, rank, world):
    """Without elements, not dense, in a group, compressed: each goes from private memory, beside the others."""
    with torch.no_grad():
        spread = torch.ones(4, 6)[:, ::2]
    parameters = {
        "plain": nn.Parameter(torch.ones(5)),
        "empty": nn.Parameter(torch.ones(0, 3)),
        "spread": nn.Parameter(spread),
        "scalar": nn.Parameter(torch.tensor(1.0)),
        "turned": nn.Parameter(torch.ones(2, 3).t()),
    }
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(parameters.values(), lr=1.0), parameters.items())
    for number in range(3):
        optimizer.zero_grad()
        sum((rank + 1.0) * p.sum() for p in parameters.values()).backward()
        optimizer.step()
        for name, parameter in parameters.items():
            assert bool((parameter.grad == 1.5).all()) and bool((parameter == 1 - 1.5 * (number + 1)).all()), name
            assert is_shared(parameter.grad) == (name not in ("empty", "spread")), name
    for options in ({"groups": 2}, {"compression": hvd.Compression.fp16}):
        assert not any(is_shared(p.grad) for p in train(hvd, rank, world, **options).parameters())


@pytest.mark.ranks(2)
def test_sparse_gradients_that_travel_dense_come_back_sparse(hvd, rank, world):
    model = nn.Embedding(5, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), sparse_as_dense=True)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.tensor([rank])).sum().backward()
        optimizer.synchronize()
        assert model.weight.grad.is_sparse
        assert model.weight.grad.to_dense().sum(1).tolist() == [1, 1, 0, 0, 0]


@pytest.mark.ranks(2)
def test_compiled(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    compiled = torch.compile(model, backend="aot_eager")
    for batch in batches(3):
        optimizer.zero_grad()
        loss_of(compiled, share(batch, rank, world)).backward()
        optimizer.step()
    assert all_shared(model)
    plain = train(hvd, rank, world, steps=3)
    for a, b in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.ranks(2)
def test_copies_of_a_model(hvd, rank, world):
    model = train(hvd, rank, world)
    other = copy.deepcopy(model)
    gradients = copy.deepcopy([p.grad for p in model.parameters()])
    assert not any(is_shared(gradient) for gradient in gradients)
    assert all(torch.equal(a, p.grad) for a, p in zip(gradients, model.parameters()))
    loss_of(other, batches(1)[0]).backward()  # has no hooks
    again = train(hvd, rank, world, model=other)
    assert all_shared(again) and all_shared(model)
    addresses = [p.grad.data_ptr() for m in (model, again) for p in m.parameters()]
    assert len(set(addresses)) == len(addresses)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("code", REASONS)
def test_memory_is_refused(hvd, rank, world, caplog, code):
    with refused(after=1, code=code), caplog.at_level(logging.WARNING, logger="ronde"):
        model = nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2).double()])
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        for _ in range(3):
            optimizer.zero_grad()
            model[1](model[0](torch.ones(1, 2)).double()).sum().backward()
            optimizer.step()
    assert [is_shared(p.grad) for p in model.parameters()] == [True, True, False, False]
    (record,) = caplog.records
    assert "private memory" in record.message and "no room" in record.message


@pytest.mark.ranks(2)
def test_what_is_forgotten_harms_nothing(hvd, rank, world):
    """Reductions under way when their optimizer is restarted, or goes."""
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    for batch in batches(3):
        loss_of(model, share(batch, rank, world)).backward()
        flights = [unit.place for unit in optimizer._reducer._units]
        optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        hvd.barrier()
        while not all(place.slot.done() for place in flights):
            pass
    step(model, optimizer, batches(1)[0], rank, world)
    expected = train(hvd, rank, world, steps=1)
    assert bits_of(model) == bits_of(expected)
    loss_of(model, share(batches(1)[0], rank, world)).backward() if rank == 0 else None
    del optimizer, flights
    gc.collect()  # neither waits nor fails, though rank 1 has not come
    hvd.barrier()
    again = distributed(hvd, "sgd", model)
    if rank == 1:
        loss_of(model, share(batches(1)[0], rank, world)).backward()
        del again
    hvd.barrier()


@pytest.mark.ranks(2)
def test_an_interrupted_wait(hvd, rank, world, monkeypatch):
    """What it leaves under way is neither overwritten nor in the way of the next step."""
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    step(model, optimizer, batches(1)[0], rank, world)
    wait_for = _gradients.wait_for

    for waits_before in (False, True, False):

        def interrupted(*all_of_them, waits_before=waits_before):
            if waits_before:
                wait_for(*all_of_them)
            raise KeyboardInterrupt

        monkeypatch.setattr(_gradients, "wait_for", interrupted)
        optimizer.zero_grad()
        loss_of(model, share(batches(1)[0], rank, world)).backward()
        places = [unit.place for unit in optimizer._reducer._units]
        with pytest.raises(KeyboardInterrupt):
            optimizer.synchronize()
        hvd.barrier()
        while not all(place.slot.done() for place in places):
            pass
        hvd.barrier()
    monkeypatch.undo()
    step(model, optimizer, batches(2)[1], rank, world)
    assert all_shared(model)
    assert bits_of(model) == bits_of(train(hvd, rank, world, steps=2))


@pytest.mark.ranks(2, fresh=True)  # no optimizer of this job has dropped a pass: names are the program's
def test_one_that_is_still_under_way_is_not_overwritten(hvd, rank, world):
    parameter = nn.Parameter(torch.ones(1000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([parameter], lr=0.1), [("alone", parameter)])
    parameter.sum().backward()
    optimizer.step()
    hvd.barrier()
    if rank == 0:
        optimizer.zero_grad()
        (parameter * 2).sum().backward()  # the other rank has not come
        optimizer._reducer.restart()
        parameter.grad = None
        with pytest.raises(ValueError, match="allreduce.alone.*taken"):
            (parameter * 3).sum().backward()
        place = optimizer._reducer._units[0].place
        assert bool((place.view == 2).all()) and bool((parameter.grad == 3).all())
        optimizer._reducer.restart()
        hvd.barrier()
        while not place.slot.done():
            pass
        assert bool((place.view == 3).all())
        hvd.barrier()
    else:
        hvd.barrier()
        assert hvd.allreduce(torch.full((1000,), 4.0), name="alone")[0] == 3
        hvd.barrier()
    optimizer.zero_grad()
    (parameter * (rank + 1)).sum().backward()
    optimizer.synchronize()
    assert is_shared(parameter.grad) and bool((parameter.grad == 1.5).all())


@pytest.mark.ranks(2, fresh=True)
def test_errors_are_those_of_private_memory(hvd, rank, world):
    def mismatch():
        model = nn.Linear(2 + rank, 1, bias=False)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
        model(torch.ones(1, 2 + rank)).sum().backward()
        with pytest.raises(hvd.HorovodInternalError) as caught:
            optimizer.step()
        return type(caught.value), str(caught.value), caught.value.code, caught.value.tensor

    def duplicate():
        taken = hvd.allreduce_async(torch.ones(1, 2), name="taken")
        model = nn.Linear(2, 1, bias=False)
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), [("taken", model.weight)])
        with pytest.raises(ValueError) as caught:
            model(torch.ones(1, 2)).sum().backward()
        hvd.synchronize(taken)
        optimizer._reducer.restart()
        return type(caught.value), str(caught.value), caught.value.code, caught.value.tensor

    def told_by(fail):  # after a step that has failed, the next gradients are of another generation, submitted in step()
        return re.sub(r"generation \d of |:\d+", "", str(fail()))

    for fail in (mismatch, duplicate):
        shared = told_by(fail)
        with refused():
            assert told_by(fail) == shared


@pytest.mark.ranks(2, fresh=True)
def test_after_shutdown_and_after_another_init(hvd, rank, world, buckets):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    all_batches = batches(6)
    for number in range(0, 6, 2):
        step(model, optimizer, all_batches[number], rank, world)
        kept = [p.grad.clone() for p in model.parameters()]
        old = [p.grad for p in model.parameters()]
        assert all_shared(model)
        hvd.shutdown()
        assert all(torch.equal(a, b) for a, b in zip(kept, old))
        old[0].fill_(7.0)  # ordinary memory
        with pytest.raises(ValueError, match="not initialised"):
            optimizer.zero_grad()
            loss_of(model, share(all_batches[number], rank, world)).backward()
        hvd.init()
        optimizer.zero_grad()
        optimizer._reducer.restart()
        step(model, optimizer, all_batches[number + 1], rank, world)
        assert all_shared(model)
        assert not {g.data_ptr() for g in old} & {p.grad.data_ptr() for p in model.parameters()}
        assert bool((old[0] == 7.0).all())
        del old
    assert len(buckets.alive()) == 1
    expected = train(hvd, rank, world, steps=6)
    assert bits_of(model) == bits_of(expected)


class Squares(torch.utils.data.Dataset):
    """Knows the model, as some do, and looks at its gradients in the worker."""

    def __init__(self, model: nn.Module) -> None:
        self.model = model

    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        assert all(p.grad is None for p in self.model.parameters())
        self.model.zero_grad(set_to_none=False)
        return torch.tensor(float(index**2))


@pytest.mark.ranks(2)
def test_forked_children(hvd, rank, world):
    model = train(hvd, rank, world)
    before = [p.grad.clone() for p in model.parameters()]
    loader = torch.utils.data.DataLoader(Squares(model), batch_size=2, num_workers=2, multiprocessing_context="fork")
    assert torch.cat(list(loader)).tolist() == [float(i**2) for i in range(8)]
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            copy.deepcopy(model)
            pickle.dumps(model)
            del model
            gc.collect()
            code = 7
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert all_shared(model) and all(torch.equal(a, p.grad) for a, p in zip(before, model.parameters()))
    step(model, distributed(hvd, "sgd", model), batches(1)[0], rank, world)


@pytest.mark.ranks(2)
def test_forked_children_may_train_alone(hvd, rank, world):
    model = nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    child = os.fork()
    if child == 0:
        code = 1
        with contextlib.suppress(BaseException):
            model.zero_grad()
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            assert model.weight.grad.unique().tolist() == [rank + 1.0]
            torch.optim.SGD(model.parameters(), lr=0.1).step()
            with pytest.raises(ForkedError):
                optimizer.step()
            code = 7
        os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    optimizer.zero_grad()
    model(torch.full((1, 3), rank + 1.0)).sum().backward()
    optimizer.step()
    assert model.weight.grad.unique().tolist() == [(world + 1) / 2]
