"""DistributedOptimizer around every optimizer of torch.optim, with schedulers and hooks of steps."""

from __future__ import annotations

import copy
import inspect
import warnings

import pytest
import torch
from torch import nn

from test_optimizer import assert_same_bits_on_all_ranks

#: All that the installed PyTorch has.
CLASSES = sorted(
    name
    for name, cls in vars(torch.optim).items()
    if inspect.isclass(cls) and issubclass(cls, torch.optim.Optimizer) and cls is not torch.optim.Optimizer
)
BATCH = 24  # divides by 1, 2, 3, 4 and 8 ranks
STEPS = 4


class Net(nn.Module):
    """Two layers without biases, since Muon takes matrices only; the first a table for SparseAdam."""

    def __init__(self, sparse: bool) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.table = nn.EmbeddingBag(10, 6, mode="sum", sparse=sparse)
        self.out = nn.Linear(6, 3, bias=False)
        self.double()

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.out(torch.tanh(self.table(words)))

    def trained(self, sparse: bool) -> list[nn.Parameter]:
        return [self.table.weight] if sparse else list(self.parameters())


def batch(step: int, first: int = 0, last: int = BATCH) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(step)
    words = torch.randint(0, 10, (BATCH, 4), generator=generator)
    labels = torch.randint(0, 3, (BATCH,), generator=generator)
    return words[first:last], labels[first:last]


def train(name: str, first: int, last: int, wrap) -> Net:
    cls = getattr(torch.optim, name)
    sparse = name == "SparseAdam"
    model = Net(sparse)
    # Few iterations: it magnifies how sums are rounded.
    settings = {"line_search_fn": "strong_wolfe", "max_iter": 4} if name == "LBFGS" else {}
    optimizer = wrap(cls(model.trained(sparse), **settings))
    for step in range(STEPS):
        words, labels = batch(step, first, last)

        def closure(words=words, labels=labels):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(model(words), labels)
            loss.backward()
            return loss

        if name == "LBFGS":
            optimizer.step(closure)
        else:
            closure()
            optimizer.step()
    return model


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("name", CLASSES)
def test_equals_a_serial_run(hvd, rank, world, name):
    model = train(name, rank * BATCH // world, (rank + 1) * BATCH // world, hvd.DistributedOptimizer)
    serial = train(name, 0, BATCH, lambda optimizer: optimizer)
    for a, b in zip(model.parameters(), serial.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
    assert not torch.equal(model.table.weight, Net(False).table.weight), "nothing was learnt"
    assert_same_bits_on_all_ranks(hvd, model)


def test_all_classes_are_walked_over():
    assert {"SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "LBFGS", "SparseAdam"} <= set(CLASSES)


@pytest.mark.ranks(2)
def test_lbfgs_without_a_closure(hvd):
    optimizer = hvd.DistributedOptimizer(torch.optim.LBFGS(nn.Linear(2, 1).parameters()))
    with pytest.raises(TypeError, match="closure"):
        optimizer.step()


# ---- Schedulers and hooks ------------------------------------------------------------------------------------------


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("wrap_first", [True, False], ids=["wrapped before", "wrapped after"])
def test_schedulers(hvd, rank, world, wrap_first):
    model = nn.Linear(2, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    if wrap_first:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    schedulers = [
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda epoch: 0.5**epoch),
        torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, factor=0.1, patience=0),
    ]
    if not wrap_first:
        optimizer = hvd.DistributedOptimizer(optimizer, model.named_parameters())
    rates = []
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.full((1, 2), rank + 1.0)).sum().backward()
        optimizer.step()
        rates.append(optimizer.param_groups[0]["lr"])
        with warnings.catch_warnings():
            # Of a scheduler made before wrapping PyTorch believes that no step was taken.
            warnings.simplefilter("error" if wrap_first else "ignore")
            schedulers[0].step()
    schedulers[1].step(1.0)
    schedulers[1].step(2.0)
    assert rates == [1.0, 0.5, 0.25] and optimizer.param_groups[0]["lr"] == pytest.approx(0.0125)
    assert model.weight.tolist() == [[-1.75 * (world + 1) / 2] * 2]


@pytest.mark.ranks(1, 2)
def test_hooks_of_steps_are_called_once(hvd):
    model = nn.Linear(2, 1)
    plain = torch.optim.SGD(model.parameters(), lr=1.0)
    calls = []
    plain.register_step_pre_hook(lambda *_: calls.append("before"))
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    optimizer.register_step_post_hook(lambda *_: calls.append("after"))
    for _ in range(2):
        calls.clear()
        model(torch.ones(1, 2)).sum().backward()
        optimizer.step()
        assert calls == ["before", "after"]
        optimizer.load_state_dict(optimizer.state_dict())


# ---- Frozen parameters, process sets -------------------------------------------------------------------------------


@pytest.mark.ranks(2)
def test_a_frozen_parameter_in_a_group_is_left_alone(hvd, rank):
    model = nn.Linear(2, 1)
    model.bias.requires_grad_(False)
    kept = model.bias.clone()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.5), model.named_parameters(), groups=1
    )
    for frozen in (True, False, True):
        model.bias.requires_grad_(not frozen)
        optimizer.zero_grad()
        model(torch.full((1, 2), rank + 1.0)).sum().backward()
        optimizer.synchronize()
        assert model.weight.grad.tolist() == [[1.5, 1.5]]
        assert model.bias.grad is None if frozen else model.bias.grad.tolist() == [1.0]
        with optimizer.skip_synchronize():
            optimizer.step()
        assert torch.equal(model.bias, kept) == frozen
        kept = model.bias.detach().clone()


