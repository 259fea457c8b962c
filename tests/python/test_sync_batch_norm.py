"""SyncBatchNorm against BatchNorm in one process over the whole batch, in double."""

from __future__ import annotations

import copy

import pytest
import torch
from torch import nn

CHANNELS = 4


def rows(world: int) -> list[int]:
    """Of the ranks: uneven, one of them, from three ranks on, without any."""
    return [[5, 2, 0, 1][rank % 4] for rank in range(world)]


def inputs(world: int, size: tuple[int, ...], step: int, dtype: torch.dtype = torch.float64) -> list[torch.Tensor]:
    """The ranks' batches; far from 0, where a naive variance loses its digits."""
    generator = torch.Generator().manual_seed(step)
    whole = torch.randn(sum(rows(world)), CHANNELS, *size, generator=generator, dtype=torch.float64)
    whole = whole * torch.arange(1.0, CHANNELS + 1).view(-1, *(1 for _ in size)) + 1000
    return [part.to(dtype) for part in whole.split(rows(world))]


def targets(world: int, size: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(99)
    whole = torch.randn(sum(rows(world)), CHANNELS, *size, generator=generator, dtype=torch.float64)
    return list(whole.split(rows(world)))


def pair(hvd, make, **options):
    """The layer, and PyTorch's with the same parameters."""
    ours, theirs = hvd.SyncBatchNorm(CHANNELS, **options).double(), make(CHANNELS, **options).double()
    if options.get("affine", True):
        for layer in (ours, theirs):
            nn.init.constant_(layer.weight, 1.5)
            nn.init.constant_(layer.bias, -0.5)
    return ours, theirs


def assert_same_buffers(ours: nn.Module, theirs: nn.Module) -> None:
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value, rtol=1e-9, atol=1e-12, msg=name)


OPTIONS = [
    {},
    {"affine": False},
    {"track_running_stats": False},
    {"momentum": None},
    {"eps": 0.1, "momentum": 0.5},
]


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize(("make", "size"), [(nn.BatchNorm1d, ()), (nn.BatchNorm2d, (3, 2))], ids=["1d", "2d"])
def test_equals_one_process(hvd, rank, world, make, size, options):
    ours, theirs = pair(hvd, make, **options)
    for step in range(3):
        parts = inputs(world, size, step)
        mine = parts[rank].clone().requires_grad_(True)
        whole = torch.cat(parts).requires_grad_(True)
        output = ours(mine)
        expected = theirs(whole)
        torch.testing.assert_close(output, expected.split(rows(world))[rank], rtol=1e-7, atol=1e-9)
        (output * targets(world, size)[rank]).sum().backward()
        (expected * torch.cat(targets(world, size))).sum().backward()
        torch.testing.assert_close(mine.grad, whole.grad.split(rows(world))[rank], rtol=1e-6, atol=1e-8)
        assert_same_buffers(ours, theirs)
    if options.get("affine", True):  # each rank has the part of its own batch
        for name in ("weight", "bias"):
            total = hvd.allreduce(getattr(ours, name).grad, op=hvd.Sum)
            torch.testing.assert_close(total, getattr(theirs, name).grad, rtol=1e-7, atol=1e-9)


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("options", [{}, {"track_running_stats": False}], ids=str)
def test_evaluation_asks_nobody(hvd, rank, world, options):
    ours, theirs = pair(hvd, nn.BatchNorm2d, **options)
    parts = inputs(world, (3, 2), 0)
    ours(parts[rank]), theirs(torch.cat(parts))
    ours.eval(), theirs.eval()
    if rank == 0:  # alone
        torch.testing.assert_close(ours(parts[0]), theirs(parts[0]), rtol=1e-7, atol=1e-9)
    ours.train(), theirs.train()
    torch.testing.assert_close(ours(parts[rank]), theirs(torch.cat(parts)).split(rows(world))[rank])


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_other_types(hvd, rank, world, dtype):
    """float32, and 16 bits with parameters in 32, as autocast and hand-made mixed precision have it."""
    layer = hvd.SyncBatchNorm(CHANNELS)
    parts = [part - 998 for part in inputs(world, (3, 2), 0)]
    theirs = nn.BatchNorm2d(CHANNELS).double()
    mine = parts[rank].to(dtype).requires_grad_(True)
    output = layer(mine)
    assert output.dtype == dtype
    whole = torch.cat([part.to(dtype) for part in parts]).double()
    expected = theirs(whole).split(rows(world))[rank]
    tolerance = 8 * torch.finfo(dtype).eps
    torch.testing.assert_close(output.double(), expected, rtol=tolerance, atol=tolerance)
    output.sum().backward()
    assert mine.grad.dtype == dtype and layer.weight.grad.dtype == torch.float32


