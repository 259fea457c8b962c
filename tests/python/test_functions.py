"""The same start on every rank: parameters, optimizer state, objects."""

from __future__ import annotations

import collections

import pytest
import torch
from torch import nn

from test_optimizer_classes import CLASSES


@pytest.mark.ranks(1, 2, 3)
def test_broadcast_parameters(hvd, rank, world):
    def make(seed: int) -> nn.Module:
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))

    root = world - 1
    expected = make(root).state_dict()
    for form in (lambda m: m.state_dict(), lambda m: list(m.named_parameters()), lambda m: list(m.parameters())):
        model = make(rank)
        hvd.broadcast_parameters(form(model), root_rank=root)
        for name, value in model.state_dict().items():
            assert torch.equal(value, expected[name]), name
    for wrong in (model.named_parameters(), 5, None):
        with pytest.raises(ValueError, match="broadcast_parameters takes"):
            hvd.broadcast_parameters(wrong, 0)


@pytest.mark.ranks(2, 3)
def test_state_of_the_root_that_lies_as_no_other(hvd, rank):
    """Expanded it is sent whole; what cannot be sent is refused on all ranks at once."""
    p = torch.nn.Parameter(torch.zeros(5))
    optimizer = torch.optim.Adam([p], lr=0.1)
    p.grad = torch.full((5,), rank + 1.0)
    optimizer.step()
    if rank == 0:
        optimizer.state[p]["exp_avg_sq"] = torch.full((1,), 7.0).expand(5)
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.state[p]["exp_avg_sq"].tolist() == [7.0] * 5
    if rank == 0:
        optimizer.state[p]["exp_avg_sq"] = torch.eye(5).to_sparse()
    with pytest.raises(ValueError if rank == 0 else hvd.HorovodInternalError, match="layout torch.sparse_coo"):
        hvd.broadcast_optimizer_state(optimizer, 0)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()


OPTIMIZERS = {
    "sgd": lambda p, lr: torch.optim.SGD(p, lr=lr, momentum=0.9),
    "plain sgd": lambda p, lr: torch.optim.SGD(p, lr=lr),
    "adam": lambda p, lr: torch.optim.Adam(p, lr=lr, amsgrad=True),
    "adagrad": lambda p, lr: torch.optim.Adagrad(p, lr=lr),
    "rmsprop": lambda p, lr: torch.optim.RMSprop(p, lr=lr, centered=True),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", OPTIMIZERS)
@pytest.mark.parametrize("fresh", [True, False], ids=["others have no state", "others have other state"])
def test_broadcast_optimizer_state(hvd, rank, kind, fresh):
    torch.manual_seed(2)
    model = nn.Linear(3, 2)
    optimizer = OPTIMIZERS[kind](model.parameters(), 0.1 * (rank + 1))
    if rank == 0 or not fresh:
        for _ in range(rank + 2):
            optimizer.zero_grad()
            model(torch.full((1, 3), rank + 1.0)).sum().backward()
            optimizer.step()
    before = [parameter.detach().clone() for parameter in model.parameters()]
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters())), "the parameters were changed"
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.1)
    states = hvd.allgather_object(optimizer.state_dict())
    for state in states[1:]:
        assert state["param_groups"] == states[0]["param_groups"]
        assert state["state"].keys() == states[0]["state"].keys()
        for index, entries in states[0]["state"].items():
            for key, value in entries.items():
                other = state["state"][index][key]
                assert torch.equal(other, value) if isinstance(value, torch.Tensor) else other == value, key


@pytest.mark.ranks(1, 2)
def test_without_state_gradients_are_zeros_as_horovod_leaves_them(hvd, rank, world):
    for make in (lambda p: torch.optim.SGD(p, lr=0.1), lambda p: torch.optim.Adam(p, lr=0.1)):
        for wrap in (lambda optimizer: optimizer, hvd.DistributedOptimizer):
            model = nn.Linear(3, 2).double()
            model.bias.requires_grad_(False)
            before = model.weight.detach().clone()
            optimizer = wrap(make(model.parameters()))
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
            assert torch.equal(model.weight.grad, torch.zeros(2, 3, dtype=torch.float64))
            assert model.bias.grad is None
            assert torch.equal(model.weight, before), "nothing was stepped"
            model(torch.full((1, 3), rank + 1.0).double()).sum().backward()  # without zero_grad()
            optimizer.step()
    table = nn.Embedding(8, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam(table.parameters(), lr=0.1))
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert table.weight.grad.is_sparse and not table.weight.grad.to_dense().any()
    table(torch.tensor([rank])).sum().backward()
    optimizer.step()


