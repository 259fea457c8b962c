"""Optimizers that go by the loss which a closure of ``step(closure)`` returns: all ranks go by the same."""

from __future__ import annotations

import contextlib
import functools
from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import nn

import ronde.torch


@pytest.mark.ranks(2)
def test_lbfgs_searches_by_the_sum_of_losses_where_gradients_are_added_up(hvd, rank, world):
    def train(make, losses):
        w = nn.Parameter(torch.tensor([1.0, -2.0]))
        optimizer = make(torch.optim.LBFGS([w], lr=0.5, max_iter=6, line_search_fn="strong_wolfe"), w)

        def closure():
            optimizer.zero_grad()
            loss = sum(((w - each) ** 4).sum() for each in losses)
            loss.backward()
            return loss

        for _ in range(3):
            optimizer.step(closure)
        return w.detach()

    expected = train(lambda optimizer, w: optimizer, [0.5, 1.5])
    summed = train(lambda optimizer, w: hvd.DistributedOptimizer(optimizer, [("lbfgs", w)], op=hvd.Sum), [0.5 + rank])
    assert torch.allclose(summed, expected, atol=1e-5)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("line_search", [None, "strong_wolfe"])
def test_a_loss_that_is_a_number_of_python_keeps_its_bits(hvd, rank, world, line_search):
    """LBFGS stops and searches by it: in float32 its evaluations were others than those of one process."""

    def train(make, ranks, name):
        x = nn.Parameter(torch.zeros(8, dtype=torch.float64))
        plain = torch.optim.LBFGS(
            [x], max_iter=40, line_search_fn=line_search, tolerance_change=1e-14, tolerance_grad=1e-12
        )
        optimizer = make(plain, x)
        evaluations = 0

        def closure():
            nonlocal evaluations
            evaluations += 1
            optimizer.zero_grad()
            loss = torch.zeros((), dtype=torch.float64)
            for each in ranks:
                generator = torch.Generator().manual_seed(each)
                a = torch.randn(30, 8, generator=generator, dtype=torch.float64)
                y = torch.randn(30, generator=generator, dtype=torch.float64)
                loss = loss + ((a @ x - y).pow(2).mean() + (a @ x).sin().mean()) / len(ranks)
            loss.backward()
            return loss.item()

        for _ in range(4):
            optimizer.step(closure)
        return x.detach(), evaluations

    expected, alone = train(lambda optimizer, x: optimizer, range(world), "")
    result, evaluations = train(lambda optimizer, x: hvd.DistributedOptimizer(optimizer, [("x", x)]), [rank], "x")
    assert abs(evaluations - alone) <= 2
    torch.testing.assert_close(result, expected, rtol=0, atol=1e-9)


class Polyak(torch.optim.Optimizer):
    """Steps by Polyak's rule (ALI-G of Berrada, Zisserman and Kumar, 2020): the loss over the gradient's square."""

    def __init__(self, parameters):
        super().__init__(parameters, {"lr": 100.0})

    def step(self, closure):
        with torch.enable_grad():
            loss = closure()
        own = [each for group in self.param_groups for each in group["params"]]
        with torch.no_grad():
            rate = float(loss) / float(sum((each.grad**2).sum() for each in own))
            for each in own:
                each -= rate * each.grad
        return loss


def targets_of(rank):
    return torch.linspace(0, 1 + rank, 4, dtype=torch.float64)


def start():
    return nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64))


def loss_of(w, targets):
    return sum(((torch.tanh(w) - each) ** 2).sum() for each in targets) / len(targets)


def trained(make, targets, as_number):
    w = start()
    optimizer = make(w)

    def closure():
        optimizer.zero_grad()
        loss = loss_of(w, targets)
        loss.backward()
        return loss.item() if as_number else loss

    losses = [optimizer.step(closure) for _ in range(4)]
    assert all(isinstance(each, float if as_number else torch.Tensor) for each in losses)
    return w.detach(), float(losses[-1])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("as_number", [False, True], ids=["tensor", "number"])
