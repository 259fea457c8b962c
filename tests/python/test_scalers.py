"""``torch.amp.GradScaler``, and what programs derive from it, with distributed optimizers."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import nn



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


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("count", [1, 300000])
@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_a_closure_computes_gradients_behind_a_look(hvd, rank, world, op, count):
    """Each rank stepped with its own."""
    w = nn.Parameter(torch.zeros(count))
    plain = torch.optim.SGD([w], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, [(f"behind look.{op}.{count}", w)], op=getattr(hvd, op))
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale((w * 100).sum()).backward()
    scaler.unscale_(optimizer)

    def closure():
        optimizer.zero_grad()
        loss = (w * (rank + 1)).sum()
        loss.backward()
        return loss.detach()

    optimizer.step(closure)
    whole = world * (world + 1) / 2
    torch.testing.assert_close(w.detach(), torch.full((count,), -whole / (world if op == "Average" else 1)))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("way", ["scaler", "plain"])
@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_a_pass_behind_a_look_adds_to_averages_and_not_to_sums(hvd, rank, world, op, way):
    """What had been summed for the look was summed once more."""
    w = nn.Parameter(torch.zeros(3))
    plain = torch.optim.SGD([w], lr=1.0)
    optimizer = hvd.DistributedOptimizer(plain, [(f"adding behind look.{op}.{way}", w)], op=getattr(hvd, op))
    for _ in range(2):
        before = w.detach().clone()
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)

        def step(has_penalty):
            optimizer.zero_grad()
            scaler.scale((w * (rank + 1)).sum()).backward()
            scaler.unscale_(optimizer)
            if has_penalty:
                (w * 10 * (rank + 1)).sum().backward()
            scaler.step(optimizer) if way == "scaler" else optimizer.step()

        if op == "Sum":
            with pytest.raises(ValueError, match="a backward pass has come after a GradScaler had looked"):
                step(has_penalty=True)
            assert torch.equal(w.detach(), before)
            scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        step(has_penalty=op != "Sum")
        whole = world * (world + 1) / 2
        torch.testing.assert_close(w.detach(), before - (whole if op == "Sum" else 11 * whole / world))
