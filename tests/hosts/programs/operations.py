"""Every operation of ronde.numpy with values that are known, and a digest of sums whose bits depend on their order."""

import hashlib
import sys

import ml_dtypes
import numpy as np

import ronde.numpy as rnp

SIZES = (1, 7, 1000, 300_000)
STEPS = 3


def values(rank, count, dtype):
    """Whole numbers, small enough for every type."""
    return ((np.arange(count) + 3 * rank) % 5 + 1).astype(dtype)


def same(got, expected, what):
    assert got.dtype == expected.dtype and got.shape == expected.shape, (what, got.dtype, got.shape, expected.shape)
    assert (got == expected).all(), (what, got[:5], expected[:5])


def reductions(rank, size, step):
    folds = {rnp.Sum: np.add, rnp.Min: np.minimum, rnp.Max: np.maximum, rnp.Product: np.multiply}
    bits = {rnp.BitAnd: np.bitwise_and, rnp.BitOr: np.bitwise_or, rnp.BitXor: np.bitwise_xor}
    for dtype in (np.float32, np.float64, np.float16, ml_dtypes.bfloat16, np.int8, np.int32, np.int64):
        for op, fold in [*folds.items(), *(bits.items() if np.dtype(dtype).kind == "i" else ())]:
            for count in SIZES if dtype in (np.float32, np.int64) else (7,):
                everyones = [values(each, count, dtype) for each in range(size)]
                expected = everyones[0]
                for each in everyones[1:]:
                    expected = fold(expected, each)
                what = (str(np.dtype(dtype)), op, count)
                same(rnp.allreduce(everyones[rank], op, name=f"{what}"), expected, what)
                if count == 7:
                    at_root = rnp.reduce(everyones[rank], 1, op, name=f"reduce {what}")
                    assert (at_root is None) == (rank != 1)
                    if rank == 1:
                        same(at_root, expected, what)
                    prefix = everyones[0]
                    for each in everyones[1 : rank + 1]:
                        prefix = fold(prefix, each)
                    same(rnp.scan(everyones[rank], op, name=f"scan {what}"), prefix, what)
                    parts = np.array_split(expected, size)
                    same(rnp.reducescatter(everyones[rank], op, name=f"rows {what}"), parts[rank], what)
    average = rnp.allreduce(np.full(5, float(rank + step)), name="average")
    same(average, np.full(5, step + (size - 1) / 2), "average")
    group = rnp.grouped_allreduce([np.full(count, rank, np.int64) for count in SIZES], rnp.Sum, name="group")
    for each, count in zip(group, SIZES):
        same(each, np.full(count, size * (size - 1) // 2), "group")


def rows(rank, size):
    for count in (0, 1, 50_000):
        mine = np.full((count + rank, 2), rank, np.float32)
        expected = np.concatenate([np.full((count + each, 2), each, np.float32) for each in range(size)])
        same(rnp.allgather(mine, name=f"allgather {count}"), expected, "allgather")
        at_root = rnp.gather(mine, size - 1, name=f"gather {count}")
        assert (at_root is None) == (rank != size - 1)
        if rank == size - 1:
            same(at_root, expected, "gather")
        root = np.arange(count * 3.0) if rank == 1 else np.zeros(count * 3)
        same(rnp.broadcast(root, 1, name=f"broadcast {count}"), np.arange(count * 3.0), "broadcast")
        splits = [count + each for each in range(size)]
        whole = np.concatenate([np.full(part, each) for each, part in enumerate(splits)])
        got = rnp.scatter(whole if rank == 0 else whole[:0], 0, splits, name=f"scatter {count}")
        same(got, np.full(splits[rank], rank), "scatter")
        sent = np.concatenate([np.full(part, 10 * rank + each) for each, part in enumerate(splits)])
        received, counts = rnp.alltoall(sent, splits, name=f"alltoall {count}")
        same(received, np.concatenate([np.full(splits[rank], 10 * each + rank) for each in range(size)]), "alltoall")
        assert list(counts) == [splits[rank]] * size


def pairs_and_sets(rank, size):
    for count in SIZES:
        to, source = (rank + 1) % size, (rank - 1) % size
        place = np.empty(count)
        handle = rnp.send_async(np.full(count, float(rank)), to, tag=count)
        rnp.recv(place, source, tag=count)
        rnp.synchronize(handle)
        same(place, np.full(count, float(source)), "recv")
    some = rnp.add_process_set(range(0, size, 2))
    if some.included():
        total = rnp.allreduce(np.full(1000, rank), rnp.Sum, process_set=some)
        same(total, np.full(1000, sum(range(0, size, 2))), "set")
    rnp.remove_process_set(some)
    assert rnp.allgather_object({"rank": rank}) == [{"rank": each} for each in range(size)]
    assert rnp.broadcast_object("word" if rank == 0 else None, 0) == "word"
    rnp.barrier()
    assert rnp.join() in range(size)


def digest(rank, step):
    """Of sums whose bits tell the order in which they were made."""
    hashed = hashlib.sha256()
    random = np.random.default_rng([step, rank])
    for count in SIZES:
        hashed.update(rnp.allreduce(random.standard_normal(count, np.float32), rnp.Sum, name=f"bits {count}").tobytes())
    return hashed.hexdigest()


def main():
    digests = []
    for life in range(2):  # they meet again after a shutdown
        rnp.init()
        rank, size = rnp.rank(), rnp.size()
        for step in range(STEPS):  # from the second on some is replayed
            reductions(rank, size, step)
            rows(rank, size)
            digests.append(digest(rank, step))
        pairs_and_sets(rank, size)
        strangers = rnp.counters()["strangers"]
        rnp.shutdown()
    assert digests[:STEPS] == digests[STEPS:]
    print(*digests)
    print(f"strangers: {strangers}", file=sys.stderr)


main()
