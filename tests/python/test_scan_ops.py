"""Scan and exscan: each rank's prefix of the ranks, in place and not, and what ranks may disagree about."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from test_collectives import assert_close, reference, values
from test_mismatch import disagree

WORLDS = pytest.mark.ranks(1, 2, 3, 5)
NEUTRAL = {"Sum": 0, "Product": 1, "Max": float("-inf"), "Min": float("inf")}


def prefix(inputs, count, op, dtype):
    """Of the first ranks' inputs."""
    if count > 0:
        return reference(inputs[:count], op)
    neutral = NEUTRAL[op]
    if not dtype.is_floating_point and neutral not in (0, 1):
        limits = torch.iinfo(dtype)
        neutral = limits.min if neutral < 0 else limits.max
    return np.full(tuple(inputs[0].shape), neutral)


@WORLDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
@pytest.mark.parametrize("op", ["Sum", "Max", "Min"])
def test_scans(hvd, rank, world, dtype, op):
    for count in (0, 1, 1023, 70_001):
        inputs = [values(r, count, dtype) for r in range(world)]
        for call, in_place, counted in ((hvd.scan, hvd.scan_, rank + 1), (hvd.exscan, hvd.exscan_, rank)):
            expected = prefix(inputs, counted, op, dtype)
            mine = inputs[rank].clone()
            result = call(mine, name=f"{op}.{count}", op=getattr(hvd, op))
            assert torch.equal(mine, inputs[rank]), "the input was changed"
            assert_close(result, expected, world)
            assert in_place(mine, name="in place", op=getattr(hvd, op)) is mine
            assert torch.equal(mine, result)


@pytest.mark.ranks(2, 3)
def test_forms(hvd, rank, world):
    base = [values(r, 48, torch.float32).reshape(6, 8) for r in range(world)]
    factors = {"prescale_factor": 0.5, "postscale_factor": 3.0}
    expected = reference(base[: rank + 1], "Sum", 0.5, 3.0)
    assert_close(hvd.synchronize(hvd.scan_async(base[rank], **factors)), expected, world)
    strided = base[rank].clone().t()  # not contiguous: written through a copy
    handle = hvd.scan_async_(strided, **factors)
    assert hvd.synchronize(handle) is strided
    assert_close(strided, expected.T, world)
    assert hvd.scan(torch.tensor(rank + 1.0)).item() == (rank + 1) * (rank + 2) / 2
    assert hvd.exscan(torch.tensor(rank + 1.0), op=hvd.Product).item() == math.factorial(rank)
    assert hvd.synchronize(hvd.exscan_async(rank + 1)).item() == rank * (rank + 1) / 2
    mine = torch.ones(3)
    assert hvd.synchronize(hvd.exscan_async_(mine)) is mine and mine.tolist() == [float(rank)] * 3


@pytest.mark.ranks(3)
def test_the_bits_are_those_of_an_allreduce_of_the_ranks_so_far(hvd, rank, world):
    inputs = [values(r, 70_001, torch.bfloat16) for r in range(world)]
    first = hvd.add_process_set([0, 1])
    if rank < 2:
        both = hvd.allreduce(inputs[rank], op=hvd.Sum, process_set=first)
        assert rank == 0 or torch.equal(both, hvd.scan(inputs[rank], name="bits"))
    if rank != 1:
        hvd.scan(inputs[rank], name="bits")
    everything = hvd.allreduce(inputs[rank], op=hvd.Sum)
    mine = hvd.scan(inputs[rank])
    assert rank < 2 or torch.equal(mine, everything)
    hvd.remove_process_set(first)


@pytest.mark.ranks(3)
def test_in_a_process_set(hvd, rank, world):
    ends = hvd.add_process_set([0, 2])
    if rank != 1:
        assert hvd.scan(torch.tensor([rank + 1]), process_set=ends).tolist() == [1 if rank == 0 else 4]
        assert hvd.exscan(torch.tensor([rank + 1]), process_set=ends).tolist() == [0 if rank == 0 else 1]
    hvd.remove_process_set(ends)


@pytest.mark.ranks(2, 3)
def test_what_cannot_be(hvd, rank, world):
    with pytest.raises(ValueError, match="there is no average of a part of the ranks; use sum"):
        hvd.scan(torch.ones(2), op=hvd.Average)
    with pytest.raises(NotImplementedError, match="adasum"):
        hvd.exscan(torch.ones(2), op=hvd.Adasum)
    assert "disagree about the shape" in disagree(hvd, lambda: hvd.scan(torch.ones(2 + rank), name="shapes"))
    assert hvd.scan(torch.ones(2)).tolist() == [rank + 1.0] * 2


@pytest.mark.ranks(2, 3)
def test_a_rank_that_has_joined_has_no_place_in_the_order(hvd, rank, world):
    if rank == 0:
        hvd.join()
    else:
        with pytest.raises(ValueError, match="cannot be done while rank 0 has joined"):
            hvd.scan(torch.ones(2), name="without 0")
        hvd.join()
    assert hvd.exscan(torch.ones(2)).tolist() == [float(rank)] * 2
