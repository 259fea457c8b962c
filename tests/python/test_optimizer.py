"""DistributedOptimizer against a serial run on the whole batch, and its rules."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn

BATCH = 48  # divides by 1, 2, 3, 4 and 8 ranks, and so does half of it


def make_model() -> nn.Module:
    torch.manual_seed(5)
    return nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(4 * 36, 16), nn.Tanh(), nn.Linear(16, 3)
    )


def batches(steps: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(9)
    return [
        (torch.randn(BATCH, 1, 8, 8, generator=generator), torch.randint(0, 3, (BATCH,), generator=generator))
        for _ in range(steps)
    ]


def share(batch, rank, world):
    return tuple(part[rank * BATCH // world : (rank + 1) * BATCH // world] for part in batch)


def loss_of(model, batch):
    return nn.functional.cross_entropy(model(batch[0]), batch[1])


def make_optimizer(kind: str, parameters) -> torch.optim.Optimizer:
    if kind == "sgd":
        return torch.optim.SGD(parameters, lr=0.1, momentum=0.9, weight_decay=1e-3)
    return torch.optim.Adam(parameters, lr=1e-3)


def train_serially(kind: str, steps: int) -> nn.Module:
    model = make_model()
    optimizer = make_optimizer(kind, model.parameters())
    for batch in batches(steps):
        optimizer.zero_grad()
        loss_of(model, batch).backward()
        optimizer.step()
    return model


def distributed(hvd, kind: str, model: nn.Module, **options):
    return hvd.DistributedOptimizer(make_optimizer(kind, model.parameters()), model.named_parameters(), **options)


def train(hvd, kind: str, rank: int, world: int, steps: int, **options) -> nn.Module:
    model = make_model()
    optimizer = distributed(hvd, kind, model, **options)
    for batch in batches(steps):
        optimizer.zero_grad()
        loss_of(model, share(batch, rank, world)).backward()
        optimizer.step()
    return model


def assert_same(model: nn.Module, other: nn.Module, **tolerance) -> None:
    for (name, a), (_, b) in zip(model.named_parameters(), other.named_parameters()):
        torch.testing.assert_close(a, b, msg=lambda text: f"{name}: {text}", **tolerance)


def assert_same_bits_on_all_ranks(hvd, model: nn.Module) -> None:
    for name, parameter in model.named_parameters():
        rows = hvd.allgather(parameter.detach().reshape(1, -1))
        assert all(torch.equal(rows[0], row) for row in rows), name


@pytest.mark.ranks(1)
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_one_rank_is_a_serial_run_bit_for_bit(hvd, rank, world, kind):
    assert_same(train(hvd, kind, rank, world, 8), train_serially(kind, 8), rtol=0, atol=0)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("kind", ["sgd", "adam"])
def test_equals_a_serial_run(hvd, rank, world, kind):
    model = train(hvd, kind, rank, world, 8)
    assert_same(model, train_serially(kind, 8), rtol=1e-3, atol=1e-5)
    assert_same_bits_on_all_ranks(hvd, model)


@pytest.mark.ranks(2)
@pytest.mark.parametrize(
    "options",
    [
        {"groups": 2},
        {"num_groups": 1},
        {"gradient_predivide_factor": 2.0},
        {"groups": 2, "gradient_predivide_factor": 2.0},
    ],
    ids=str,
)
def test_options_that_change_no_value(hvd, rank, world, options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = train(hvd, "sgd", rank, world, 5, **options)
    assert_same(model, train_serially("sgd", 5), rtol=1e-3, atol=1e-5)
    assert_same_bits_on_all_ranks(hvd, model)


@pytest.mark.ranks(2)
def test_groups_of_parameters(hvd, rank, world):
    model = make_model()
    first = [model[0].weight, model[3].bias]
    optimizer = distributed(hvd, "sgd", model, groups=[first])
    for batch in batches(4):
        optimizer.zero_grad()
        loss_of(model, share(batch, rank, world)).backward()
        optimizer.step()
    assert_same(model, train_serially("sgd", 4), rtol=1e-3, atol=1e-5)
    with pytest.raises(ValueError, match="overlap"):
        distributed(hvd, "sgd", make := make_model(), groups=[[make[0].weight], [make[0].weight]])
    for wrong in (-1, "two", [model[0].weight]):
        with pytest.raises(ValueError, match="groups"):
            distributed(hvd, "sgd", model, groups=wrong)


@pytest.mark.ranks(2)
def test_fp16_compression(hvd, rank, world):
    model = train(hvd, "sgd", rank, world, 5, compression=hvd.Compression.fp16)
    assert_same(model, train_serially("sgd", 5), rtol=0.05, atol=5e-3)
    assert_same_bits_on_all_ranks(hvd, model)


@pytest.mark.ranks(2)
def test_sum(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model, op=hvd.Sum)
    batch = batches(1)[0]
    (loss_of(model, share(batch, rank, world)) / world).backward()
    optimizer.step()
    assert_same(model, train_serially("sgd", 1), rtol=1e-3, atol=1e-5)


@pytest.mark.ranks(1, 2)
def test_backward_passes_per_step(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model, backward_passes_per_step=2)
    for batch in batches(4):
        optimizer.zero_grad()
        mine = share(batch, rank, world)
        half = len(mine[0]) // 2
        for part in (slice(None, half), slice(half, None)):
            (loss_of(model, (mine[0][part], mine[1][part])) / 2).backward()
        optimizer.step()
    assert_same(model, train_serially("sgd", 4), rtol=1e-3, atol=1e-5)
    optimizer.set_backward_passes_per_step(1)
    optimizer.zero_grad()
    loss_of(model, share(batches(1)[0], rank, world)).backward()
    optimizer.step()
    assert_same_bits_on_all_ranks(hvd, model)


@pytest.mark.ranks(2)
def test_one_backward_pass_too_many(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    batch = share(batches(1)[0], rank, world)
    loss_of(model, batch).backward()
    with pytest.raises(AssertionError, match="backward_passes_per_step"):
        loss_of(model, batch).backward()
    optimizer.synchronize()
    assert_same_bits_on_all_ranks(hvd, model)


@pytest.mark.ranks(2)
def test_skip_synchronize_and_clip(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    serial = make_model()
    plain = make_optimizer("sgd", serial.parameters())
    for batch in batches(4):
        plain.zero_grad()
        loss_of(serial, batch).backward()
        nn.utils.clip_grad_norm_(serial.parameters(), 0.1)
        plain.step()
        optimizer.zero_grad()
        loss_of(model, share(batch, rank, world)).backward()
        optimizer.synchronize()
        nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            with optimizer.skip_synchronize():
                optimizer.step()
    assert_same(model, serial, rtol=1e-3, atol=1e-5)
    loss_of(model, share(batches(1)[0], rank, world)).backward()
    optimizer.synchronize()
    with pytest.warns(UserWarning, match=r"optimizer.step\(\) called without optimizer.skip_synchronize\(\)"):
        optimizer.step()


@pytest.mark.ranks(2)
def test_zero_grad_rules(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    loss_of(model, share(batches(1)[0], rank, world)).backward()
    with pytest.raises(AssertionError, match="zero_grad"):
        optimizer.zero_grad()
    optimizer.step()
    optimizer.zero_grad(set_to_none=False)
    assert all(not parameter.grad.any() for parameter in model.parameters())
    optimizer.zero_grad()
    assert all(parameter.grad is None for parameter in model.parameters())


class Forked(nn.Module):
    """Uses one of two branches; the other's parameters get no gradient."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.left, self.right, self.frozen = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(4, 2)
        self.frozen.requires_grad_(False)

    def forward(self, x: torch.Tensor, left: bool) -> torch.Tensor:
        return (self.left if left else self.right)(x)