@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_other_optimizers_than_pytorchs_own_go_by_the_loss_of_all_ranks(hvd, rank, world, op, as_number):
    """Each went by its rank's own, and the ranks went apart."""

    def distributed(w):
        return hvd.DistributedOptimizer(Polyak([w]), [(f"polyak.{op}.{as_number}", w)], op=getattr(hvd, op))

    found, loss = trained(distributed, [targets_of(rank)], as_number)
    scale = world if op == "Sum" else 1
    expected, alone = trained(lambda w: Polyak([w]), [targets_of(each) for each in range(world)], as_number)
    torch.testing.assert_close(found, expected)  # by Polyak's rule the loss's scale does not matter
    assert loss == pytest.approx(scale * alone)
    assert all(torch.equal(each, found) for each in hvd.allgather(found[None]))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize(
    "make", [Polyak, functools.partial(torch.optim.LBFGS, line_search_fn="strong_wolfe")], ids=["polyak", "lbfgs"]
)
def test_a_closure_that_synchronizes_itself_within_skip_synchronize(hvd, rank, world, make):
    """Horovod's recipe for clipping: each rank went by its own loss."""

    def train(make, targets, synchronizes):
        w = start()
        optimizer = make(w)

        def closure():
            optimizer.zero_grad()
            loss = loss_of(w, targets)
            loss.backward()
            if synchronizes:
                optimizer.synchronize()
            nn.utils.clip_grad_norm_([w], 100.0)
            return loss

        for _ in range(4):
            with optimizer.skip_synchronize() if synchronizes else contextlib.nullcontext():
                optimizer.step(closure)
        return w.detach()

    expected = train(lambda w: make([w]), [targets_of(each) for each in range(world)], False)
    found = train(lambda w: hvd.DistributedOptimizer(make([w]), [("skipping", w)]), [targets_of(rank)], True)
    torch.testing.assert_close(found, expected)
    assert all(torch.equal(each, found) for each in hvd.allgather(found[None]))


class Twice(torch.optim.Optimizer):
    """Evaluates the loss without gradients around the pass that it steps by, as line searches do."""

    arguments = ("again",)  # of the last evaluation

    def step(self, closure):
        with torch.no_grad():
            closure()
        with torch.enable_grad():
            loss = closure()
        with torch.no_grad():
            closure(*self.arguments)
            for each in self.param_groups[0]["params"]:
                each -= 0.1 * each.grad
        return loss


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Average", "Sum", "Product"])
@pytest.mark.parametrize("way", ["backward", "synchronized", "zeroed", "replaced", "written"])
def test_evaluations_without_a_pass_reduce_nothing_again(hvd, rank, world, op, way):
    """A sum was added up once more in each of them; gradients that a closure sets by itself are new all the same."""
    w = nn.Parameter(torch.ones(3, dtype=torch.float64))
    optimizer = hvd.DistributedOptimizer(Twice([w], {}), [(f"twice.{op}.{way}", w)], op=getattr(hvd, op))
    steps = 0

    def closure(*arguments):
        assert arguments in ((), ("again",))
        mine = (torch.arange(3.0, dtype=torch.float64) + rank) * (steps + 1)
        loss = (w * mine).sum()
        if torch.is_grad_enabled() and way in ("backward", "synchronized"):
            optimizer.zero_grad()
            loss.backward()
            if way == "synchronized":
                optimizer.synchronize()
        elif torch.is_grad_enabled() and (way in ("zeroed", "replaced") or w.grad is None):
            if way == "zeroed":
                optimizer.zero_grad()
            [w.grad] = torch.autograd.grad(loss, [w])
        elif torch.is_grad_enabled():
            w.grad.copy_(torch.autograd.grad(loss, [w])[0])
        return loss

    expected = torch.ones(3, dtype=torch.float64)
    for step in range(4):
        if way in ("replaced", "written") and op != "Average" and step > 0:
            with pytest.raises(ValueError, match=f"has {way}.*gradients that were reduced already"):
                optimizer.step(closure)  # new ones or the old ones clipped?
            break
        optimizer.step(closure)
        each_ranks = torch.stack([torch.arange(3.0, dtype=torch.float64) + each for each in range(world)]) * (steps + 1)
        expected -= 0.1 * {"Average": torch.mean, "Sum": torch.sum, "Product": torch.prod}[op](each_ranks, 0)
        torch.testing.assert_close(w.detach(), expected)
        steps += 1


class Asking(torch.optim.Optimizer):
    """Only keeps what its closure returns."""

    seen = None

    def step(self, closure):
        with torch.enable_grad():
            self.seen = closure()


