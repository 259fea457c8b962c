"""DistributedOptimizer around every optimizer of torch.optim, with GradScaler, schedulers and hooks of steps."""

from __future__ import annotations

import inspect
import math
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


# ---- GradScaler ----------------------------------------------------------------------------------------------------


class OwnScaler(torch.amp.GradScaler):
    """As programs derive from it, and PyTorch's ShardedGradScaler does: it looks at gradients in a module of its own."""

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        def gradients():
            return [parameter.grad for group in optimizer.param_groups for parameter in group["params"]]

        found = found_inf.clone()
        for gradient in gradients():
            if gradient is not None:
                gradient.mul_(inv_scale.to(gradient.dtype))
                found += (~torch.isfinite(gradient)).any().float()
        return {torch.device("cpu"): found.clamp(max=1.0)}


def plain_recipe(scaler, optimizer, model):
    scaler.step(optimizer)


def clipping_recipe(scaler, optimizer, model):
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 1e9)
    scaler.step(optimizer)


def explicit_recipe(scaler, optimizer, model):
    optimizer.synchronize()
    scaler.unscale_(optimizer)
    with optimizer.skip_synchronize():
        scaler.step(optimizer)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("recipe", [plain_recipe, clipping_recipe, explicit_recipe])
@pytest.mark.parametrize(
    "make_scaler, fused",
    [(torch.amp.GradScaler, False), (torch.amp.GradScaler, True), (OwnScaler, False)],
    ids=["", "fused", "own"],
)
def test_an_overflow_on_one_rank_is_skipped_by_all(hvd, rank, world, recipe, make_scaler, fused):
    torch.manual_seed(0)
    model = nn.Linear(3, 1, bias=False)
    start = model.weight.detach().clone()
    plain = torch.optim.SGD(model.parameters(), lr=0.5, fused=fused)
    optimizer = hvd.DistributedOptimizer(plain, model.named_parameters())
    scaler = make_scaler("cpu", init_scale=1024.0, growth_interval=1000)
    expected, scale = start.clone(), 1024.0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for step in range(5):
            overflows = step in (1, 3)
            optimizer.zero_grad()
            x = torch.full((1, 3), rank + 1.0)
            if overflows and rank == world - 1:
                x[0, 1] = math.inf
            scaler.scale(model(x).sum()).backward()
            recipe(scaler, optimizer, model)
            scaler.update()
            if overflows:
                scale /= 2
            else:
                expected -= 0.5 * (world + 1) / 2
            torch.testing.assert_close(model.weight.detach(), expected)
            assert scaler.get_scale() == scale
    # Without the scaler again, and with it switched off.
    off = torch.amp.GradScaler("cpu", enabled=False)
    for step in (optimizer.step, lambda: off.step(optimizer)):
        optimizer.zero_grad()
        model(torch.full((1, 3), rank + 1.0)).sum().backward()
        step()
        expected -= 0.5 * (world + 1) / 2
        torch.testing.assert_close(model.weight.detach(), expected)


@pytest.mark.ranks(2)
def test_a_scaler_after_a_skipped_step_of_a_rank_without_gradients(hvd, rank, world):
    model = nn.Linear(1, 1, bias=False)
    nn.init.zeros_(model.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=1.0), model.named_parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    for x in (math.inf, 4.0, math.inf, 4.0):
        optimizer.zero_grad()
        if rank == 0:  # the other takes no part in the backward pass, yet all step or none
            scaler.scale(model(torch.full((1, 1), x)).sum()).backward()
        else:
            scaler.scale(torch.zeros(1))
        scaler.step(optimizer)
        scaler.update()
    assert model.weight.item() == -4.0


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
    from ronde import _operation

    said = []
    fill = _operation.fill

    def spy(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, *more):
        if "layouts" not in name:
            said.append((reduce_op, prescale, postscale))
        return fill(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, *more)

    for module in ("ronde._operation.fill", "ronde._slot.fill"):
        monkeypatch.setattr(module, spy)
    model = Net(False)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), gradient_predivide_factor=4.0, groups=groups
    )
    nn.functional.cross_entropy(model(batch(0)[0]), batch(0)[1]).backward()
    optimizer.step()
    assert said == [(hvd.Average, 0.25, 4.0)] * (1 if groups == 1 else 2)


def skip_by_the_program(scaler, optimizer, step):
    # Behind synchronize() no rank asks the others, who may be at another optimizer: each must have gradients again.
    if step == 1:
        optimizer.synchronize()
    else:
        scaler.step(optimizer)
        scaler.update()


def scaler_throughout(scaler, optimizer, step):
    scaler.step(optimizer)
    scaler.update()


def scaler_at_first(scaler, optimizer, step):
    if step < 2:
        scaler_throughout(scaler, optimizer, step)
    else:
        optimizer.step()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("go_on", [scaler_throughout, skip_by_the_program, scaler_at_first])
