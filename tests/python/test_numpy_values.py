"""ronde.numpy: values of every operation against NumPy, by type, size and number of ranks."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import ronde.numpy as rnp

WORLDS = pytest.mark.ranks(1, 2, 3, 5)
FLOATS = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]
INTEGERS = [np.int32, np.int64, np.uint8, np.int8, np.int16, np.uint16, np.uint32, np.uint64]
COMPLEX = [np.complex64, np.complex128]
#: Around the thresholds of the ways that an all-reduce takes.
COUNTS = (0, 1, 7, 64, 1023, 16385)
REDUCED = {
    "Sum": lambda stack: stack.sum(0),
    "Average": lambda stack: stack.sum(0) / len(stack),
    "Min": lambda stack: stack.min(0),
    "Max": lambda stack: stack.max(0),
    "Product": lambda stack: stack.prod(0),
}


def name_of(dtype) -> str:
    return np.dtype(dtype).name


def inputs_of(world: int, shape, dtype) -> list[np.ndarray]:
    """What each rank contributes, small whole numbers in all types: their reductions are exact but for averages."""
    generator = np.random.default_rng(world)
    low = 1 if np.dtype(dtype).kind == "u" else -3
    made = [generator.integers(low, 4, shape) for _ in range(world)]
    if np.dtype(dtype).kind == "c":
        made = [each + 1j * generator.integers(low, 4, shape) for each in made]
    return [each.astype(dtype) for each in made]


def wide(array: np.ndarray) -> np.ndarray:
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def assert_is(result: np.ndarray, expected: np.ndarray, dtype) -> None:
    assert isinstance(result, np.ndarray) and result.dtype == dtype and result.shape == expected.shape
    assert result.flags.c_contiguous and result.flags.writeable
    if np.dtype(dtype).kind in "iu":
        wrapped = np.trunc(expected).astype(np.int64).astype(dtype)
        np.testing.assert_array_equal(result, wrapped)
        return
    eps = float(ml_dtypes.finfo(dtype).eps) if np.dtype(dtype).kind != "c" else float(np.finfo(dtype).eps)
    np.testing.assert_allclose(wide(result), expected, rtol=2 * eps, atol=2 * eps)


@WORLDS
@pytest.mark.parametrize("dtype", FLOATS + INTEGERS + COMPLEX, ids=name_of)
def test_allreduce(rank, world, dtype):
    for op, reduced in REDUCED.items():
        if np.dtype(dtype).kind == "c" and op in ("Min", "Max"):
            continue
        for count in COUNTS:
            inputs = inputs_of(world, count, dtype)
            expected = reduced(np.stack([wide(each) for each in inputs]))
            mine = inputs[rank].copy()
            assert_is(rnp.allreduce(mine, op=getattr(rnp, op), name=f"np.{op}.{count}"), expected, dtype)
            np.testing.assert_array_equal(mine, inputs[rank])
            assert rnp.allreduce_(mine, op=getattr(rnp, op), name=f"np.{op}.{count}.in_place") is mine
            assert_is(mine, expected, dtype)


@WORLDS
def test_float8_and_bool(rank, world):
    for dtype in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        inputs = inputs_of(world, 33, dtype)
        assert_is(rnp.allreduce(inputs[rank], op=rnp.Max), np.stack([wide(each) for each in inputs]).max(0), dtype)
    truths = [np.arange(9) % (r + 2) == 0 for r in range(world)]
    for op, expected in ((rnp.Sum, np.any(truths, 0)), (rnp.Product, np.all(truths, 0))):
        result = rnp.allreduce(truths[rank], op=op)
        assert result.dtype == np.bool_ and np.array_equal(result, expected)


@WORLDS
@pytest.mark.parametrize("shape", [(), (0,), (3, 0, 2), (2, 3, 5), (1,) * 10], ids=str)
def test_shapes(rank, world, shape):
    inputs = inputs_of(world, shape, np.float64)
    expected = np.stack(inputs).sum(0)
    assert_is(rnp.allreduce(inputs[rank], op=rnp.Sum), expected, np.float64)
    assert_is(rnp.synchronize(rnp.allreduce_async(inputs[rank], op=rnp.Sum)), expected, np.float64)
    assert_is(rnp.broadcast(inputs[rank], world - 1), inputs[world - 1], np.float64)


@WORLDS
def test_scales(rank, world):
    inputs = inputs_of(world, 50, np.float64)
    result = rnp.allreduce(inputs[rank], op=rnp.Sum, prescale_factor=0.5, postscale_factor=3.0)
    np.testing.assert_allclose(result, 1.5 * np.stack(inputs).sum(0))


@WORLDS
def test_async_and_grouped(rank, world):
    shapes = [(3,), (), (2, 70000), (0, 4)]
    inputs = [inputs_of(world, shape, np.float32) for shape in shapes]
    sums = [np.stack(each).sum(0) for each in inputs]
    mine = [each[rank].copy() for each in inputs]
    handles = [rnp.allreduce_async(array, op=rnp.Sum) for array in mine]
    handles += [rnp.allreduce_async_(array.copy(), op=rnp.Sum) for array in mine]
    for result, expected in zip([rnp.synchronize(handle) for handle in handles], sums + sums):
        assert_is(result, expected, np.float32)
    assert rnp.synchronize(handles[0]) is None
    for results in (
        rnp.grouped_allreduce(mine, op=rnp.Sum),
        rnp.synchronize(rnp.grouped_allreduce_async(mine, op=rnp.Sum)),
        rnp.grouped_allreduce_([array.copy() for array in mine], op=rnp.Sum),
        rnp.synchronize(rnp.grouped_allreduce_async_([array.copy() for array in mine], op=rnp.Sum)),
    ):
        assert len(results) == len(sums)
        for result, expected in zip(results, sums):
            assert_is(result, expected, np.float32)
    assert rnp.grouped_allreduce([]) == []
    handle = rnp.allreduce_async(np.ones(3), op=rnp.Sum)
    result = rnp.synchronize(handle)
    assert result[0] == world
    with pytest.raises(ValueError, match="no operation is under way"):
        rnp.poll(handle)


@WORLDS
@pytest.mark.parametrize("dtype", [np.float32, np.uint32, np.uint64, ml_dtypes.bfloat16, np.bool_], ids=name_of)
def test_what_only_moves(rank, world, dtype):
    """Also types that nothing is calculated with, and results large enough to stay in the ticket's memory."""
    for columns in (2, 20000):
        rows = [inputs_of(world, (r + 1, columns), np.uint8)[r].astype(dtype) for r in range(world)]
        everything = np.concatenate(rows)
        for result in (
            rnp.allgather(rows[rank]),
            rnp.synchronize(rnp.allgather_async(rows[rank])),
            *rnp.grouped_allgather([rows[rank]]),
            *rnp.synchronize(rnp.grouped_allgather_async([rows[rank]])),
        ):
            assert result.dtype == dtype and np.array_equal(result, everything) and result.flags.writeable
        root = world - 1
        for result in (rnp.gather(rows[rank], root), rnp.synchronize(rnp.gather_async(rows[rank], root))):
            assert (result is None) if rank != root else np.array_equal(result, everything)
        splits = [r + 1 for r in range(world)]
        given = everything if rank == root else np.empty((0, columns), dtype)
        for result in (
            rnp.scatter(given, root, splits if rank == root else None),
            rnp.synchronize(rnp.scatter_async(given, root, splits if rank == root else None)),
        ):
            assert result.dtype == dtype and np.array_equal(result, rows[rank])
        mine = rows[root].copy() if rank == root else np.zeros((root + 1, columns), dtype)
        assert np.array_equal(rnp.broadcast(mine, root), rows[root])
        assert np.array_equal(rnp.synchronize(rnp.broadcast_async(mine, root)), rows[root])
        assert rnp.synchronize(rnp.broadcast_async_(mine.copy(), root)).dtype == dtype
        assert rnp.broadcast_(mine, root) is mine and np.array_equal(mine, rows[root])


