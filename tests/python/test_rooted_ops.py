"""Reduce, gather and scatter: values at every root, what the other ranks get, and what ranks may disagree about."""

from __future__ import annotations

import pytest
import torch

from test_collectives import assert_close, reference, values
from test_mismatch import disagree

WORLDS = pytest.mark.ranks(1, 2, 3, 5)


@WORLDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64], ids=str)
def test_reduce(hvd, rank, world, dtype):
    for root in {0, world - 1}:
        for op in ("Average", "Sum", "Max"):
            for count in (0, 1, 1023, 70_001):
                inputs = [values(r, count, dtype) for r in range(world)]
                mine = inputs[rank].clone()
                result = hvd.reduce(mine, root, name=f"{op}.{count}", op=getattr(hvd, op))
                assert torch.equal(mine, inputs[rank]), "the input was changed"
                if rank == root:
                    assert_close(result, reference(inputs, op), world)
                else:
                    assert result is None
                assert hvd.reduce_(mine, root, name="in place", op=getattr(hvd, op)) is mine
                assert torch.equal(mine, result if rank == root else inputs[rank])


@pytest.mark.ranks(2, 3)
def test_reduce_forms(hvd, rank, world):
    root = world - 1
    base = [values(r, 48, torch.float32).reshape(6, 8) for r in range(world)]
    expected = reference(base, "Sum", 0.5, 3.0)
    factors = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    result = hvd.synchronize(hvd.reduce_async(base[rank], root, **factors))
    strided = base[rank].clone().t()  # not contiguous: written through a copy
    handle = hvd.reduce_async_(strided, root, **factors)
    assert hvd.synchronize(handle) is strided
    if rank == root:
        assert_close(result, expected, world)
        assert_close(strided, expected.T, world)
    else:
        assert result is None and torch.equal(strided, base[rank].t())
    scalar = hvd.reduce(torch.tensor(rank + 1.0), root, op=hvd.Sum)
    assert scalar is None if rank != root else scalar.item() == world * (world + 1) / 2


@WORLDS
def test_gather(hvd, rank, world):
    for root in range(world):
        for width in (1, 3, 5000):
            parts = [torch.full((r % 3, width), r % 2 + 1) for r in range(world)]
            for result in (
                hvd.gather(parts[rank], root),
                hvd.synchronize(hvd.gather_async(parts[rank], root)),
            ):
                if rank == root:
                    assert torch.equal(result, torch.cat(parts))
                else:
                    assert result is None


@WORLDS
def test_scatter(hvd, rank, world):
    nothing = torch.empty(0, 4, dtype=torch.int32)
    for root in range(world):
        for rows in (0, 1, 700):
            whole = torch.arange(world * rows * 4, dtype=torch.int32).reshape(world * rows, 4)
            result = hvd.scatter(whole if rank == root else nothing, root)
            assert torch.equal(result, whole[rank * rows : (rank + 1) * rows])
        splits = [3 * to for to in range(world)]
        whole = torch.arange(sum(splits) * 4, dtype=torch.int32).reshape(-1, 4)
        handle = hvd.scatter_async(whole if rank == root else nothing, root, splits if rank == root else None)
        assert torch.equal(hvd.synchronize(handle), whole.split(splits)[rank])


@pytest.mark.ranks(2, 3)
def test_ranks_must_agree_about_the_root(hvd, rank, world):
    text = disagree(hvd, lambda: hvd.gather(torch.ones(2), 0 if rank == 0 else 1, name="whose"))
    assert "root rank" in text and "to rank 0" in text and "to rank 1" in text
    text = disagree(hvd, lambda: hvd.reduce(torch.ones(2 if rank == 0 else 3), 0, name="shapes"))
    assert "shape" in text
    with pytest.raises(ValueError, match="not in the group"):
        hvd.reduce(torch.ones(1), world)
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == world


@pytest.mark.ranks(2, 3)
def test_rows_that_cannot_be_cut_are_refused(hvd, rank, world):
    if rank == 0:
        with pytest.raises(ValueError, match="do not divide"):
            hvd.scatter(torch.ones(world + 1), 0, name="odd")
        with pytest.raises(ValueError, match="add up"):
            hvd.scatter(torch.ones(world + 1), 0, splits=[1] * world, name="odd")
    mine = torch.arange(world + 1.0) if rank == 0 else torch.empty(0)
    result = hvd.scatter(mine, 0, splits=torch.tensor([2] + [1] * (world - 1)), name="odd")
    assert result.tolist() == ([0.0, 1.0] if rank == 0 else [rank + 1.0])


@pytest.mark.ranks(2, 3)
def test_bit_operations(hvd, rank, world):
    for dtype in (torch.uint8, torch.int8, torch.int32, torch.int64):
        inputs = [torch.arange(1000).mul(37 * (r + 3)).add(r).to(dtype) for r in range(world)]
        expected = {hvd.BitAnd: inputs[0], hvd.BitOr: inputs[0], hvd.BitXor: inputs[0]}
        for other in inputs[1:]:
            expected[hvd.BitAnd] = expected[hvd.BitAnd] & other
            expected[hvd.BitOr] = expected[hvd.BitOr] | other
            expected[hvd.BitXor] = expected[hvd.BitXor] ^ other
        for op, result in expected.items():
            assert torch.equal(hvd.allreduce(inputs[rank], op=op), result)
    flags = [torch.tensor([r == 0, True, False]) for r in range(world)]
    assert hvd.allreduce(flags[rank], op=hvd.BitAnd).tolist() == [False, True, False]
    assert hvd.allreduce(flags[rank], op=hvd.BitOr).tolist() == [True, True, False]
    assert hvd.allreduce(flags[rank], op=hvd.BitXor).tolist() == [True, world % 2 == 1, False]
    with pytest.raises(NotImplementedError, match="float32 cannot be reduced by bit_or: it has no bits to combine"):
        hvd.allreduce(torch.ones(2), op=hvd.BitOr)
