"""Every type by every operation, beside NumPy: floats of 16 and 8 bits are added as float32 and rounded once, NaNs are kept,
and all ranks have the same bits."""

import hashlib

import ml_dtypes
import numpy as np
import torch

import ronde.numpy as rnp
import ronde.torch as hvd

SMALL = (np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
COUNT = 3000


def same_everywhere(got, what):
    digest = hashlib.sha256(np.ascontiguousarray(got).tobytes()).hexdigest()
    assert len(set(rnp.allgather_object(digest))) == 1, what


def neighbours(got, exact, dtype, what):
    """`got` is `exact`, or next to it: float32 sums of three numbers differ by their order."""
    got = got.astype(np.float32)
    steps = np.abs(exact) * float(ml_dtypes.finfo(dtype).eps) + float(ml_dtypes.finfo(dtype).smallest_subnormal)
    assert (np.abs(got - exact) <= steps).all(), (what, got[:5], exact[:5])


def small_floats(rank, size, step):
    for dtype in SMALL:
        everyones = [np.random.default_rng([step, each]).standard_normal(COUNT).astype(dtype) for each in range(size)]
        total = sum((each.astype(np.float32) for each in everyones[1:]), everyones[0].astype(np.float32))
        for op, exact in ((rnp.Sum, total), (rnp.Average, total / np.float32(size))):
            what = (np.dtype(dtype).name, op, size)
            got = rnp.allreduce(everyones[rank], op, name=f"{what}")
            same_everywhere(got, what)
            if size == 2:  # of two numbers there is one order
                assert got.tobytes() == exact.astype(dtype).tobytes(), (what, got[:5], exact[:5])
            neighbours(got, exact, dtype, what)
        got = rnp.allreduce(everyones[rank], rnp.Sum, name=f"scaled {np.dtype(dtype).name}", prescale_factor=0.5,
                            postscale_factor=4.0)
        neighbours(got / dtype(2), total, dtype, "scaled")
        part = rnp.reducescatter(everyones[rank], rnp.Sum, name=f"rows {np.dtype(dtype).name}")
        neighbours(part, np.array_split(total, size)[rank], dtype, "rows")
    large = rnp.allreduce(np.full(7, 60000, np.float16), rnp.Average, name="large")
    assert (large == 60000).all(), "whose sum is infinite"


def others(rank, size):
    numbers = [(np.arange(COUNT) * 7 + each) % 5 + 1 for each in range(size)]
    everywhere = np.random.default_rng(5).integers(0, 256, (size, COUNT * 8)).astype(np.uint8)  # sums and products wrap
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64):
        mine = [each.view(dtype)[:COUNT] for each in everywhere]
        for op, fold in ((rnp.Sum, np.add), (rnp.Product, np.multiply), (rnp.Min, np.minimum), (rnp.Max, np.maximum),
                         (rnp.BitAnd, np.bitwise_and), (rnp.BitOr, np.bitwise_or), (rnp.BitXor, np.bitwise_xor)):
            got = rnp.allreduce(mine[rank], op, name=f"{np.dtype(dtype)} {op}")
            expected = mine[0]
            for each in mine[1:]:
                expected = fold(expected, each)
            assert got.dtype == dtype and (got == expected).all(), (dtype, op, got[:5], expected[:5])
    truths = [each % 2 == 0 for each in numbers]
    for op, fold in ((rnp.Sum, np.logical_or), (rnp.Max, np.logical_or), (rnp.Product, np.logical_and),
                     (rnp.Min, np.logical_and), (rnp.BitXor, np.logical_xor)):
        expected = truths[0]
        for each in truths[1:]:
            expected = fold(expected, each)
        assert (rnp.allreduce(truths[rank], op, name=f"truth {op}") == expected).all(), op
    for dtype in (np.complex64, np.complex128):
        mine = [(each + 1j * each[::-1]).astype(dtype) for each in numbers]
        total = rnp.allreduce(mine[rank], rnp.Sum, name=f"sum {np.dtype(dtype)}", postscale_factor=0.5)
        assert (total == sum(mine) / 2).all(), total[:5]


def subnormal(rank, size):
    """A thread that takes such numbers for zero, as PyTorch may be told to and TensorFlow does, sums them all the same."""
    mine = torch.from_numpy(np.full(COUNT, 0x116C2, np.uint32).view(np.float32))  # 1e-40; they add as integers do
    torch.set_flush_denormal(rank == 0)
    got = hvd.allreduce(mine, op=hvd.Sum, name="subnormal").numpy().view(np.uint32)
    torch.set_flush_denormal(False)
    assert (got == 0x116C2 * size).all(), got[:5]


def odd_truths(rank, size):
    """Memory of numbers that is taken for truth values: any byte but 0 is true."""
    mine = np.full(COUNT, 2 << rank, np.uint8).view(np.bool_)
    for op, expected in ((rnp.Sum, True), (rnp.Product, True), (rnp.Min, True), (rnp.BitAnd, True), (rnp.BitXor, size % 2 == 1)):
        assert (rnp.allreduce(mine, op, name=f"odd truths {op}") == expected).all(), op


def missing_numbers(rank, size):
    """One rank has a NaN, another time each: they come through on all."""
    for dtype in (np.float32, np.float64, *SMALL):
        for op in (rnp.Min, rnp.Max, rnp.Sum):
            mine = np.full(size + 1, rank, np.float32)
            mine[rank] = np.nan
            got = rnp.allreduce(mine.astype(dtype), op, name=f"nan {np.dtype(dtype).name} {op}").astype(np.float64)
            assert np.isnan(got[:size]).all(), (dtype, op, got)
            assert got[size] == {rnp.Min: 0, rnp.Max: size - 1, rnp.Sum: size * (size - 1) / 2}[op], (dtype, op, got)


rnp.init()
for number in range(4):  # from the second on some is replayed
    small_floats(rnp.rank(), rnp.size(), number)
    others(rnp.rank(), rnp.size())
    missing_numbers(rnp.rank(), rnp.size())
    subnormal(rnp.rank(), rnp.size())
    odd_truths(rnp.rank(), rnp.size())
print("types are right", flush=True)
rnp.shutdown()
