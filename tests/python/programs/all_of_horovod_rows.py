"""Horovod's operations along dimension 0 and its broadcasts, each in all its forms, against NumPy."""

from __future__ import annotations

from typing import Any, Dict, List

import numpy as np
import torch
from all_of_horovod_expect import raises
from all_of_horovod_reductions import Forms, of_members, polled
from all_of_horovod_reference import REDUCED, Array, check, numbers, tensor_of

TYPES = [
    torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
]


def rows_of(rank: int, salt: int = 0) -> Array:
    """More or fewer rows on each rank, on some none."""
    return numbers(rank, ((rank + salt) % 3, 2), salt)


def check_allgather(ops: Any, where: Any, rank: int) -> None:
    """Rows of all, one after the other."""
    for dtype in TYPES:
        mine = tensor_of(rows_of(rank), dtype)
        expected = np.concatenate([rows_of(each) for each in where.ranks])
        check(ops.allgather(mine, name=f"all.{dtype}", process_set=where), expected, f"allgather of {dtype}", dtype)
    result = polled(ops, ops.allgather_async(mine, process_set=where))
    check(result, expected, "allgather_async", dtype)
    several = [[rows_of(each, salt) for each in where.ranks] for salt in range(3)]
    mine = [tensor_of(rows_of(rank, salt)) for salt in range(3)]
    for form, results in (
        ("grouped_allgather", ops.grouped_allgather(mine, process_set=where)),
        ("grouped_allgather_async", ops.synchronize(ops.grouped_allgather_async(mine, process_set=where))),
    ):
        for result, parts in zip(results, several):
            check(result, np.concatenate(parts), form)
    with raises((ValueError, RuntimeError), "dimension"):
        ops.allgather(torch.tensor(1.0), name="all.scalar", process_set=where)


def check_gradients_of_allgather(ops: Any, where: Any, rank: int) -> None:
    """The mean of all ranks' gradients, of which each gets those of its own rows."""
    count = sum(len(rows_of(each, 1)) for each in where.ranks)
    mean = np.mean([numbers(each, (count, 2), 2) for each in where.ranks], axis=0)
    before = sum(len(rows_of(each, 1)) for each in where.ranks if each < rank)
    expected = mean[before : before + len(rows_of(rank, 1))]
    mine = tensor_of(rows_of(rank, 1)).requires_grad_()
    (ops.allgather(mine, process_set=where) * tensor_of(numbers(rank, (count, 2), 2))).sum().backward()
    check(mine.grad, expected, "the gradient of allgather")
    several = [tensor_of(rows_of(rank, 1)).requires_grad_() for _ in range(2)]
    first, second = ops.grouped_allgather(several, process_set=where)
    ((first + second) * tensor_of(numbers(rank, (count, 2), 2))).sum().backward()
    for each in several:
        check(each.grad, expected, "the gradient of grouped_allgather")


def broadcast_forms(ops: Any) -> Forms:
    return {
        "broadcast": ops.broadcast,
        "broadcast_": ops.broadcast_,
        "broadcast_async": lambda *a, **k: polled(ops, ops.broadcast_async(*a, **k)),
        "broadcast_async_": lambda *a, **k: ops.synchronize(ops.broadcast_async_(*a, **k)),
    }


def check_broadcast(ops: Any, where: Any, rank: int) -> None:
    """Roots are ranks of the job, in a process set too."""
    for root in where.ranks:
        for form, call in broadcast_forms(ops).items():
            mine = tensor_of(numbers(rank))
            result = call(mine, root_rank=root, name=f"all.{root}", process_set=where)
            check(result, numbers(root), f"{form} from {root}")
            check(mine, numbers(root if form.endswith("_") else rank), f"the input of {form}")
            assert (result is mine) == form.endswith("_")
        mine = tensor_of(numbers(rank)).requires_grad_()
        (ops.broadcast(mine, root, process_set=where) * tensor_of(numbers(rank, salt=2))).sum().backward()
        mean = np.mean(of_members(where, salt=2), axis=0)
        check(mine.grad, mean if rank == root else np.zeros_like(mean), "the gradient of broadcast")
    for dtype in TYPES:
        result = ops.broadcast(tensor_of(numbers(rank), dtype), where.ranks[-1], process_set=where)
        check(result, numbers(where.ranks[-1]), f"broadcast of {dtype}", dtype)


def parts_for(rank: int, size: int) -> List[int]:
    """How many rows this rank sends to each: other numbers for each pair."""
    return [(2 * rank + place) % 3 for place in range(size)]