@WORLDS
def test_alltoall(rank, world):
    def sent(frm: int, to: int) -> np.ndarray:
        return np.full((frm + 2 * to, 3), 10 * frm + to, np.int32)

    mine = np.concatenate([sent(rank, to) for to in range(world)])
    splits = np.array([rank + 2 * to for to in range(world)])
    expected = np.concatenate([sent(frm, rank) for frm in range(world)])
    for result, received in (
        rnp.alltoall(mine, splits),
        rnp.synchronize(rnp.alltoall_async(mine, [int(count) for count in splits])),
    ):
        assert np.array_equal(result, expected)
        assert received.tolist() == [frm + 2 * rank for frm in range(world)]
    even = np.arange(2 * world) + 100 * rank
    expected = np.concatenate([np.arange(2 * rank, 2 * rank + 2) + 100 * frm for frm in range(world)])
    assert np.array_equal(rnp.alltoall(even), expected)


@WORLDS
def test_reducescatter(rank, world):
    inputs = inputs_of(world, (2 * world + 1, 3), np.float64)
    own = np.array_split(np.stack(inputs).sum(0), world)[rank]
    for result in (
        rnp.reducescatter(inputs[rank], op=rnp.Sum),
        rnp.synchronize(rnp.reducescatter_async(inputs[rank], op=rnp.Sum)),
        *rnp.grouped_reducescatter([inputs[rank]], op=rnp.Sum),
        *rnp.synchronize(rnp.grouped_reducescatter_async([inputs[rank]], op=rnp.Sum)),
    ):
        assert_is(result, own, np.float64)
    assert_is(rnp.reducescatter(inputs[rank]), own / world, np.float64)