@pytest.mark.ranks(2, 3)
def test_parameters_not_used_on_every_rank(hvd, rank, world):
    model = Forked()
    frozen = copy.deepcopy(model.frozen)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.ones(2, 4), left=rank == 0).sum().backward()
        optimizer.step()
        torch.testing.assert_close(model.left.bias.grad, torch.full((2,), 2.0 / world))
        torch.testing.assert_close(model.right.bias.grad, torch.full((2,), 2.0 * (world - 1) / world))
    assert_same_bits_on_all_ranks(hvd, model)
    assert_same(model.frozen, frozen, rtol=0, atol=0)


@pytest.mark.ranks(1, 2)
def test_closure(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    for batch in batches(4):
        mine = share(batch, rank, world)

        def closure(mine=mine):
            optimizer.zero_grad()
            loss = loss_of(model, mine)
            loss.backward()
            return loss

        assert optimizer.step(closure).item() > 0
    assert_same(model, train_serially("sgd", 4), rtol=1e-3, atol=1e-5)


@pytest.mark.ranks(2)
def test_closure_that_only_computes_the_loss(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model, op=hvd.Sum)
    batch = share(batches(1)[0], rank, world)
    loss = loss_of(model, batch) / world
    loss.backward()
    optimizer.step(lambda: loss)  # reduced once, not twice
    assert_same(model, train_serially("sgd", 1), rtol=1e-3, atol=1e-5)


@pytest.mark.ranks(1, 2)
def test_it_is_the_optimizer_it_wraps(hvd, world):
    model = make_model()
    plain = torch.optim.Adam(model.parameters(), lr=0.5)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.1)  # before wrapping
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    assert isinstance(optimizer, torch.optim.Adam) and type(optimizer).__name__ == "Adam"
    assert optimizer.state is plain.state and optimizer.param_groups is plain.param_groups
    assert sorted(optimizer._parameter_names.values()) == sorted(name for name, _ in model.named_parameters())
    after = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    loss_of(model, batches(1)[0]).backward()
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scheduler.step()
        after.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    optimizer.load_state_dict(optimizer.state_dict())
    assert optimizer.state is plain.state and optimizer.param_groups is plain.param_groups