FUSED = {
    "Adam": lambda p: torch.optim.Adam(p, 0.01, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, 0.01, fused=True, amsgrad=True),
    "SGD": lambda p: torch.optim.SGD(p, 0.01, momentum=0.9, fused=True),
    "Adagrad": lambda p: torch.optim.Adagrad(p, 0.01, fused=True),
}


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("who_has_state", ["root", "all"])
@pytest.mark.parametrize("name", FUSED)
def test_state_lies_in_memory_as_its_parameter_does(hvd, rank, name, who_has_state):
    """Fused optimizers take parameter, gradient and state as they lie."""
    inputs = torch.randn(8, 3, 6, 6, generator=torch.Generator().manual_seed(1)).double()

    def steps(model, optimizer, count):
        for _ in range(count):
            optimizer.zero_grad()
            model(inputs).square().mean().backward()
            optimizer.step()

    def made():
        torch.manual_seed(0)
        return nn.Conv2d(3, 4, 3).double()

    expected = made()
    steps(expected, FUSED[name](expected.parameters()), 6)
    found = []
    for order in (torch.channels_last, torch.contiguous_format):
        model = made().to(memory_format=order)
        optimizer = FUSED[name](model.parameters())
        if rank == 0 or who_has_state == "all":
            steps(model, optimizer, 3)
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        hvd.broadcast_parameters(model.state_dict(), 0)
        hvd.broadcast_optimizer_state(optimizer, 0)
        strides = {value.stride() for value in optimizer.state[model.weight].values() if value.dim() > 0}
        steps(model, optimizer, 3)
        found.append((strides, model.weight))
    for strides, weight in found:  # where no rank waits for another any more
        assert strides == {weight.stride()}
        torch.testing.assert_close(weight, expected.weight, rtol=1e-12, atol=1e-12)


@pytest.mark.ranks(2)
def test_who_has_state_keeps_its_gradients(hvd, rank):
    model = nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    if rank == 0:
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert model.weight.grad.eq(float(rank == 0)).all()
    assert len(optimizer.state) == 2


def assert_same_states(states: list[dict]) -> None:
    """Values and types of everything in the state_dict()s."""
    first = states[0]
    for state in states[1:]:
        assert repr(state["param_groups"]) == repr(first["param_groups"])
        assert state["state"].keys() == first["state"].keys()
        for index, entries in first["state"].items():
            assert state["state"][index].keys() == entries.keys()
            for key, value in entries.items():
                other = state["state"][index][key]
                if isinstance(value, torch.Tensor):
                    torch.testing.assert_close(other, value, rtol=0, atol=0, msg=lambda text, key=key: f"{key}: {text}")
                else:
                    assert other == value and type(other) is type(value), key


@pytest.mark.ranks(2)
@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", [name for name in CLASSES if name != "LBFGS"])
def test_state_of_every_optimizer(hvd, rank, name, dtype):
    """Also in types that load_state_dict() casts to: ranks whose states differ in type would drift apart."""
    sparse = name == "SparseAdam"
    model = nn.Embedding(4, 3, sparse=sparse).to(dtype)
    optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.25 * (rank + 1))
    for _ in range(rank + 1):
        optimizer.zero_grad()
        model(torch.tensor([rank, 2])).sum().backward()
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    assert optimizer.param_groups[0]["lr"] == 0.5
    assert_same_states(hvd.allgather_object(optimizer.state_dict()))


class Master(torch.optim.Optimizer):
    """Keeps float32 copies of its parameters, as mixed precision does."""

    @torch.no_grad()
    def step(self, closure=None):
        """Of SGD, on the copies."""
        for group in self.param_groups:
            for parameter in group["params"]:
                state = self.state[parameter]
                if not state:
                    state["master"] = parameter.float().clone()
                    state["more"] = [{"nested": torch.zeros(2, dtype=torch.float64)}]
                state["master"].sub_(parameter.grad.float(), alpha=group["lr"])
                parameter.copy_(state["master"])


@pytest.mark.ranks(2)
def test_state_of_another_type_than_its_parameter_stays_as_it_is(hvd, rank, world):
    """PyTorch's load_state_dict would round it."""
    for fresh in (False, True):
        parameter = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
        optimizer = Master([parameter], {"lr": 1e-4})
        if rank == 0 or not fresh:
            parameter.grad = torch.full((3,), rank + 1.0, dtype=torch.bfloat16)
            optimizer.step()
        master = optimizer.state[parameter].get("master")
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
        state = optimizer.state[parameter]
        assert state["master"].dtype == torch.float32
        assert torch.equal(state["master"], torch.ones(3) - 1e-4 * torch.ones(3))
        assert state["more"][0]["nested"].dtype == torch.float64
        if rank == 0:
            assert state["master"] is master