def test_after_a_skipped_step_a_rank_without_gradients_takes_part(hvd, rank, world, go_on):
    """Gradients are zeroed through the model, of which the optimizer hears nothing."""
    w = nn.Parameter(torch.zeros(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("skipped", w)])
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    expected = torch.zeros(2)
    for step in range(5):
        if w.grad is not None:
            w.grad.zero_()
        uses_scaler = go_on is not scaler_at_first or step < 2
        if step != 2 or rank == 0 or go_on is skip_by_the_program:
            overflows = go_on is not skip_by_the_program and step == 1 and rank == 0
            loss = (w * (step + 1)).sum() * (math.inf if overflows else 1.0)
            (scaler.scale(loss) if uses_scaler else loss).backward()
        elif uses_scaler:
            scaler.scale(torch.zeros(1))  # it counts the ranks' losses
            w.grad = torch.zeros(2) if w.grad is None else w.grad
        go_on(scaler, optimizer, step)
        if step != 1:
            expected -= (step + 1) / (world if step == 2 and go_on is not skip_by_the_program else 1)
        assert torch.allclose(w.detach(), expected), step


# ---- What the ranks differ in --------------------------------------------------------------------------------------


@pytest.mark.ranks(2, 3)
def test_the_recipe_with_synchronize_needs_no_order_of_optimizers(hvd, rank, world):
    made = []
    for name in ("a", "b"):
        p = nn.Parameter(torch.ones(3))
        made.append((p, hvd.DistributedOptimizer(torch.optim.SGD([p], lr=0.1), [(f"recipe.{name}", p)])))
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    for step in range(4):
        for _, optimizer in made:
            optimizer.zero_grad()
        scaler.scale(sum((p * (rank + 1)).sum() for p, _ in made)).backward()
        for _, optimizer in made if rank == 0 else reversed(made):
            optimizer.synchronize()
            scaler.unscale_(optimizer)
            with optimizer.skip_synchronize():
                scaler.step(optimizer)
        scaler.update()
    for p, _ in made:
        torch.testing.assert_close(p.detach(), torch.full((3,), 1 - 0.4 * (world + 1) / 2))


class WholeStepScaler(torch.amp.GradScaler):
    """As programs derive from it: a whole step in one method, which looks at the optimizer before the pass too."""

    def train(self, optimizer, loss_of, unscales):
        optimizer.zero_grad()
        for group in optimizer.param_groups:
            group["lr"] = 0.1
        self.scale(loss_of()).backward()
        if unscales:
            self.unscale_(optimizer)
        self.step(optimizer)
        self.update()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("unscales", [True, False])
def test_a_scaler_may_look_at_the_optimizer_before_the_pass(hvd, rank, world, unscales):
    v, w = nn.Parameter(torch.ones(20_000)), nn.Parameter(torch.ones(20_000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([v, w], lr=0.7))
    scaler = WholeStepScaler("cpu", init_scale=1024.0)
    for step in range(1, 7):
        scaler.train(optimizer, lambda: (v * (rank + 1)).sum() + (w * 2 * (rank + 1)).sum(), unscales)
        expected = 0.1 * step * (world + 1) / 2
        torch.testing.assert_close(v.detach(), torch.full_like(v, 1 - expected))
        torch.testing.assert_close(w.detach(), torch.full_like(w, 1 - 2 * expected))


class LoggingScaler(torch.amp.GradScaler):
    """Looks at the optimizer for the sake of its learning rate: on one rank after a step, and in update()."""

    def __init__(self, logs, enabled):
        super().__init__("cpu", init_scale=1024.0, enabled=enabled)
        self.logs = logs

    def step(self, optimizer, *args, **kwargs):
        result = super().step(optimizer, *args, **kwargs)
        self.optimizer = optimizer
        if self.logs:
            assert optimizer.param_groups[0]["lr"] == 0.1
        return result

    def update(self, new_scale=None):
        super().update(new_scale)
        assert self.optimizer.param_groups[0]["lr"] == 0.1


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("enabled", [True, False])
def test_a_scaler_that_looks_for_another_reason_waits_for_nobody(hvd, rank, world, enabled):
    p = nn.Parameter(torch.ones(20_000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=0.1))
    scaler = LoggingScaler(rank == 0, enabled)
    for step in range(5):
        p.grad = None
        scaler.scale((p * (rank + 1)).sum()).backward()
        scaler.step(optimizer)
        scaler.update()
        torch.testing.assert_close(p.detach(), torch.full_like(p, 1 - 0.1 * (step + 1) * (world + 1) / 2))


@pytest.mark.ranks(2, 3)
def test_two_scalers_for_one_optimizer(hvd, rank, world):
    """Each has a loss of its own, and a step that is skipped says nothing about the other's gradients."""
    p = nn.Parameter(torch.ones(20_000))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=0.1))
    scalers = [torch.amp.GradScaler("cpu", init_scale=1024.0) for _ in range(2)]
    expected = 1.0
    for step in range(6):
        for which, scaler in enumerate(scalers):
            p.grad = None
            overflows = which == 0 and step in (2, 3)
            loss = (p * (rank + 1) * (which + 1)).sum()
            scaler.scale(loss * (math.inf if overflows and rank == 0 else 1.0)).backward()
            scaler.step(optimizer)
            expected -= 0.0 if overflows else 0.1 * (which + 1) * (world + 1) / 2
            torch.testing.assert_close(p.detach(), torch.full_like(p, expected))
        for scaler in scalers:
            scaler.update()


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