@pytest.mark.ranks(2)
def test_what_is_no_loss_and_what_a_loss_is_of_stay(hvd, rank, world):
    w = nn.Parameter(torch.tensor([2.0 + rank]))
    optimizer = hvd.DistributedOptimizer(Asking([w], {}), [("asking", w)])
    for each in (None, True, "text", torch.tensor(True), np.ones(2)):
        optimizer.step(lambda each=each: each)
        assert optimizer.seen is each
    optimizer.step(lambda: torch.tensor(3 + rank))
    assert optimizer.seen.item() == 3.5
    optimizer.step(lambda: (w**2).sum())
    assert optimizer.seen.item() == (4 + 9) / 2
    for differentiate in (lambda: torch.autograd.grad(optimizer.seen, w), optimizer.seen.backward):
        with pytest.raises(ValueError, match="differentiates the loss that the closure has returned"):
            differentiate()


@pytest.mark.ranks(2)
def test_what_pytorchs_own_optimizers_return_is_the_ranks_own_loss(hvd, rank, world):
    w = nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.Adam([w]), [("own", w)])

    def closure():
        optimizer.zero_grad()
        loss = (w - 1 - rank).square().sum()
        loss.backward()
        return loss

    assert optimizer.step(closure).item() == 3 * (1 + rank) ** 2


class Pair(NamedTuple):
    loss: object
    output: object


@pytest.mark.ranks(2)
def test_numbers_within_what_a_closure_returns_are_those_of_all_ranks(hvd, rank, world):
    """An optimizer that goes by the first of a pair went by its rank's own."""
    w = nn.Parameter(torch.tensor([2.0 + rank]))
    optimizer = hvd.DistributedOptimizer(Asking([w], {}), [("pairs", w)])
    output = torch.full((3 + rank,), float(rank))
    optimizer.step(lambda: ((w**2).sum(), output))
    assert type(optimizer.seen) is tuple and optimizer.seen[0].item() == (4 + 9) / 2 and optimizer.seen[1] is output
    optimizer.step(lambda: [float(rank), None, [rank]])
    assert optimizer.seen == [0.5, None, [0.5]]
    optimizer.step(lambda: Pair((w**2).sum(), output))
    assert type(optimizer.seen) is Pair and optimizer.seen.loss.item() == (4 + 9) / 2 and optimizer.seen.output is output
    optimizer.step(lambda: {"loss": torch.tensor([1.0 + rank]), "of": "text"})
    assert optimizer.seen["loss"].tolist() == [1.5] and optimizer.seen["of"] == "text"


class Changing(torch.optim.Optimizer):
    """Changes the gradients that it has got in place, and then looks at the loss again, as a clipping line search does."""

    def step(self, closure):
        own = self.param_groups[0]["params"]
        with torch.enable_grad():
            closure()
        nn.utils.clip_grad_norm_(own, 1.0)
        with torch.no_grad():
            closure()
            for each in own:
                each -= 0.1 * each.grad
        for each in own:
            each.grad *= 0.5  # which is of no pass either


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Average", "Sum", "Product"])
@pytest.mark.parametrize("looks_first", [False, True])
def test_what_the_optimizer_writes_to_gradients_is_not_reduced_again(hvd, rank, world, op, looks_first):
    """A sum that the optimizer had clipped was added up again in the next evaluation without a pass."""

    def train(make, ranks):
        w = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
        optimizer = make(w)
        for step in range(3):

            def closure(step=step):
                if torch.is_grad_enabled() and (step == 0 or not looks_first):
                    optimizer.zero_grad()
                    losses = [(w * (torch.arange(3.0, dtype=torch.float64) - each)).square().sum() for each in ranks]
                    if op == "Product":
                        gradients = [torch.autograd.grad(each, w)[0] for each in losses]
                        w.grad = functools.reduce(torch.mul, gradients)
                    else:
                        (sum(losses) / (len(ranks) if op == "Average" else 1)).backward()
                return torch.tensor(1.0)

            optimizer.step(closure)
        return w.detach()

    name = f"changing.{op}.{looks_first}"
    found = train(lambda w: hvd.DistributedOptimizer(Changing([w], {}), [(name, w)], op=getattr(hvd, op)), [rank])
    torch.testing.assert_close(found, train(lambda w: Changing([w], {}), range(world)))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Average", "Sum"])