class Odd(torch.optim.Optimizer):
    """Has state and settings that are no tensors, and some that are."""

    def __init__(self, parameters, rank: int) -> None:
        settings = {"lr": torch.tensor(rank + 0.5), "betas": (rank, 0.5), "notes": [rank, "text", None]}
        super().__init__(parameters, settings)
        for parameter in self.param_groups[0]["params"]:
            self.state[parameter] = {
                "history": [rank, {"nested": torch.full((2,), float(rank))}],
                "flag": rank == 0,
                "nothing": None,
            }

    def step(self, closure=None):
        """Nothing."""


@pytest.mark.ranks(2, 3)
def test_state_that_is_no_tensor(hvd, rank):
    optimizer = Odd(nn.Linear(2, 1).parameters(), rank)
    hvd.broadcast_optimizer_state(optimizer, root_rank=1)
    group = optimizer.param_groups[0]
    assert group["lr"] == 1.5 and group["betas"] == (1, 0.5) and group["notes"] == [1, "text", None]
    for entries in optimizer.state.values():
        assert entries["history"][0] == 1 and entries["history"][1]["nested"].tolist() == [1.0, 1.0]
        assert entries["flag"] is False and entries["nothing"] is None


@pytest.mark.ranks(2)
def test_state_of_other_parameters_is_refused(hvd, rank):
    model = nn.Linear(2, 1, bias=rank == 0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    if rank == 0:
        hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    else:
        with pytest.raises(ValueError, match="parameter group"):
            hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert hvd.allreduce(torch.ones(1)) == 1


@pytest.mark.ranks(2)
def test_broadcast_state_of_a_distributed_optimizer(hvd, rank):
    model = nn.Linear(3, 2)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam(model.parameters(), lr=0.1 + rank), model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.full((1, 3), rank + 1.0)).sum().backward()
        optimizer.step()
    rows = hvd.allgather(model.weight.detach().reshape(1, -1))
    assert torch.equal(rows[0], rows[1])
    with pytest.raises(ValueError, match="LBFGS"):
        hvd.broadcast_optimizer_state(torch.optim.LBFGS(model.parameters()), 0)


@pytest.mark.ranks(1, 2, 5)
def test_objects(hvd, rank, world):
    thing = {"rank": rank, "list": list(range(rank * 1000)), "tensor": torch.full((3,), float(rank)), "none": None}
    for root in range(world):
        received = hvd.broadcast_object(thing if rank == root else None, root_rank=root)
        assert received["rank"] == root and len(received["list"]) == root * 1000 and received["tensor"][0] == root
    everything = hvd.allgather_object(thing)
    assert [item["rank"] for item in everything] == list(range(world))
    assert [len(item["list"]) for item in everything] == [r * 1000 for r in range(world)]
    assert hvd.allgather_object(None, name="nothing") == [None] * world


class Unsendable:
    def __reduce__(self):
        raise RuntimeError("it has a lock")


@pytest.mark.ranks(2, 3)
def test_an_object_that_cannot_be_sent_fails_everywhere(hvd, rank, world):
    """Else the other ranks would get this rank's next object, from then on."""
    for turn in range(4):
        bad = turn in (1, 2)
        for root in range(world):
            mine = Unsendable() if bad and rank == root else {"turn": turn, "root": root}
            if not bad:
                assert hvd.broadcast_object(mine, root)["root"] == root
                continue
            with pytest.raises(RuntimeError, match="it has a lock" if rank == root else f"rank {root} could not send"):
                hvd.broadcast_object(mine, root)
        last = world - 1
        mine = Unsendable() if bad and rank == last else (turn, rank)
        if bad:
            with pytest.raises(RuntimeError, match="it has a lock" if rank == last else f"rank {last} could not send"):
                hvd.allgather_object(mine)
        else:
            assert hvd.allgather_object(mine) == [(turn, other) for other in range(world)]


@pytest.mark.ranks(2)
def test_state_of_an_optimizer_that_cannot_be_sent(hvd, rank, world):
    for turn in range(3):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(2))], lr=0.1 * (rank + 1 + turn))
        if turn == 1:
            optimizer.param_groups[0]["note"] = Unsendable()
            with pytest.raises(RuntimeError, match="it has a lock" if rank == 0 else "rank 0 could not send"):
                hvd.broadcast_optimizer_state(optimizer, 0)
        else:
            hvd.broadcast_optimizer_state(optimizer, 0)
            assert optimizer.param_groups[0]["lr"] == 0.1 * (1 + turn)