@WORLDS
def test_reduce(rank, world):
    inputs = inputs_of(world, 9, np.float32)
    expected = np.stack(inputs).sum(0)
    root = world - 1
    for result in (
        rnp.reduce(inputs[rank], root, op=rnp.Sum),
        rnp.synchronize(rnp.reduce_async(inputs[rank], root, op=rnp.Sum)),
    ):
        assert (result is None) if rank != root else np.array_equal(result, expected)
    for reduce_ in (rnp.reduce_, lambda *a, **k: rnp.synchronize(rnp.reduce_async_(*a, **k))):
        mine = inputs[rank].copy()
        assert reduce_(mine, root, op=rnp.Sum) is mine
        assert np.array_equal(mine, expected if rank == root else inputs[rank])


@WORLDS
def test_prefixes(rank, world):
    inputs = inputs_of(world, 9, np.float64)
    upto, before = np.stack(inputs[: rank + 1]).sum(0), np.stack([np.zeros(9), *inputs[:rank]]).sum(0)
    for result in (rnp.scan(inputs[rank]), rnp.synchronize(rnp.scan_async(inputs[rank]))):
        assert_is(result, upto, np.float64)
    for result in (rnp.exscan(inputs[rank]), rnp.synchronize(rnp.exscan_async(inputs[rank]))):
        assert_is(result, before, np.float64)
    for in_place, expected in (
        (rnp.scan_, upto),
        (rnp.exscan_, before),
        (lambda array: rnp.synchronize(rnp.scan_async_(array)), upto),
        (lambda array: rnp.synchronize(rnp.exscan_async_(array)), before),
    ):
        mine = np.zeros((9, 2))
        mine[:, 0] = inputs[rank]
        in_place(mine[:, 0])
        assert np.array_equal(mine, np.stack([expected, np.zeros(9)], 1))
    assert rnp.scan(rank, op=rnp.Max) == rank


@pytest.mark.ranks(2, 3)
def test_messages(rank, world):
    following, before = (rank + 1) % world, (rank - 1) % world
    sending = rnp.send_async(np.full(4, rank, np.uint32), following, tag=3)
    box = np.zeros((2, 2), np.uint32)
    assert rnp.recv(box, tag=3) == before and (box == before).all()
    assert rnp.synchronize(sending) is None
    strided = np.zeros((4, 2))
    receiving = rnp.recv_async(strided[:, 0], before)
    rnp.send(np.arange(4.0) + rank, following)
    assert rnp.synchronize(receiving) == before
    assert np.array_equal(strided, np.stack([np.arange(4.0) + before, np.zeros(4)], 1))


@WORLDS
def test_objects_barrier_and_join(rank, world):
    assert rnp.broadcast_object({"of": rank}, world - 1) == {"of": world - 1}
    assert rnp.allgather_object("x" * rank) == ["x" * r for r in range(world)]
    rnp.barrier()
    for _ in range(rank):
        rnp.allreduce(np.ones(2), op=rnp.Sum, name="np.until_joined")
    assert 0 <= rnp.join() < world


@pytest.mark.ranks(3)
def test_process_sets(rank, world):
    some = rnp.add_process_set([0, 2])
    try:
        if some.included():
            assert rnp.allreduce(float(rank), op=rnp.Sum, process_set=some) == 2.0
            assert rnp.allgather([rank], process_set=some).tolist() == [0, 2]
            with rnp.allreduce_init(array := np.ones(3), "np.of_some", op=rnp.Sum, process_set=some) as again:
                again()
            assert array.tolist() == [2, 2, 2]
    finally:
        assert rnp.remove_process_set(some)
