"""All-to-all, reduce-scatter and grouped all-gather: values against NumPy, gradients, and what ranks may disagree about."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from test_collectives import FLOATS, INTEGERS, assert_close, reference, values

WORLDS = pytest.mark.ranks(1, 2, 3, 5)
OTHERS = [torch.int16, torch.bool, torch.complex64]


def rows_of(rank: int, world: int, rows: int) -> slice:
    """What of so many rows a rank gets in a reduce-scatter."""
    least, more = divmod(rows, world)
    first = rank * least + min(rank, more)
    return slice(first, first + least + (1 if rank < more else 0))


def sent(rank: int, splits: list[int], dtype: torch.dtype, width: int = 3) -> torch.Tensor:
    """Rank `rank`'s input: each row says whose it is, for whom, and which."""
    rows = [[rank * 16 + to, i % 100, 1] for to, count in enumerate(splits) for i in range(count)]
    return torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)[:, :width].to(dtype)


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_reducescatter(hvd, rank, world, dtype):
    for op in ("Average", "Sum", "Min", "Max", "Product"):
        for rows in (0, 1, world, world + 1, 3 * world + 2, 1500):
            inputs = [values(r, rows * 11, dtype).reshape(rows, 11) for r in range(world)]
            mine = inputs[rank].clone()
            result = hvd.reducescatter(mine, name=f"{op}.{rows}", op=getattr(hvd, op))
            assert torch.equal(mine, inputs[rank]), "the input was changed"
            own = rows_of(rank, world, rows)
            assert result.dtype == dtype and result.shape == (own.stop - own.start, 11)
            assert_close(result, reference(inputs, op)[own], world)


@WORLDS
def test_reducescatter_forms(hvd, rank, world):
    inputs = [values(r, 7 * world * 4, torch.float32).reshape(7 * world, 4) for r in range(world)]
    own = rows_of(rank, world, 7 * world)
    expected = reference(inputs, "Sum", 0.5, 3.0)[own]
    factors = {"op": hvd.Sum, "prescale_factor": 0.5, "postscale_factor": 3.0}
    assert_close(hvd.reducescatter(inputs[rank], **factors), expected, world)
    assert_close(hvd.synchronize(hvd.reducescatter_async(inputs[rank], **factors)), expected, world)
    pair = [inputs[rank], inputs[rank].double()[: world + 1]]
    for results in (
        hvd.grouped_reducescatter(pair, **factors),
        hvd.synchronize(hvd.grouped_reducescatter_async(pair, **factors)),
    ):
        assert [result.dtype for result in results] == [torch.float32, torch.float64]
        assert_close(results[0], expected, world)
        doubles = [each.double()[: world + 1] for each in inputs]
        assert_close(results[1], reference(doubles, "Sum", 0.5, 3.0)[rows_of(rank, world, world + 1)], world)
    assert hvd.grouped_reducescatter([]) == []
    with pytest.raises(ValueError, match="at least one"):
        hvd.grouped_reducescatter_async([])
    assert hvd.reducescatter(inputs[rank], compression=hvd.Compression.fp16).dtype == torch.float32
    transposed = hvd.reducescatter(inputs[rank].t().contiguous().t(), **factors)
    assert_close(transposed, expected, world)


@WORLDS
def test_reducescatter_of_megabytes(hvd, rank, world):
    inputs = [torch.full((1001, 777), float(r + 1)) for r in range(world)]
    for _ in range(3):
        result = hvd.reducescatter(inputs[rank], name="large", op=hvd.Sum)
        own = rows_of(rank, world, 1001)
        assert result.shape == (own.stop - own.start, 777)
        assert bool((result == world * (world + 1) / 2).all())


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + OTHERS, ids=str)
def test_alltoall(hvd, rank, world, dtype):
    for number, count in enumerate((0, 1, 5, 4000)):
        splits = [[count * ((r + 2 * to + number) % 3) for to in range(world)] for r in range(world)]
        result, received = hvd.alltoall(sent(rank, splits[rank], dtype), torch.tensor(splits[rank]), name=f"{count}")
        assert received.dtype == torch.int32
        assert received.tolist() == [splits[r][rank] for r in range(world)]
        parts = [sent(r, splits[r], dtype).split(splits[r])[rank] for r in range(world)]
        assert result.dtype == dtype and torch.equal(result, torch.cat(parts))