@pytest.mark.ranks(2)
@pytest.mark.parametrize("which", ["wrapped", "plain"])
def test_a_scheduler_made_before_wrapping_works_on_after_a_broadcast(hvd, rank, which):
    model = make_model()
    plain = torch.optim.SGD(model.parameters(), lr=0.5 if rank == 0 else 0.25, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(plain, 1, gamma=0.1)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    hvd.broadcast_optimizer_state(optimizer if which == "wrapped" else plain, root_rank=0)
    assert optimizer.param_groups[0]["lr"] == plain.param_groups[0]["lr"] == 0.5
    loss_of(model, batches(1)[0]).backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.05)
    assert optimizer.state is plain.state and len(plain.state) == len(list(model.parameters()))


@pytest.mark.ranks(2)
def test_add_param_group(hvd, rank, world):
    model, more = nn.Linear(2, 2), nn.Linear(2, 2)
    hvd.broadcast_parameters(model.state_dict(), 0)
    hvd.broadcast_parameters(more.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), model.named_parameters())
    optimizer.add_param_group({"params": list(more.parameters())})
    more(model(torch.full((1, 2), rank + 1.0))).sum().backward()
    optimizer.step()
    assert_same_bits_on_all_ranks(hvd, model)
    assert_same_bits_on_all_ranks(hvd, more)


@pytest.mark.ranks(2)
def test_an_optimizer_that_is_gone_reduces_nothing(hvd, rank, world):
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    del optimizer
    batch = share(batches(1)[0], rank, world)
    before = hvd.allreduce(torch.ones(1), name="before")
    for _ in range(2):
        loss_of(model, batch).backward()
    assert before == 1 and model[0].weight.grad is not None


