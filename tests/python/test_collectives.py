"""Values of every collective: each operation and type against a reference in double."""

from __future__ import annotations

import numpy as np
import pytest
import torch

FLOATS = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int32, torch.int64, torch.uint8, torch.int8]
WORLDS = pytest.mark.ranks(1, 2, 3, 5)


def values(rank: int, count: int, dtype: torch.dtype, seed: int = 0) -> torch.Tensor:
    """What rank `rank` contributes; the same wherever it is computed. Integers small enough for sums and products."""
    generator = np.random.default_rng((seed, rank, count))
    if dtype.is_floating_point:
        return torch.from_numpy(generator.uniform(0.5, 1.5, count) * generator.choice([-1, 1], count)).to(dtype)
    low = 0 if dtype == torch.uint8 else -2
    return torch.from_numpy(generator.integers(low, 3, count)).to(dtype)


def reference(inputs: list[torch.Tensor], op: str, prescale: float = 1.0, postscale: float = 1.0) -> np.ndarray:
    """The reduction in double, in rank order. Integers are truncated towards zero after each scale and the average."""
    store = (lambda array: array) if inputs[0].dtype.is_floating_point else np.trunc
    scaled = np.stack([store(tensor.double().numpy() * prescale) for tensor in inputs])
    reduced = {
        "Sum": lambda: scaled.sum(0),
        "Average": lambda: store(scaled.sum(0) / len(inputs)),
        "Min": lambda: scaled.min(0),
        "Max": lambda: scaled.max(0),
        "Product": lambda: scaled.prod(0),
    }[op]()
    return store(reduced * postscale)


def assert_close(result: torch.Tensor, expected: np.ndarray, world: int) -> None:
    """Exact for integers, modulo their range; floating types may round once per rank in the type that sums, once more at the store."""
    if not result.dtype.is_floating_point:
        wrapped = expected.astype(np.int64).astype(result.numpy().dtype)  # as products of 8 ranks do in 8 bits
        np.testing.assert_array_equal(result.numpy(), wrapped)
        return
    sums_in = torch.float64 if result.dtype == torch.float64 else torch.float32
    rounding = torch.finfo(result.dtype).eps + world * torch.finfo(sums_in).eps
    np.testing.assert_allclose(result.double().numpy(), expected, rtol=rounding, atol=rounding * world)


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS, ids=str)
def test_allreduce(hvd, rank, world, dtype):
    for op in ("Average", "Sum", "Min", "Max", "Product"):
        for count in (0, 1, 7, 64, 1023, 16385):
            inputs = [values(r, count, dtype) for r in range(world)]
            mine = inputs[rank].clone()
            result = hvd.allreduce(mine, name=f"{op}.{count}", op=getattr(hvd, op))
            assert result.dtype == dtype and result.shape == (count,)
            assert torch.equal(mine, inputs[rank]), "the input was changed"
            assert_close(result, reference(inputs, op), world)
            hvd.allreduce_(mine, name=f"{op}.{count}.in_place", op=getattr(hvd, op))
            assert torch.equal(mine, result)


@WORLDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.int32], ids=str)
def test_scales(hvd, rank, world, dtype):
    inputs = [values(r, 333, dtype) * (1 if dtype.is_floating_point else 7) for r in range(world)]
    for op in ("Sum", "Average"):
        result = hvd.allreduce(inputs[rank], op=getattr(hvd, op), prescale_factor=0.5, postscale_factor=3.0)
        assert_close(result, reference(inputs, op, 0.5, 3.0), world)


@pytest.mark.ranks(2)
def test_scale_of_zero_is_refused(hvd):
    with pytest.raises(ValueError, match="prescale_factor is 0"):
        hvd.allreduce(torch.ones(1), prescale_factor=0.0)


@pytest.mark.ranks(3)
def test_every_rank_has_the_same_bits(hvd, rank):
    for dtype in FLOATS:
        result = hvd.allreduce(values(rank, 5000, dtype), op=hvd.Sum)
        everyone = hvd.allgather(result.reshape(1, -1))
        assert all(torch.equal(everyone[0].view(torch.uint8), row.view(torch.uint8)) for row in everyone)