@pytest.mark.ranks(2)
def test_channels_last_and_no_gradient_of_the_input(hvd, rank, world):
    ours, theirs = pair(hvd, nn.BatchNorm2d)
    parts = inputs(world, (3, 2), 0)
    mine = parts[rank].contiguous(memory_format=torch.channels_last)
    output = ours(mine)
    torch.testing.assert_close(output, theirs(torch.cat(parts)).split(rows(world))[rank])
    output.sum().backward()  # of a first layer: only weight and bias have one
    assert ours.weight.grad is not None
    with torch.no_grad():
        torch.testing.assert_close(ours(mine), theirs(torch.cat(parts)).split(rows(world))[rank])


@pytest.mark.ranks(2, 3)
def test_training_equals_one_process(hvd, rank, world):
    """In a model, with the optimizer: batches of equal size, since the optimizer averages over ranks."""
    torch.manual_seed(6)

    def make(norm):
        return nn.Sequential(nn.Conv2d(1, CHANNELS, 2), norm, nn.ReLU(), nn.Flatten(), nn.Linear(CHANNELS * 4, 2))

    serial = make(nn.BatchNorm2d(CHANNELS)).double()
    model = make(hvd.SyncBatchNorm(CHANNELS)).double()
    model.load_state_dict(copy.deepcopy(serial.state_dict()))
    plain = torch.optim.SGD(serial.parameters(), lr=0.1, momentum=0.9)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9), model.named_parameters()
    )
    for _ in range(4):
        x = torch.randn(4 * world, 1, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        for net, stepper, part in ((serial, plain, x), (model, optimizer, x[4 * rank : 4 * rank + 4])):
            stepper.zero_grad()
            net(part).square().mean().backward()
            stepper.step()
    for name, value in serial.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], value, rtol=1e-6, atol=1e-9, msg=name)


@pytest.mark.ranks(1, 2, 3)
def test_what_is_refused(hvd, rank, world):
    layer = hvd.SyncBatchNorm(2)
    with pytest.raises(ValueError, match="2 dimensions or more"):
        layer(torch.ones(3))
    rows = 1 if rank == 0 else 0
    with pytest.raises(ValueError, match="[Mm]ore than 1 value per channel"):
        layer(torch.ones(rows, 2))
    if world > 1:
        with pytest.raises(ValueError, match="2 features"):
            layer(torch.ones(4, 3))
    assert layer(torch.ones(2, 2)).shape == (2, 2)
    assert layer.num_batches_tracked == (2 if world == 1 else 1)


@pytest.mark.ranks(1, 2, 3)
def test_batches_that_do_not_count(hvd, rank, world):
    """Of programs that switch the statistics off for a while."""
    ours, theirs = pair(hvd, nn.BatchNorm1d)
    for step in range(5):
        batches = inputs(world, (), step)
        for layer, batch in ((ours, batches[rank]), (theirs, torch.cat(batches))):
            layer.track_running_stats = step not in (1, 2)
            layer(batch)
    assert ours.num_batches_tracked == theirs.num_batches_tracked == 3
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("momentum", [0.25, None])
def test_statistics_without_a_count_of_batches(hvd, rank, world, momentum):
    """Of a state that has none: they move, but for an average of all batches."""
    ours, theirs = hvd.SyncBatchNorm(CHANNELS, momentum=momentum), nn.BatchNorm1d(CHANNELS, momentum=momentum)
    ours.num_batches_tracked = theirs.num_batches_tracked = None
    for step in range(3):
        batches = inputs(world, (), step)
        ours.double()(batches[rank])
        theirs.double()(torch.cat(batches))
    assert ours.num_batches_tracked is None
    torch.testing.assert_close(ours.running_mean, theirs.running_mean)
    torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("left_out", ["weight", "bias"])
def test_without_weight_or_bias(hvd, rank, world, left_out):
    ours, theirs = (kind(CHANNELS).double() for kind in (hvd.SyncBatchNorm, nn.BatchNorm1d))
    for layer in (ours, theirs):
        setattr(layer, left_out, None)
    mine, parts = (inputs(world, (), 3)[rank].requires_grad_(), [each.requires_grad_() for each in inputs(world, (), 3)])
    ours(mine).square().sum().backward()
    theirs(torch.cat(parts)).square().sum().backward()
    torch.testing.assert_close(mine.grad, parts[rank].grad)
    [gradient] = [each.grad for each in ours.parameters()]
    total = hvd.allreduce(gradient, op=hvd.Sum)
    torch.testing.assert_close(total, next(theirs.parameters()).grad)