@pytest.mark.ranks(1, 2)
def test_wrong_arguments(hvd, world):
    model = make_model()
    plain = make_optimizer("sgd", model.parameters())
    named = list(model.named_parameters())
    for arguments, text in [
        (dict(named_parameters=list(model.parameters())), "pairs"),
        (dict(named_parameters=named + [("0.weight", torch.nn.Parameter(torch.ones(1)))]), "twice"),
        (dict(named_parameters=named[1:]), "lacks"),
        (dict(backward_passes_per_step=0), "backward_passes_per_step"),
        (dict(gradient_predivide_factor=2.0, op=hvd.Sum), "predivide"),
    ]:
        with pytest.raises(ValueError, match=text):
            hvd.DistributedOptimizer(plain, **arguments)


@pytest.mark.ranks(2)
def test_sparse_gradients_made_dense(hvd, rank, world):
    torch.manual_seed(1)
    model = nn.Embedding(5, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), sparse_as_dense=True)
    before = model.weight.detach().clone()
    model(torch.tensor([rank])).sum().backward()
    optimizer.step()
    expected = before.clone()
    expected[:2] -= 0.5
    torch.testing.assert_close(model.weight.detach(), expected)


@pytest.mark.ranks(2)
def test_communication_starts_during_backward(hvd, rank, world):
    """When the first layer's gradient is computed, the last layer's reduction is already under way."""
    model = make_model()
    optimizer = distributed(hvd, "sgd", model)
    under_way = []
    model[0].weight.register_hook(lambda gradient: under_way.append(optimizer._reducer.pending))
    loss_of(model, share(batches(1)[0], rank, world)).backward()
    assert under_way == [True]
    optimizer.step()


@pytest.mark.ranks(1, 2)
def test_what_programs_read_and_call_of_horovods(hvd, rank, world):
    """A gradient that a program reduces by itself, as copies of Horovod's optimizer do."""
    model, table = torch.nn.Linear(3, 1), torch.nn.Embedding(8, 1, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([*model.parameters(), *table.parameters()], lr=1.0),
        [(f"read and call.{i}", parameter) for i, parameter in enumerate([*model.parameters(), *table.parameters()])],
        gradient_predivide_factor=2.0,
        compression=hvd.Compression.fp16,
    )
    assert optimizer.op == hvd.Average and optimizer.process_set is hvd.global_process_set
    assert optimizer._compression is hvd.Compression.fp16 and optimizer.gradient_predivide_factor == 2.0
    assert optimizer.backward_passes_per_step == 1 and not optimizer.sparse_as_dense
    optimizer.set_backward_passes_per_step(2)
    assert optimizer.backward_passes_per_step == 2
    model.weight.grad = torch.full((1, 3), rank + 1.0)
    table.weight.grad = torch.sparse_coo_tensor([[rank]], [[1.0]], (8, 1))
    for parameter, expected in ((model.weight, [[(world + 1) / 2] * 3]), (model.bias, [0.0])):
        handle, context = optimizer._allreduce_grad_async(parameter)
        assert optimizer._compression.decompress(hvd.synchronize(handle), context).tolist() == expected
    finish, _ = optimizer._allreduce_grad_async(table.weight)
    assert finish().to_dense().flatten().tolist()[:world] == [1 / world] * world


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}, {"compression": "fp16"}])
def test_ranks_may_step_their_optimizers_in_any_order(hvd, rank, world, options):
    """All gradients are under way when the pass ends, on every rank; from the first step on."""
    if options.get("compression") == "fp16":
        options = {"compression": hvd.Compression.fp16}
    models = [nn.Linear(3, 2), nn.Linear(3, 2)]
    optimizers = []
    for i, model in enumerate(models):
        named = [(f"order.{i}.{name}", parameter) for name, parameter in model.named_parameters()]
        optimizers.append(hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), named, **options))
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.zero_()
    x = torch.full((1, 3), float(rank + 1))
    for step in range(3):
        sum(model(x).sum() for model in models).backward()
        for optimizer in optimizers if rank % 2 == 0 else optimizers[::-1]:
            optimizer.step()
            optimizer.zero_grad()
        expected = -(step + 1) * (world + 1) / 2
        for model in models:
            assert torch.allclose(model.weight, torch.full_like(model.weight, expected))