@pytest.mark.ranks(2, 3)
def test_not_a_number_spreads(hvd, rank):
    mine = torch.tensor([1.0, float("nan") if rank == 0 else 2.0])
    for op in (hvd.Min, hvd.Max, hvd.Sum):
        result = hvd.allreduce(mine, op=op)
        assert not result[0].isnan() and result[1].isnan()


@WORLDS
def test_shapes(hvd, rank, world):
    total = world * (world + 1) / 2
    for shape in ((), (0,), (3, 0), (1,), (2, 3, 4), (1,) * 8):
        result = hvd.allreduce(torch.full(shape, rank + 1.0), op=hvd.Sum)
        assert result.shape == shape and torch.equal(result, torch.full(shape, total))


@WORLDS
def test_not_contiguous(hvd, rank, world):
    base = values(rank, 48, torch.float32).reshape(6, 8)
    expected = reference([values(r, 48, torch.float32) for r in range(world)], "Sum").reshape(6, 8)
    result = hvd.allreduce(base.t(), op=hvd.Sum)
    assert_close(result, expected.T, world)
    strided = base.clone()
    hvd.allreduce_(strided[:, ::2], op=hvd.Sum)  # a view of every second column: written through
    assert_close(strided[:, ::2], expected[:, ::2], world)
    assert torch.equal(strided[:, 1::2], base[:, 1::2])
    channels_last = base.reshape(1, 2, 3, 8).clone(memory_format=torch.channels_last)
    assert hvd.broadcast_(channels_last, 0) is channels_last
    assert torch.equal(channels_last, values(0, 48, torch.float32).reshape(1, 2, 3, 8))


@WORLDS
def test_grouped(hvd, rank, world):
    shapes = [(3,), (), (2, 5), (0,), (4000,)]

    def of(r):
        return [
            values(r, int(np.prod(shape)), dtype, seed).reshape(shape)
            for seed, (shape, dtype) in enumerate(
                zip(shapes, [torch.float32, torch.float64, torch.float32, torch.int32, torch.float16])
            )
        ]

    mine = of(rank)
    results = hvd.grouped_allreduce(mine, op=hvd.Sum)
    for i, result in enumerate(results):
        assert_close(result, reference([of(r)[i] for r in range(world)], "Sum"), world)
    in_place = [tensor.clone() for tensor in mine]
    returned = hvd.grouped_allreduce_(in_place, op=hvd.Sum)
    assert all(a is b for a, b in zip(returned, in_place))
    assert all(torch.equal(a, b) for a, b in zip(in_place, results))
    assert hvd.grouped_allreduce([]) == []
    with pytest.raises(ValueError, match="at least one"):
        hvd.grouped_allreduce_async([])


@pytest.mark.ranks(2)
def test_compression(hvd, rank, world):
    inputs = [values(r, 500, torch.float32) for r in range(world)]
    result = hvd.allreduce(inputs[rank], compression=hvd.Compression.fp16)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result.numpy(), reference(inputs, "Average"), atol=2e-3)
    assert torch.equal(
        hvd.allreduce(torch.ones(2, dtype=torch.int32), compression=hvd.Compression.fp16),
        torch.ones(2, dtype=torch.int32),
    )


@pytest.mark.ranks(2)
def test_average_argument(hvd, world):
    one = torch.ones(1)
    with pytest.warns(DeprecationWarning, match="average="):
        assert hvd.allreduce(one, average=False) == world
    with pytest.warns(DeprecationWarning):
        assert hvd.allreduce(one, average=True) == 1
    assert hvd.allreduce(one) == 1
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(one, average=True, op=hvd.Sum)
    with pytest.raises(ValueError, match="none of"):
        hvd.allreduce(one, op=77)


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool, torch.int16, torch.complex64], ids=str)
def test_allgather(hvd, rank, world, dtype):
    for width in (1, 3, 5000):
        parts = [torch.full((r % 3, width), r % 2 + 1).to(dtype) for r in range(world)]  # ragged: 0, 1, 2, 0, 1 rows
        result = hvd.allgather(parts[rank])
        assert result.dtype == dtype and torch.equal(result, torch.cat(parts))


