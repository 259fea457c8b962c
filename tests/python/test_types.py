"""Element types beside the usual floats and integers: truth values, 8-bit floats, complex, 16-bit and unsigned numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from ronde.exceptions import MismatchError

FLOAT8 = [torch.float8_e4m3fn, torch.float8_e5m2]


@pytest.mark.ranks(1, 2, 3)
def test_bool_is_a_truth_value(hvd, rank, world):
    # Every combination of the ranks' values; repeated, so that vectors and rests are met.
    codes = torch.arange(2**world).repeat(13)
    columns = [(codes >> r) % 2 == 1 for r in range(world)]
    stacked = torch.stack(columns)
    for op, expected in (
        (hvd.Sum, stacked.any(0)),
        (hvd.Max, stacked.any(0)),
        (hvd.Min, stacked.all(0)),
        (hvd.Product, stacked.all(0)),
    ):
        result = hvd.allreduce(columns[rank], op=op)
        assert result.dtype == torch.bool and torch.equal(result, expected)
    with pytest.raises(NotImplementedError, match="bool can be neither averaged nor scaled"):
        hvd.allreduce(columns[rank], op=hvd.Average)
    with pytest.raises(NotImplementedError, match="bool can be neither averaged nor scaled"):
        hvd.allreduce(columns[rank], op=hvd.Sum, prescale_factor=0.5)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("dtype", FLOAT8, ids=str)
def test_float8_rounds_as_pytorch_converts(hvd, rank, dtype):
    every = torch.arange(256, dtype=torch.uint8)
    pairs = [every.repeat(256), every.repeat_interleave(256)]
    mine = pairs[rank].view(dtype)
    first, second = (pair.view(dtype).float() for pair in pairs)
    for op, expected in (
        (hvd.Sum, first + second),
        (hvd.Average, (first + second) / 2),
        (hvd.Product, first * second),
        (hvd.Min, torch.minimum(first, second)),
        (hvd.Max, torch.maximum(first, second)),
    ):
        result = hvd.allreduce(mine, op=op)
        # PyTorch before 2.13 makes a NaN of what is too large for e4m3fn, since then it saturates, as Ronde does.
        largest = torch.finfo(dtype).max
        rounded = (expected.clamp(-largest, largest) if dtype == torch.float8_e4m3fn else expected).to(dtype)
        assert result.dtype == dtype
        same = (result.float() == rounded.float()) | (result.float().isnan() & rounded.float().isnan())
        assert same.all(), f"{op}: {pairs[0][~same][:5]} and {pairs[1][~same][:5]}"


@pytest.mark.ranks(3)
@pytest.mark.parametrize("dtype", [*FLOAT8, torch.float16], ids=str)
def test_small_floats_round_once_whatever_the_scale(hvd, rank, world, dtype):
    generator = torch.Generator().manual_seed(7)
    inputs = [(torch.randn(5000, generator=generator) * 2).to(dtype) for _ in range(world)]
    result = hvd.allreduce(inputs[rank], op=hvd.Sum, prescale_factor=1 / 3)
    expected = torch.zeros(5000)
    for each in inputs:
        expected += each.float() * torch.tensor(1 / 3, dtype=torch.float32)
    assert torch.equal(result.view(torch.uint8), expected.to(dtype).view(torch.uint8))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex(hvd, rank, world, dtype):
    # Small whole numbers: everything but the average is exact.
    inputs = [
        torch.complex(torch.arange(50.0, dtype=torch.float64) % 7 - r, torch.full((50,), r + 1.0, dtype=torch.float64))
        for r in range(world)
    ]
    total = torch.stack(inputs).sum(0)
    mine = inputs[rank].to(dtype)
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum), total.to(dtype))
    torch.testing.assert_close(hvd.allreduce(mine), (total / world).to(dtype))
    product = torch.stack([2 * each for each in inputs]).prod(0) / 4
    scaled = hvd.allreduce(mine, op=hvd.Product, prescale_factor=2.0, postscale_factor=0.25)
    assert torch.equal(scaled, product.to(dtype))
    for op in (hvd.Min, hvd.Max):
        with pytest.raises(NotImplementedError, match=f"{str(dtype)[6:]} cannot be reduced by m.*it has no order"):
            hvd.allreduce(mine, op=op)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["uint32", "uint64"])
def test_integers_without_a_sign(hvd, rank, world, name):
    """NumPy says what is expected: PyTorch itself calculates little with these."""
    dtype = getattr(torch, name, None)
    if dtype is None:
        assert tuple(map(int, torch.__version__.split(".")[:2])) < (2, 3), "only PyTorch before 2.3 lacks them"
        return
    top = np.iinfo(name).max
    stack = np.stack([np.arange(1000, dtype=name) * (r + 17) + (top - 9000 if r == 0 else 0) for r in range(world)])
    mine = torch.from_numpy(stack[rank].copy())
    assert mine.dtype == dtype
    assert np.array_equal(hvd.allreduce(mine, op=hvd.Sum).numpy(), stack.sum(0, dtype=name))  # wraps
    assert np.array_equal(hvd.allreduce(mine, op=hvd.Max).numpy(), stack.max(0))
    assert np.array_equal(hvd.allreduce(mine, op=hvd.Min).numpy(), stack.min(0))
    assert np.array_equal(hvd.allgather(mine).numpy(), stack.reshape(-1))
    small = torch.from_numpy(stack[rank] % 1000 + top // 8)
    average = np.stack([row % 1000 + top // 8 for row in stack]).sum(0, dtype=np.uint64) // np.uint64(world)
    assert np.array_equal(hvd.allreduce(small, op=hvd.Average).numpy(), average.astype(name))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("bits", [32, 64])
def test_a_sign_on_one_rank_only_is_told(hvd, rank, bits):
    import ronde.numpy as rnp

    mine = np.ones(3, f"{'u' if rank == 0 else ''}int{bits}")
    calls = {
        "allreduce": lambda: rnp.allreduce(mine, op=rnp.Sum, name=f"sign.allreduce.{bits}"),
        "allgather": lambda: rnp.allgather(mine, name=f"sign.allgather.{bits}"),
        "broadcast": lambda: rnp.broadcast(mine, root_rank=0, name=f"sign.broadcast.{bits}"),
        "alltoall": lambda: rnp.alltoall(np.repeat(mine, 2), name=f"sign.alltoall.{bits}"),
    }
    for name, call in calls.items():
        with pytest.raises(MismatchError, match=f"uint{bits}") as told:
            call()
        assert f"sign.{name}.{bits}" in str(told.value)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["int16", "uint16"])
def test_sixteen_bit_integers(hvd, rank, world, name):
    dtype = getattr(torch, name, None)
    if dtype is None:
        assert name == "uint16", "only PyTorch before 2.3 lacks one of them"
        return
    inputs = [(torch.arange(1000, dtype=torch.int64) * (r + 17)) % 20000 for r in range(world)]
    total = torch.stack(inputs).sum(0)
    mine = inputs[rank].to(dtype)
    wrapped = (total % 65536) if name == "uint16" else (total + 32768) % 65536 - 32768
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum).long(), wrapped)
    assert torch.equal(hvd.allreduce(mine, op=hvd.Average).long(), total // world)  # summed wide
    assert torch.equal(hvd.allreduce(mine, op=hvd.Max).long(), torch.stack(inputs).amax(0))