@pytest.mark.ranks(2, 3)
def test_a_closure_after_a_pass_on_one_rank(hvd, rank, world):
    """How often a rank synchronizes is the same on all, whatever has come before the closure."""
    w = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("closure.one", w)])

    def closure():
        w.grad = None
        loss = (w * (rank + 1)).sum()
        loss.backward()
        return loss

    for step in range(3):
        optimizer.zero_grad()
        if step == 1 and rank == 0:
            (w * 100).sum().backward()
        optimizer.step(closure)
        assert torch.allclose(w, torch.full((2,), -(step + 1) * (world + 1) / 2))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("options", [{}, {"sparse_as_dense": True}], ids=["", "dense"])
def test_ranks_may_list_their_parameters_in_any_order(hvd, rank, world, options):
    """They go by their names, also where the ranks tell each other which gradients are sparse, and where one has none."""
    names = ["a", "b", "c"]
    parameters = {name: nn.Parameter(torch.zeros(8, 2)) for name in names}
    order = names[rank % 3 :] + names[: rank % 3]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameters[name] for name in order], lr=1.0),
        [(f"listed.{name}", parameters[name]) for name in order],
        **options,
    )
    for step in range(3):
        optimizer.zero_grad()
        loss = nn.functional.embedding(torch.tensor([rank]), parameters["b"], sparse=True).sum() + parameters["a"].sum()
        if rank == 0 or step > 0:
            loss = loss + 2 * parameters["c"].sum()
        loss.backward()
        optimizer.step()
    assert torch.allclose(parameters["a"], torch.full((8, 2), -3.0))
    assert torch.allclose(parameters["c"], torch.full((8, 2), -2.0 * (2 + 1 / world)))
    expected = torch.zeros(8, 2)
    expected[:world] = -3.0 / world
    assert torch.allclose(parameters["b"], expected)


def add_to_the_wrapped(plain, optimizer, group):
    plain.add_param_group(group)


def replace_a_group(plain, optimizer, group):
    optimizer.add_param_group({"params": [nn.Parameter(torch.ones(1))]})
    del optimizer.param_groups[1]
    optimizer.add_param_group(group)


def begin_anew(plain, optimizer, group):
    first = optimizer.param_groups[0]["params"]
    optimizer.param_groups.clear()
    optimizer.add_param_group({"params": first})
    optimizer.add_param_group(group)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("op", ["Average", "Adasum"])
@pytest.mark.parametrize("add", [add_to_the_wrapped, replace_a_group, begin_anew])
def test_a_group_that_comes_later_is_reduced_too(hvd, rank, world, op, add):
    a, b = (nn.Parameter(torch.ones(3)) for _ in range(2))
    plain = torch.optim.SGD([a], lr=0.1)
    optimizer = hvd.DistributedOptimizer(plain, [("base.a", a)], op=getattr(hvd, op))
    add(plain, optimizer, {"params": [b]})
    for step in range(3):
        optimizer.zero_grad()
        ((a + b) * (rank + 1)).sum().backward()
        optimizer.step()
        for p in (a, b):
            torch.testing.assert_close(p.detach(), torch.full((3,), 1 - 0.1 * (step + 1) * (world + 1) / 2))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("is_skipped", [False, True])
def test_a_closure_that_synchronizes_by_itself(hvd, rank, world, is_skipped):
    """As Horovod wants it. Once is enough."""
    p = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("closed", p)], op=hvd.Sum)

    def closure():
        optimizer.zero_grad()
        (p * (rank + 1)).sum().backward()
        optimizer.synchronize()

    for step in range(3):
        if is_skipped:
            with optimizer.skip_synchronize():
                optimizer.step(closure)
        else:
            optimizer.step(closure)
        torch.testing.assert_close(p.detach(), torch.full((3,), -(step + 1) * world * (world + 1) / 2))