@pytest.mark.ranks(2)
def test_gathered_memory_outlives_everything_else(hvd, rank, world):
    rows = 50_000  # large: the result is the ticket's own memory
    views = []
    for _ in range(5):
        gathered = hvd.allgather(torch.full((rows,), float(rank)), name="again")
        views.append(gathered[rows - 1 : rows + 1])
        del gathered
    assert all(view.tolist() == [0.0, 1.0] for view in views)
    views[0] += 1
    assert views[0].tolist() == [1.0, 2.0] and views[1].tolist() == [0.0, 1.0]


@pytest.mark.ranks(2)
def test_allgather_of_a_scalar_is_refused(hvd):
    with pytest.raises(ValueError, match="dimension"):
        hvd.allgather(torch.tensor(1.0))
    assert hvd.allgather(torch.ones(1)).shape == (2,)


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + [torch.bool, torch.int16, torch.complex128], ids=str)
def test_broadcast(hvd, rank, world, dtype):
    for root in range(world):
        for count in (0, 1, 1000, 100_001):
            mine = torch.full((count,), rank % 2 + 1).to(dtype)
            expected = torch.full((count,), root % 2 + 1).to(dtype)
            before = mine.clone()
            assert torch.equal(hvd.broadcast(mine, root), expected)
            assert torch.equal(mine, before)
            assert hvd.broadcast_(mine, root) is mine
            assert torch.equal(mine, expected)


@pytest.mark.ranks(2)
def test_wrong_calls(hvd):
    with pytest.raises(ValueError, match="expected a torch.Tensor"):
        hvd.allreduce_([1.0])
    with pytest.raises(ValueError, match="layout"):
        hvd.allreduce_(torch.ones(3).to_sparse())
    with pytest.raises(ValueError, match="on device meta and has no values"):
        hvd.allreduce_(torch.ones(3, device="meta"))
    with pytest.raises(ValueError, match="root"):
        hvd.broadcast(torch.ones(1), 2)
    with pytest.raises(ValueError, match="not registered"):
        hvd.allreduce_(torch.ones(1), process_set=hvd.ProcessSet([0]))
    assert hvd.allreduce(torch.ones(1), name="after") == 1


@WORLDS
def test_barrier_restarts_the_count_of_unnamed_operations(hvd, rank, world):
    for n in range(3):
        if rank == 0:  # one ahead of the others; with Horovod the ranks would never meet again
            ahead = hvd.allreduce_async(torch.ones(1), op=hvd.Sum)
        hvd.barrier()
        assert hvd.allreduce(torch.full((1,), float(n)), op=hvd.Sum) == n * world
        if rank == 0 and world > 1:
            with pytest.raises(hvd.HorovodInternalError, match="rank 0 has made more calls without a name than rank [1-9]"):
                hvd.synchronize(ahead)


@WORLDS
@pytest.mark.parametrize("elements", [3, 5000, 300_000])
@pytest.mark.parametrize("shared", [False, True])
def test_one_tensor_twice_in_a_group(hvd, rank, world, elements, shared):
    """In place, as tied weights come to be: each time the sum of what all ranks had, as with Horovod and Gloo."""
    total = float(world * (world + 1) // 2)
    for _ in range(3):
        memory = hvd.empty_shared(elements) if shared else torch.empty(elements)
        memory.fill_(rank + 1.0)
        other = torch.full((7,), rank + 1.0)
        given = [memory, other, memory, memory[: elements // 2 + 1], memory[elements // 2 :], memory[::2]]
        results = hvd.grouped_allreduce_(given, op=hvd.Sum)
        assert all(result is tensor for result, tensor in zip(results, given, strict=True))
        assert all(bool((tensor == total).all()) for tensor in given)
        results = hvd.grouped_allreduce([memory, memory], op=hvd.Sum)
        assert all(bool((result == total * world).all()) for result in results)