@pytest.mark.parametrize("way", ["zeroed", "replaced", "written", "data", "numpy"])
@pytest.mark.parametrize("is_behind_a_pass", [False, True])
def test_gradients_that_a_closure_sets_are_reduced_behind_a_pass_too(hvd, rank, world, op, way, is_behind_a_pass):
    """Behind a backward pass before step() each rank stepped with its own."""

    def train(make, ranks):
        w = nn.Parameter(torch.tensor([1.0, -2.0, 3.0], dtype=torch.float64))
        optimizer = make(w)

        def loss():
            losses = [(w * (torch.arange(3.0, dtype=torch.float64) - each)).square().sum() for each in ranks]
            return sum(losses) / (len(ranks) if op == "Average" else 1)

        for _ in range(3):
            if is_behind_a_pass:
                optimizer.zero_grad()
                loss().backward()

            def closure():
                [gradient] = torch.autograd.grad(loss(), w)
                if way == "zeroed":
                    optimizer.zero_grad()
                if way == "replaced" or w.grad is None:
                    w.grad = gradient
                elif way == "written":
                    w.grad.copy_(gradient)
                elif way == "data":
                    w.grad.data.copy_(gradient)
                else:
                    w.grad.numpy()[:] = gradient.numpy()
                return loss().detach()

            optimizer.step(closure)
        return w.detach()

    name = f"setting.{op}.{way}.{is_behind_a_pass}"
    made = functools.partial(torch.optim.SGD, lr=0.02)
    if op == "Sum" and way != "zeroed":
        what = "replaced" if way == "replaced" else "written to"
        with pytest.raises(ValueError, match=f"has {what} gradients that were reduced already"):
            train(lambda w: hvd.DistributedOptimizer(made([w]), [(name, w)], op=hvd.Sum), [rank])
        return
    found = train(lambda w: hvd.DistributedOptimizer(made([w]), [(name, w)], op=getattr(hvd, op)), [rank])
    torch.testing.assert_close(found, train(lambda w: made([w]), range(world)))


@pytest.mark.ranks(2)
def test_gradients_of_which_nobody_can_say_whether_they_are_sums_are_refused(hvd, rank, world):
    w = nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=0.1), [("unknown", w)], op=hvd.Sum)
    w.sum().backward()
    optimizer.step()
    with pytest.raises(ValueError, match="were reduced already cannot be told.*zero_grad"):
        optimizer.step(lambda: torch.tensor(1.0))
    optimizer.zero_grad()
    before = w.detach().clone()
    optimizer.step(lambda: torch.tensor(1.0))
    assert torch.equal(w.detach(), before)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("op", ["Average", "Sum"])
@pytest.mark.parametrize("zeroes", ["none", "zero", "optimizer", "no"])
def test_a_pass_that_adds_to_sums_is_refused(hvd, rank, world, op, zeroes):
    """What was added up already was so once more. An average stays what it is."""
    w = nn.Parameter(torch.zeros(1))
    named = [(f"adding.{op}.{zeroes}", w)]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), named, op=getattr(hvd, op))
    (w * (rank + 1)).sum().backward()

    def closure():
        if zeroes == "none":
            w.grad = None
        elif zeroes == "zero":
            w.grad.zero_()
        elif zeroes == "optimizer":
            optimizer.zero_grad()
        for _ in range(2):
            optimizer.set_backward_passes_per_step(2)
            (w * (rank + 1) * 5.0).sum().backward()
        return w.detach()

    if op == "Sum" and zeroes == "no":
        with pytest.raises(ValueError, match="adds to gradients that were reduced already.*zero_grad"):
            optimizer.step(closure)
        return
    optimizer.step(closure)
    whole = sum(range(1, world + 1)) / (world if op == "Average" else 1)
    assert w.item() == pytest.approx(-(11 if zeroes == "no" else 10) * whole)


class OneBit(ronde.torch.Compressor):
    @staticmethod
    def compress(tensor):
        return tensor.sign() * tensor.abs().mean(), None

    @staticmethod
    def decompress(tensor, context):
        return tensor


@pytest.mark.ranks(2)
@pytest.mark.parametrize("made", [lambda kind: kind, lambda kind: kind()], ids=["class", "object"])
def test_gradients_that_are_written_and_cast_are_reduced_each_time(hvd, rank, world, made):
    w = nn.Parameter(torch.zeros(2))
    compression = made(hvd.Compression.fp16)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=1.0), [("cast", w)], compression=compression)
    for step in range(3):

        def closure(step=step):
            gradient = torch.full((2,), float(rank + step))
            if w.grad is None:
                w.grad = gradient
            else:
                w.grad.copy_(gradient)
            return gradient.sum()

        optimizer.step(closure)
    assert w.tolist() == [-(0.5 + 1.5 + 2.5)] * 2