@pytest.mark.ranks(1, 2)
def test_the_global_process_set_may_be_named(hvd, rank, world):
    model = nn.Linear(1, 1, bias=False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), process_set=hvd.global_process_set
    )
    model(torch.full((1, 1), rank + 1.0)).sum().backward()
    optimizer.synchronize()
    assert model.weight.grad.item() == (world + 1) / 2


@pytest.mark.ranks(3)
def test_lbfgs_within_a_process_set(hvd, rank):
    ends = hvd.add_process_set([0, 2])
    half = BATCH // 2
    share = {0: (0, half), 1: (0, BATCH), 2: (half, BATCH)}[rank]
    model = train("LBFGS", *share, lambda optimizer: hvd.DistributedOptimizer(optimizer, process_set=ends))
    serial = train("LBFGS", 0, BATCH, lambda optimizer: optimizer)
    for a, b in zip(model.parameters(), serial.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-8)
    hvd.remove_process_set(ends)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("groups", [0, 1, 2], ids=["alone", "one group", "two groups"])
def test_predivide_factors_reach_the_reduction(hvd, rank, monkeypatch, groups):
    """No value shows them, unless it overflows."""
    from ronde import _operation, _slot

    said = []
    fill, submit = _slot.fill, _operation.submit

    def note(name, reduce_op, prescale, postscale):
        if "layouts" not in name and not name.startswith("step "):
            said.append((reduce_op, prescale, postscale))

    def spy(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, *more):
        note(name, reduce_op, prescale, postscale)
        return fill(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, *more)

    def spy_submit(op, name, *more, reduce_op, prescale, postscale, **settings):
        note(name, reduce_op, prescale, postscale)
        return submit(op, name, *more, reduce_op=reduce_op, prescale=prescale, postscale=postscale, **settings)

    monkeypatch.setattr(_slot, "fill", spy)
    monkeypatch.setattr(_operation, "submit", spy_submit)
    model = Net(False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), gradient_predivide_factor=4.0, groups=groups
    )
    nn.functional.cross_entropy(model(batch(0)[0]), batch(0)[1]).backward()
    optimizer.step()
    assert said == [(hvd.Average, 0.25, 4.0)] * (1 if groups == 1 else 2)


@pytest.mark.ranks(2)
def test_groups_added_to_several_optimizers_have_names_of_their_own(hvd, rank, world):
    made = []
    for name in ("added.a", "added.b"):
        first, second = (nn.Parameter(torch.ones(3)) for _ in range(2))
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD([first], lr=0.1), [(name, first)])
        optimizer.add_param_group({"params": [second]})
        made.append((optimizer, first, second))
    for step in range(3):
        for optimizer, _, _ in made:
            optimizer.zero_grad()
        sum(((first + 2 * second) * (rank + 1)).sum() for _, first, second in made).backward()
        for optimizer, _, _ in made:
            optimizer.step()
    for _, first, second in made:
        torch.testing.assert_close(first.detach(), torch.full((3,), 1 - 0.45))
        torch.testing.assert_close(second.detach(), torch.full((3,), 1 - 0.9))


class Averaged(torch.optim.Optimizer):
    """Wraps another optimizer and shows that one's groups and state, as programs' own wrappers do."""

    def __init__(self, base):
        self.base = base

    param_groups = property(lambda self: self.base.param_groups)
    state = property(lambda self: self.base.state)
    defaults = property(lambda self: self.base.defaults)

    def zero_grad(self, set_to_none=True):
        self.base.zero_grad(set_to_none)

    def state_dict(self):
        return self.base.state_dict()

    def load_state_dict(self, state):
        self.base.load_state_dict(state)

    def step(self, closure=None):
        return self.base.step(closure)


