"""The all-reduces of Horovod, each in all its forms, against NumPy."""

from __future__ import annotations

from typing import Any, Callable, Dict, List

import numpy as np
import torch
from all_of_horovod_expect import raises, warns
from all_of_horovod_reference import REDUCED, Array, check, numbers, tensor_of

#: By form: takes what the functions of Horovod take, returns the result.
Forms = Dict[str, Callable[..., Any]]

SHAPES = [(), (1,), (0,), (3, 5), (4099,)]
TYPES = [
    torch.int32, torch.int64, torch.float16, torch.float32, torch.float64,
    torch.uint8, torch.int8, torch.int16, torch.bfloat16,
]


def polled(ops: Any, handle: Any) -> Any:
    """The result of an asynchronous form: asked for until it is there, then fetched."""
    while not ops.poll(handle):
        pass
    return ops.synchronize(handle)


def single_forms(ops: Any) -> Forms:
    return {
        "allreduce": ops.allreduce,
        "allreduce_": ops.allreduce_,
        "allreduce_async": lambda *a, **k: polled(ops, ops.allreduce_async(*a, **k)),
        "allreduce_async_": lambda *a, **k: ops.synchronize(ops.allreduce_async_(*a, **k)),
    }


def grouped_forms(ops: Any) -> Forms:
    return {
        "grouped_allreduce": ops.grouped_allreduce,
        "grouped_allreduce_": ops.grouped_allreduce_,
        "grouped_allreduce_async": lambda *a, **k: polled(ops, ops.grouped_allreduce_async(*a, **k)),
        "grouped_allreduce_async_": lambda *a, **k: ops.synchronize(ops.grouped_allreduce_async_(*a, **k)),
    }


def of_members(where: Any, **shape: Any) -> List[Array]:
    """The values of every rank of the process set."""
    return [numbers(rank, **shape) for rank in where.ranks]


def check_operations(ops: Any, where: Any, rank: int) -> None:
    """Every operation in every form, one tensor and several."""
    for op, reduced in REDUCED.items():
        expected = reduced(of_members(where))
        other = reduced(of_members(where, shape=(7,), salt=1))
        for form, call in single_forms(ops).items():
            mine = tensor_of(numbers(rank))
            result = call(mine, op=getattr(ops, op), name=f"all.{op}", process_set=where)
            check(result, expected, f"{form} {op}")
            check(mine, expected if form.endswith("_") else numbers(rank), f"the input of {form} {op}")
            assert (result is mine) == form.endswith("_")
        for form, call in grouped_forms(ops).items():
            several = [tensor_of(numbers(rank)), tensor_of(numbers(rank, shape=(7,), salt=1))]
            results = call(several, op=getattr(ops, op), process_set=where)
            check(results[0], expected, f"{form} {op}")
            check(results[1], other, f"{form} {op}")
            check(several[0], expected if form.endswith("_") else numbers(rank), f"the input of {form} {op}")


def check_defaults_and_old_spelling(ops: Any, where: Any, rank: int) -> None:
    """Without op it is the average; average= is the forerunner of op=."""
    values = of_members(where)
    mean, total = np.mean(values, axis=0), np.sum(values, axis=0)
    for form, call in {**single_forms(ops), **grouped_forms(ops)}.items():
        is_group = form.startswith("grouped")

        def reduced(**how: Any) -> torch.Tensor:
            mine = tensor_of(numbers(rank))
            result = call([mine] if is_group else mine, process_set=where, **how)
            return result[0] if is_group else result

        check(reduced(), mean, form)
        with warns("average"):
            check(reduced(average=True), mean, f"{form} average=True")
        with warns("average"):
            check(reduced(average=False), total, f"{form} average=False")
        with raises(ValueError, "average"):
            reduced(average=True, op=ops.Sum)


def check_scales(ops: Any, where: Any, rank: int) -> None:
    """Before, after, both."""
    values = of_members(where)
    for before, after in ((0.5, 1.0), (1.0, 4.0), (0.25, 8.0)):
        for op in ("Sum", "Average", "Max"):
            expected = after * REDUCED[op]([before * each for each in values])
            scales = {"prescale_factor": before, "postscale_factor": after, "process_set": where}
            for form, call in single_forms(ops).items():
                check(call(tensor_of(numbers(rank)), op=getattr(ops, op), **scales), expected, f"{form} {op} {scales}")
            for form, call in grouped_forms(ops).items():
                [result] = call([tensor_of(numbers(rank))], op=getattr(ops, op), **scales)
                check(result, expected, f"{form} {op} {scales}")