class SharedCounter(torch.optim.Optimizer):
    """Keeps one tensor in the state of all parameters."""

    @torch.no_grad()
    def step(self, closure=None):
        """By the count of steps."""
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        counter = next((s["count"] for s in self.state.values() if s), torch.zeros(1))
        for parameter in parameters:
            self.state[parameter]["count"] = counter
        counter += 1
        for parameter in parameters:
            parameter.sub_(self.state[parameter]["count"])


@pytest.mark.ranks(2)
@pytest.mark.parametrize("fresh", [False, True])
def test_what_is_one_tensor_in_several_places_stays_one(hvd, rank, world, fresh):
    parameters = [nn.Parameter(torch.zeros(1)) for _ in range(2)]
    optimizer = SharedCounter(parameters, {})
    if rank == 0 or not fresh:
        optimizer.step()
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    assert optimizer.state[parameters[0]]["count"] is optimizer.state[parameters[1]]["count"]
    lr = torch.tensor(0.1 + rank)
    optimizer = torch.optim.SGD([{"params": [p]} for p in parameters], lr=lr)
    hvd.broadcast_optimizer_state(optimizer, root_rank=0)
    first, second = (group["lr"] for group in optimizer.param_groups)
    assert first is second and first == torch.tensor(0.1)


class FlatMomentum(torch.optim.Optimizer):
    """Keeps all momentum in one buffer and shows views of it in its state, as fused optimizers do."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 0.1})
        listed = self.param_groups[0]["params"]
        self.flat = torch.zeros(sum(p.numel() for p in listed))
        for p, part in zip(listed, self.flat.split([p.numel() for p in listed])):
            self.state[p]["momentum"] = part.view_as(p)

    @torch.no_grad()
    def step(self, closure=None):
        listed = self.param_groups[0]["params"]
        self.flat.mul_(0.9).add_(torch.cat([p.grad.reshape(-1) for p in listed]))
        for p in listed:
            p.sub_(self.state[p]["momentum"], alpha=self.param_groups[0]["lr"])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("root", [0, 1])
def test_state_that_is_views_of_one_buffer_stays_so(hvd, rank, root):
    parameters = [nn.Parameter(torch.ones(2)), nn.Parameter(torch.ones(3, 2))]
    optimizer = hvd.DistributedOptimizer(FlatMomentum(parameters))
    optimizer.flat.fill_(float(rank))
    hvd.broadcast_optimizer_state(optimizer, root)
    assert optimizer.flat.tolist() == [float(root)] * 8
    for step in range(3):
        optimizer.zero_grad()
        sum(p.sum() for p in parameters).backward()
        optimizer.step()
    expected, momentum = 1.0, float(root)
    for step in range(3):
        momentum = 0.9 * momentum + 1
        expected -= 0.1 * momentum
    for p in parameters:
        torch.testing.assert_close(p.detach(), torch.full_like(p, expected))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("has_state", [True, False])
def test_a_learning_rate_that_the_program_changes_in_place_is_followed(hvd, rank, has_state):
    rate = torch.tensor(0.1 * (rank + 1))
    p = nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=rate, momentum=0.5))
    if has_state:
        p.sum().backward()
        optimizer.step()
    momentum = optimizer.state[p]["momentum_buffer"] if has_state else None
    hvd.broadcast_optimizer_state(optimizer, 0)
    assert optimizer.param_groups[0]["lr"] is rate and float(rate) == pytest.approx(0.1)
    assert not has_state or optimizer.state[p]["momentum_buffer"] is momentum
    rate.mul_(0.5)
    assert float(optimizer.param_groups[0]["lr"]) == pytest.approx(0.05)


@pytest.mark.ranks(2)
def test_state_of_other_types_arrives_as_it_is(hvd, rank):
    p = nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([p], lr=0.1)
    kept = collections.deque([rank], maxlen=3)
    counts = collections.defaultdict(int, a=rank)
    optimizer.state[p] = {"text": f"of {rank}", "recent": kept, "counts": counts, "pair": (rank, torch.full((1,), float(rank)))}
    hvd.broadcast_optimizer_state(optimizer, 1)
    state = optimizer.state[p]
    assert state["text"] == "of 1" and state["recent"] == collections.deque([1]) and state["recent"].maxlen == 3
    assert state["counts"] == {"a": 1} and state["counts"]["b"] == 0
    assert state["pair"] == (1, torch.ones(1))