@pytest.mark.ranks(2)
def test_what_a_compressor_has_made_is_not_compressed_again(hvd, rank, world):
    """In an evaluation without a pass: an average of averages is one, but what a compressor made of it was another."""
    seen = []

    class Looking(torch.optim.Optimizer):
        def step(self, closure):
            with torch.enable_grad():
                closure()
            seen.append(w.grad.clone())
            closure()
            seen.append(w.grad.clone())

    w = nn.Parameter(torch.zeros(3))
    target = torch.tensor([1.0, -2.0, 3.0]) if rank == 0 else torch.tensor([1.0, 2.0, -1.0])
    optimizer = hvd.DistributedOptimizer(Looking([w], {}), [("one bit", w)], compression=OneBit)

    def closure():
        loss = (w - target).square().sum()
        if torch.is_grad_enabled():
            optimizer.zero_grad()
            loss.backward()
        return loss

    with torch.no_grad():
        optimizer.step(closure)
    assert torch.equal(seen[0], seen[1])


@pytest.mark.ranks(2)
@pytest.mark.parametrize("op", ["Average", "Sum"])
def test_losses_in_a_dictionary_meet_by_key(hvd, rank, world, op):
    """They met in the order in which each rank had put them in."""
    w = nn.Parameter(torch.ones(1))
    optimizer = hvd.DistributedOptimizer(Asking([w], {}), [(f"keys.{op}", w)], op=getattr(hvd, op))
    losses = {"box": 100.0, "cls": torch.tensor(1.0), 3: {"a": 2}}
    optimizer.step(lambda: dict(reversed(losses.items())) if rank == 0 else losses)
    factor = world if op == "Sum" else 1
    assert list(optimizer.seen) == ([3, "cls", "box"] if rank == 0 else ["box", "cls", 3])
    assert (optimizer.seen["box"], optimizer.seen["cls"].item(), optimizer.seen[3]["a"]) == (100 * factor, factor, 2 * factor)


class LooksTwice(torch.optim.Optimizer):
    """With and without a backward pass; what is no number moves nothing."""

    def step(self, closure):
        closure(True)
        closure(False)
        with torch.no_grad():
            for each in self.param_groups[0]["params"]:
                each -= 0.1 * torch.nan_to_num(each.grad)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("what", ["nan", "scaled by one", "clipped"])
def test_sums_that_a_look_at_the_loss_leaves_are_not_added_up_again(hvd, rank, world, what):
    """They were if one of them had a NaN, or where the closure scaled them by 1."""
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    named = [(f"a.{what}", a), (f"b.{what}", b)]
    optimizer = hvd.DistributedOptimizer(LooksTwice([a, b], {}), named, op=hvd.Sum)

    def closure(backward):
        if backward:
            optimizer.zero_grad()
            ((a * (rank + 1)).sum() + (b * (float("nan") if what == "nan" else 1.0)).sum()).backward()
        elif what != "nan":
            for each in (a, b):
                each.grad.mul_(1.0 if what == "scaled by one" else 0.5)
        return torch.tensor(1.0)

    if what == "clipped":
        with pytest.raises(ValueError, match="has written to gradients that were reduced already"):
            optimizer.step(closure)
        return
    optimizer.step(closure)
    assert torch.equal(a.grad, torch.full((3,), world * (world + 1) / 2))


@pytest.mark.ranks(2)
def test_sums_that_a_pass_leaves_beside_new_ones_are_refused(hvd, rank, world):
    a, b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(LooksTwice([a, b], {}), [("left a", a), ("left b", b)], op=hvd.Sum)

    def closure(backward):
        if backward:
            optimizer.zero_grad()
            (a.sum() + b.sum()).backward()
        else:
            a.grad = None
            a.sum().backward()
        return torch.tensor(1.0)

    with pytest.raises(ValueError, match="some gradients anew, and left others that were reduced already"):
        optimizer.step(closure)


@pytest.mark.ranks(2)
def test_a_closure_that_zeroes_may_follow_a_step_without_one(hvd, rank, world):
    w = nn.Parameter(torch.ones(2))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([w], lr=0.1), [("following", w)], op=hvd.Sum)
    for zeroes in (lambda: optimizer.zero_grad(), lambda: w.grad.zero_(), lambda: setattr(w, "grad", None)):
        before = w.detach().clone()
        optimizer.zero_grad()
        (w * (rank + 1)).sum().backward()
        optimizer.step()

        def closure(zeroes=zeroes):
            zeroes()
            loss = (w * 10.0).sum()
            loss.backward()
            return loss

        optimizer.step(closure)
        torch.testing.assert_close(w.detach(), before - 0.1 * 3 - 0.1 * 20)