def check_types_and_shapes(ops: Any, where: Any, rank: int) -> None:
    """Whole numbers are averaged towards zero."""
    for dtype in TYPES:
        for op in ("Sum", "Average", "Min", "Max"):
            expected = REDUCED[op](of_members(where))
            if not dtype.is_floating_point:
                expected = np.trunc(expected)
            mine = tensor_of(numbers(rank), dtype)
            check(ops.allreduce(mine, op=getattr(ops, op), process_set=where), expected, f"{op} of {dtype}", dtype)
    for shape in SHAPES:
        expected = np.sum(of_members(where, shape=shape), axis=0)
        mine = tensor_of(numbers(rank, shape))
        check(ops.allreduce(mine, op=ops.Sum, process_set=where), expected, f"a sum of shape {shape}")


def check_compressed(hvd: Any, ops: Any, where: Any, rank: int) -> None:
    """What travels in 16 bits comes back in its type; the numbers are small enough to be exact."""
    total = np.sum(of_members(where), axis=0)
    for compression in (hvd.Compression.none, hvd.Compression.fp16):
        for dtype in (torch.float32, torch.float64, torch.int32):
            mine = tensor_of(numbers(rank), dtype)
            result = ops.allreduce(mine, op=ops.Sum, compression=compression, process_set=where)
            check(result, total, f"a compressed sum of {dtype}", dtype)
            [result] = ops.grouped_allreduce([mine], op=ops.Sum, compression=compression, process_set=where)
            check(result, total, f"a compressed sum in a group of {dtype}", dtype)


def check_gradients(ops: Any, where: Any, rank: int) -> None:
    """The gradient is reduced as the values were."""
    weights = of_members(where, salt=2)
    for op in ("Sum", "Average"):
        expected = 4.0 * REDUCED[op]([0.5 * each for each in weights])
        how = {"op": getattr(ops, op), "prescale_factor": 0.5, "postscale_factor": 4.0, "process_set": where}
        mine = tensor_of(numbers(rank)).requires_grad_()
        (ops.allreduce(mine, **how) * tensor_of(numbers(rank, salt=2))).sum().backward()
        check(mine.grad, expected, f"the gradient of allreduce {op}")
        several = [tensor_of(numbers(rank)).requires_grad_() for _ in range(2)]
        first, second = ops.grouped_allreduce(several, **how)
        ((first + second) * tensor_of(numbers(rank, salt=2))).sum().backward()
        for each in several:
            check(each.grad, expected, f"the gradient of grouped_allreduce {op}")


def sparse(rank: int) -> torch.Tensor:
    """Two entries in rows that follow from the rank; one of them at a place where all ranks have one."""
    values = tensor_of(numbers(rank, (2, 3)))
    return torch.sparse_coo_tensor(torch.tensor([[1 + rank % 5, 0]]), values, (6, 3), check_invariants=True)


def check_sparse(ops: Any, where: Any, rank: int) -> None:
    """It comes as a function that is called for the result."""
    total = np.zeros((6, 3))
    for each in where.ranks:
        total[[1 + each % 5, 0]] += numbers(each, (2, 3))
    finish = ops.sparse_allreduce_async(sparse(rank), name="all.sparse", op=ops.Sum, process_set=where)
    check(finish().to_dense(), total, "sparse_allreduce_async")
    finish = ops.sparse_allreduce_async(sparse(rank), process_set=where)
    check(finish().to_dense(), total / len(where.ranks), "sparse_allreduce_async")


def check_reductions(hvd: Any, ops: Any, where: Any, rank: int) -> None:
    """All of them, on the ranks of the process set, of which this is one."""
    check_operations(ops, where, rank)
    check_defaults_and_old_spelling(ops, where, rank)
    check_scales(ops, where, rank)
    check_types_and_shapes(ops, where, rank)
    check_compressed(hvd, ops, where, rank)
    check_gradients(ops, where, rank)
    check_sparse(ops, where, rank)