@WORLDS
def test_alltoall_without_splits(hvd, rank, world):
    # As many rows for each, another number on each rank.
    def tensor(r):
        return sent(r, [r + 1] * world, torch.float32)

    expected = torch.cat([tensor(r)[rank * (r + 1) : (rank + 1) * (r + 1)] for r in range(world)])
    assert torch.equal(hvd.alltoall(tensor(rank)), expected)
    assert torch.equal(hvd.synchronize(hvd.alltoall_async(tensor(rank), name="a")), expected)
    result, received = hvd.synchronize(hvd.alltoall_async(tensor(rank), splits=[rank + 1] * world))
    assert torch.equal(result, expected) and received.tolist() == list(range(1, world + 1))


@pytest.mark.ranks(2, 3)
def test_what_alltoall_refuses(hvd, rank, world):
    with pytest.raises(ValueError, match="do not divide by the"):
        hvd.alltoall(torch.ones(world + 1))
    with pytest.raises(ValueError, match="one for each of the"):
        hvd.alltoall(torch.ones(3), splits=[3])
    with pytest.raises(ValueError, match="add up to"):
        hvd.alltoall(torch.ones(world + 1), splits=[1] * world)
    with pytest.raises(ValueError, match="at least 0"):
        hvd.alltoall(torch.ones(world), splits=[-1] + [1] * (world - 1))
    with pytest.raises(ValueError, match="scalar"):
        hvd.alltoall(torch.tensor(1.0))
    with pytest.raises(ValueError, match="scalar"):
        hvd.reducescatter(torch.tensor(1.0))
    with pytest.raises(hvd.HorovodInternalError, match="shape of 'alltoall.width'"):
        hvd.alltoall(torch.ones(world, 1 + rank), name="width")
    with pytest.raises(hvd.HorovodInternalError, match="shape of 'reducescatter.rows'"):
        hvd.reducescatter(torch.ones(world + rank), name="rows")
    assert hvd.alltoall(torch.full((world,), float(rank)), name="width").tolist() == list(range(world))


@WORLDS
def test_grouped_allgather(hvd, rank, world):
    def tensors(r):
        return [values(r, 2 * (r + 1), torch.float32).reshape(r + 1, 2), values(r, 40000, torch.float64)]

    expected = [torch.cat(each) for each in zip(*(tensors(r) for r in range(world)))]
    for results in (
        hvd.grouped_allgather(tensors(rank)),
        hvd.synchronize(hvd.grouped_allgather_async(tensors(rank), name="g")),
    ):
        assert all(torch.equal(result, each) for result, each in zip(results, expected))
    assert hvd.grouped_allgather([]) == []


@WORLDS
def test_gradients(hvd, rank, world):
    # All-to-all: the gradient of row i comes back from whom the row went to.
    splits = [(rank + to) % 2 + 1 for to in range(world)]
    tensor = torch.ones(sum(splits), 2, requires_grad=True)
    result, _ = hvd.alltoall(tensor, splits=splits, name="a")
    (result * (rank + 1)).sum().backward()
    expected = np.repeat(np.arange(1.0, world + 1), splits)
    np.testing.assert_array_equal(tensor.grad.numpy(), np.stack([expected, expected], 1))
    even = torch.ones(2 * world, requires_grad=True)
    (hvd.alltoall(even, name="e") * (rank + 1)).sum().backward()
    np.testing.assert_array_equal(even.grad.numpy(), np.repeat(np.arange(1.0, world + 1), 2))

    # Reduce-scatter: every rank's gradient at its rows; of a sum, times the ranks.
    for op, factor in ((hvd.Average, 1.0), (hvd.Sum, float(world))):
        tensor = torch.ones(2 * world + 1, requires_grad=True)
        (hvd.reducescatter(tensor, name=f"r{op}", op=op, prescale_factor=0.5) * (rank + 1)).sum().backward()
        counts = [rows_of(r, world, 2 * world + 1) for r in range(world)]
        owners = np.repeat(np.arange(1.0, world + 1), [each.stop - each.start for each in counts])
        np.testing.assert_array_equal(tensor.grad.numpy(), owners * factor * 0.5)

    # Grouped all-gather: the average of the gradients at the own rows.
    pair = [torch.ones(rank + 1, requires_grad=True), torch.ones(2, 3, requires_grad=True)]
    gathered = hvd.grouped_allgather(pair, name="g")
    (gathered[0].sum() * (rank + 1) + gathered[1].sum()).backward()
    np.testing.assert_allclose(pair[0].grad.numpy(), np.full(rank + 1, (world + 1) / 2))
    np.testing.assert_array_equal(pair[1].grad.numpy(), np.ones((2, 3)))