@pytest.mark.ranks(2, 3)
def test_a_class_whose_groups_are_a_property(hvd, rank, world):
    p = nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(Averaged(torch.optim.SGD([p], lr=0.1, momentum=0.9)), [("wrapped", p)])
    expected, momentum = 1.0, 0.0
    for step in range(4):
        optimizer.zero_grad()
        (p * (rank + 1)).sum().backward()
        optimizer.step()
        momentum = 0.9 * momentum + (world + 1) / 2
        expected -= 0.1 * momentum
        torch.testing.assert_close(p.detach(), torch.full((3,), expected))
        hvd.broadcast_optimizer_state(optimizer, 0)


@pytest.mark.ranks(2)
def test_such_a_class_follows_its_learning_rate_after_loading(hvd, rank, world):
    p = nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(Averaged(torch.optim.SGD([p], lr=0.1)), [("follows", p)])
    hvd.broadcast_optimizer_state(optimizer, 0)
    optimizer.load_state_dict(optimizer.state_dict())
    for group in optimizer.param_groups:
        group["lr"] = 0.5
    p.sum().backward()
    optimizer.step()
    torch.testing.assert_close(p.detach(), torch.full((3,), 0.5))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("start, then", [(torch.float32, torch.float64), (torch.float64, torch.float32)])
def test_a_model_that_changes_its_type_keeps_whole_gradients(hvd, rank, world, start, then):
    model = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(3)]).to(start)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.0), named_parameters=model.named_parameters()
    )
    model.to(then)
    for step in range(6):
        optimizer.zero_grad()
        sum((p * (step * 100 + i * 10 + rank + 1)).sum() for i, p in enumerate(model.parameters())).backward()
        optimizer.synchronize()
        for i, p in enumerate(model.parameters()):
            expected = sum(step * 100 + i * 10 + each + 1 for each in range(world)) / world
            assert torch.equal(p.grad, torch.full_like(p, expected)), (step, i)
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", ["place", "group", "groups", "fp16", "set", "Adasum"])
def test_deep_copies_step_with_the_gradients_of_all_ranks(hvd, rank, world, kind):
    """Of the parameters that were copied with them, from the same state; what was copied goes on by itself."""
    model = torch.nn.Sequential(torch.nn.Linear(2, 2, dtype=torch.float64), torch.nn.Linear(2, 1, dtype=torch.float64))
    for parameter in model.parameters():
        torch.nn.init.constant_(parameter, 0.5)
    parameters = list(model.parameters())
    options = {"op": hvd.Adasum if kind == "Adasum" else hvd.Sum, "backward_passes_per_step": 1 if kind == "Adasum" else 2}
    options.update({"group": {"groups": 1}, "groups": {"groups": [parameters[1:3]]}}.get(kind, {}))
    if kind == "fp16":
        options["compression"] = hvd.Compression.fp16
    some = hvd.add_process_set([0, world - 1]) if kind == "set" and world > 2 else None
    if some is not None:
        options["process_set"] = some
    base = torch.optim.SGD(model.parameters(), lr=0.25, momentum=0.5)
    optimizer = hvd.DistributedOptimizer(base, model.named_parameters(prefix="copied"), **options)
    extra = torch.nn.Parameter(torch.ones(2, dtype=torch.float64))
    model.register_parameter("extra", extra)
    optimizer.add_param_group({"params": [extra], "lr": 0.5})

    def steps(model, optimizer, seed):
        for step in range(seed, seed + 2):
            optimizer.zero_grad()
            for _ in range(options["backward_passes_per_step"]):
                loss = model(torch.full((1, 2), step + 2.0 ** -rank, dtype=torch.float64)).sum() / 16 + model.extra.sum()
                loss.backward()
            optimizer.step()
        return [parameter.detach().clone() for parameter in model.parameters()]

    steps(model, optimizer, 0)
    other, copied = copy.deepcopy((model, optimizer))
    assert type(copied).__bases__ == type(optimizer).__bases__ and copied.param_groups[0]["params"][0] is other[0].weight
    for one, two in zip(steps(other, copied, 1), steps(model, optimizer, 1)):
        assert torch.equal(one, two)
    apart = steps(other, copied, 1)
    gathered = [hvd.allgather(parameter.reshape(1, -1)) for parameter in apart]
    if some is None:
        assert all(torch.equal(row, rows[0]) for rows in gathered for row in rows)
    assert not any(torch.equal(one, two) for one, two in zip(apart, model.parameters()))
    if some is not None:
        hvd.remove_process_set(some)


@pytest.mark.ranks(2)
def test_a_copy_of_the_optimizer_alone_has_parameters_of_its_own(hvd, world):
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("copied.alone", p)], op=hvd.Sum)
    copied = copy.deepcopy(optimizer)
    q = copied.param_groups[0]["params"][0]
    q.sum().backward()
    copied.step()
    assert q.tolist() == [-world] * 3 and p.tolist() == [0.0] * 3
