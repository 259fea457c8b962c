"""Parameters that two optimizers have: both would reduce their gradients, in the same memory."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import nn


REFUSED = "another DistributedOptimizer, under other names or of another process set, has a parameter"


def wrapped(hvd, parameters, name, **options):
    named = [(f"{name}.{i}", parameter) for i, parameter in enumerate(parameters)]
    return hvd.DistributedOptimizer(torch.optim.SGD(parameters, lr=1.0), named, **options)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("groups", [None, 1])
def test_a_pass_that_comes_to_two_optimizers_is_refused(hvd, rank, world, groups):
    """Values differed from rank to rank, and from run to run."""
    shared, a, b = (nn.Parameter(torch.zeros(70000)) for _ in range(3))
    first = wrapped(hvd, [shared, a], f"shared.first.{groups}", groups=groups)
    second = wrapped(hvd, [shared, b], f"shared.second.{groups}", groups=groups)
    with pytest.raises(ValueError, match=REFUSED):
        ((shared + a + b).sum() * (rank + 1)).backward()
    del second
    for parameter in (shared, a, b):
        parameter.grad = None
    ((shared + a + b).sum() * (rank + 1)).backward()
    first.step()
    assert shared.unique().tolist() == [-1.5] and a.unique().tolist() == [-1.5]


@pytest.mark.ranks(4)
@pytest.mark.parametrize("local_first", [False, True])
def test_optimizers_of_two_process_sets_are_two_although_their_names_are_equal(hvd, rank, world, local_first):
    """One of the same names was taken for the other's successor, and means were of both sets."""
    sets = [hvd.add_process_set([0, 1]), hvd.add_process_set([2, 3])]
    w = nn.Parameter(torch.zeros(70000))
    options = [{}, {"process_set": sets[rank // 2]}]
    kept = [wrapped(hvd, [w], f"two sets.{local_first}", **each) for each in (options[::-1] if local_first else options)]
    with pytest.raises(ValueError, match=REFUSED):
        (w * (rank + 1)).sum().backward()
    optimizer = kept[local_first]
    kept.clear()
    gc.collect()  # the local one ends, which the error's traceback holds
    optimizer.synchronize()  # it may have begun
    optimizer.zero_grad()
    (w * (rank + 1)).sum().backward()
    optimizer.step()
    assert w.unique().tolist() == [-2.5]
    for each in sets:
        hvd.remove_process_set(each)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("in_cycle", [False, True])
def test_an_optimizer_may_take_the_place_of_another_under_other_names(hvd, rank, world, in_cycle):
    w = nn.Parameter(torch.zeros(3))
    gc.disable()
    try:
        for step in range(4):
            optimizer = wrapped(hvd, [w], f"in place.{in_cycle}.{step}")
            optimizer.itself = optimizer if in_cycle else None
            optimizer.zero_grad()
            (w * (rank + 1)).sum().backward()
            optimizer.step()
        assert w.tolist() == [-6.0] * 3
    finally:
        gc.enable()


@pytest.mark.ranks(2)
def test_optimizers_of_parameters_of_their_own_stay_apart(hvd, rank, world):
    parameters = [nn.Parameter(torch.zeros(3)) for _ in range(3)]
    optimizers = [wrapped(hvd, [each], f"apart.{i}") for i, each in enumerate(parameters)]
    (sum(parameters) * (rank + 1)).sum().backward()
    for optimizer in optimizers:
        optimizer.step()
    assert [each.tolist() for each in parameters] == [[-1.5] * 3] * 3


@pytest.mark.ranks(2)
@pytest.mark.parametrize("way", ["added", "base"])
def test_a_parameter_that_another_optimizer_is_given_later_is_refused(hvd, rank, world, way):
    shared, other = nn.Parameter(torch.zeros(70000)), nn.Parameter(torch.zeros(3))
    first = wrapped(hvd, [shared], f"later.first.{way}")
    base = torch.optim.SGD([other], lr=1.0)
    second = hvd.DistributedOptimizer(base, [(f"later.second.{way}", other)])
    for step in range(2):
        for optimizer in (first, second):
            optimizer.zero_grad()
        ((shared.sum() + other.sum()) * (rank + 1)).backward()
        first.step()
        second.step()
    (second if way == "added" else base).add_param_group({"params": [shared]})
    for optimizer in (first, second):
        optimizer.zero_grad()
    with pytest.raises(ValueError, match=REFUSED):
        for step in range(2):  # in the second step at the latest
            ((shared.sum() + other.sum()) * (rank + 1)).backward()
            first.step()
            second.step()


@pytest.mark.ranks(2)
def test_adasum_reads_no_gradient_that_another_optimizer_is_reducing(hvd, rank, world):
    """Its steps were made with what was reduced by then."""
    w = nn.Parameter(torch.zeros(70000))
    sums = wrapped(hvd, [w], "adasum.sums", op=hvd.Sum)
    adasum = wrapped(hvd, [w], "adasum.steps", op=hvd.Adasum)
    (w * (rank + 1)).sum().backward()
    with pytest.raises(ValueError, match="is reducing this parameter's gradient"):
        adasum.step()
    sums.synchronize()
    adasum.step()  # of equal gradients
    assert w.unique().tolist() == [-3.0]
    w.grad = None
    (w * (rank + 1)).sum().backward()
    del sums
    w.grad = torch.ones_like(w)
    adasum.step()
    assert w.unique().tolist() == [-4.0]