def check_alltoall(ops: Any, where: Any, rank: int) -> None:
    """With equal parts it is a tensor, with splits a tensor and what each rank has sent."""
    size, own = len(where.ranks), where.ranks.index(rank)
    for dtype in TYPES:
        expected = np.concatenate([numbers(each, (2 * size, 3))[2 * own : 2 * own + 2] for each in where.ranks])
        mine = tensor_of(numbers(rank, (2 * size, 3)), dtype)
        check(ops.alltoall(mine, process_set=where), expected, f"alltoall of {dtype}", dtype)
        check(ops.synchronize(ops.alltoall_async(mine, process_set=where)), expected, "alltoall_async", dtype)
    sent: Dict[int, Array] = {each: numbers(each, (sum(parts_for(each, size)), 2)) for each in where.ranks}
    received, counts = [], []
    for each in where.ranks:
        first = sum(parts_for(each, size)[:own])
        counts.append(parts_for(each, size)[own])
        received.append(sent[each][first : first + counts[-1]])
    splits = torch.tensor(parts_for(rank, size), dtype=torch.int32)
    for form, (result, told) in (
        ("alltoall", ops.alltoall(tensor_of(sent[rank]), splits, "all.parts", where)),
        ("alltoall_async", polled(ops, ops.alltoall_async(tensor_of(sent[rank]), splits=splits, process_set=where))),
    ):
        check(result, np.concatenate(received), f"{form} with splits")
        check(told, counts, f"splits of {form}", torch.int32)
    # The gradients go back the way the rows have come: each is multiplied by what its receiver multiplies with.
    mine = tensor_of(sent[rank]).requires_grad_()
    result, _ = ops.alltoall(mine, splits=splits, process_set=where)
    (result * (rank + 1)).sum().backward()
    factors = np.repeat([each + 1.0 for each in where.ranks], parts_for(rank, size))
    check(mine.grad, np.stack([factors, factors], axis=1), "the gradient of alltoall")


def own_rows(where: Any, rank: int, values: Array) -> Array:
    """The first ranks get one row more where they cannot be dealt evenly."""
    return np.array_split(values, len(where.ranks))[where.ranks.index(rank)]


def check_reducescatter(hvd: Any, ops: Any, where: Any, rank: int) -> None:
    """One tensor and several; with an uneven number of rows."""
    shape = (2 * len(where.ranks) + 1, 3)
    values = of_members(where, shape=shape)
    for op in ("Average", "Sum", "Min", "Max", "Product"):
        expected = own_rows(where, rank, REDUCED[op](values))
        mine = tensor_of(numbers(rank, shape))
        how = {"op": getattr(ops, op), "process_set": where}
        check(ops.reducescatter(mine, name=f"all.{op}", **how), expected, f"reducescatter {op}")
        check(polled(ops, ops.reducescatter_async(mine, **how)), expected, f"reducescatter_async {op}")
        for form, results in (
            ("grouped_reducescatter", ops.grouped_reducescatter([mine, mine + 0], **how)),
            (
                "grouped_reducescatter_async",
                ops.synchronize(ops.grouped_reducescatter_async([mine, mine + 0], **how)),
            ),
        ):
            for result in results:
                check(result, expected, f"{form} {op}")
    check(ops.reducescatter(mine, process_set=where), own_rows(where, rank, np.mean(values, axis=0)), "without op")
    total = 0.25 * 8.0 * own_rows(where, rank, np.sum(values, axis=0))
    scales = {"op": ops.Sum, "prescale_factor": 0.25, "postscale_factor": 8.0, "process_set": where}
    check(ops.reducescatter(mine, compression=hvd.Compression.fp16, **scales), total, "reducescatter scaled")
    check(ops.synchronize(ops.reducescatter_async(mine, **scales)), total, "reducescatter_async scaled")
    [result] = ops.grouped_reducescatter([mine], compression=hvd.Compression.fp16, **scales)
    check(result, total, "grouped_reducescatter scaled")
    [result] = ops.synchronize(ops.grouped_reducescatter_async([mine], **scales))
    check(result, total, "grouped_reducescatter_async scaled")
    for dtype in (torch.int32, torch.int64, torch.float16, torch.float64):
        result = ops.reducescatter(tensor_of(numbers(rank, shape), dtype), op=ops.Sum, process_set=where)
        check(result, total / 2, f"reducescatter of {dtype}", dtype)
    check_gradients_of_reducescatter(ops, where, rank, shape)


def check_gradients_of_reducescatter(ops: Any, where: Any, rank: int, shape: Any) -> None:
    """All ranks' gradients; times the number of ranks where it was a sum."""
    size = len(where.ranks)
    of_all = np.concatenate([own_rows(where, each, numbers(each, shape, 2)) for each in where.ranks])
    mine_of_them = tensor_of(own_rows(where, rank, numbers(rank, shape, 2)))
    for op, factor in (("Average", 1.0), ("Sum", float(size))):
        how = {"op": getattr(ops, op), "prescale_factor": 0.5, "postscale_factor": 4.0, "process_set": where}
        mine = tensor_of(numbers(rank, shape)).requires_grad_()
        (ops.reducescatter(mine, **how) * mine_of_them).sum().backward()
        check(mine.grad, 2.0 * factor * of_all, f"the gradient of reducescatter {op}")
        several = [tensor_of(numbers(rank, shape)).requires_grad_() for _ in range(2)]
        first, second = ops.grouped_reducescatter(several, **how)
        ((first + second) * mine_of_them).sum().backward()
        for each in several:
            check(each.grad, 2.0 * factor * of_all, f"the gradient of grouped_reducescatter {op}")


def check_rows(hvd: Any, ops: Any, where: Any, rank: int) -> None:
    """All of them, on the ranks of the process set, of which this is one."""
    check_allgather(ops, where, rank)
    check_gradients_of_allgather(ops, where, rank)
    check_broadcast(ops, where, rank)
    check_alltoall(ops, where, rank)
    check_reducescatter(hvd, ops, where, rank)
    assert ops.synchronize("no handle") is None
    with raises(ValueError, "handle"):
        ops.poll("no handle")
