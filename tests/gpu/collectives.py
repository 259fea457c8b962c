"""``torch.distributed`` over Ronde with tensors on a GPU, beside values computed by hand."""

from __future__ import annotations

import os
from typing import Any, List

import torch
import torch.distributed as dist

import ronde.torch
from checking import DEVICE, IS_GPU, equal, expect, keep_busy, run, set_up, stream

set_up()
dist.init_process_group(os.environ.get("RONDE_TEST_BACKEND", "ronde"))
RANK, WORLD = dist.get_rank(), dist.get_world_size()
SUM_OF_RANKS = WORLD * (WORLD - 1) // 2
SIZES = [0, 1, 7, 1023, 65_537, (1 << 20) + 3]
LARGE = 16 << 20


def pattern(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small whole numbers, which all types add up exactly."""
    return (torch.arange(count, device=DEVICE) % 7).to(dtype)


def mine(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return pattern(count, dtype) + RANK


def sum_of_all(count: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return pattern(count, dtype) * WORLD + SUM_OF_RANKS


def all_reduce_of_types_and_sizes() -> None:
    for dtype in (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.float64, torch.uint8):
        for count in [*SIZES, *([LARGE] if dtype in (torch.float32, torch.bfloat16) else [])]:
            tensor = mine(count, dtype)
            dist.all_reduce(tensor)
            equal(tensor, sum_of_all(count, dtype), f"SUM {dtype} {count}")
            tensor = mine(count, dtype)
            dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
            equal(tensor, pattern(count, dtype) + (WORLD - 1), f"MAX {dtype} {count}")
            if dtype.is_floating_point:
                tensor = mine(count, dtype)
                dist.all_reduce(tensor, op=dist.ReduceOp.AVG)
                equal(tensor, pattern(count, dtype) + (WORLD - 1) / 2, f"AVG {dtype} {count}")


def all_reduce_again_and_again() -> None:
    """The same memory each time: the engine plans what comes back."""
    tensor = torch.empty(10_000, device=DEVICE)
    for turn in range(60):
        tensor.copy_(mine(10_000))
        tensor += turn
        dist.all_reduce(tensor)
        tensor -= WORLD * turn
        equal(tensor, sum_of_all(10_000), f"turn {turn}")


def other_operations() -> None:
    for count in [*SIZES, 4 << 20]:
        for root in (0, WORLD - 1):
            tensor = mine(count)
            dist.broadcast(tensor, root)
            equal(tensor, pattern(count) + root, f"broadcast {count}")
            tensor = mine(count)
            dist.reduce(tensor, root)
            equal(tensor, sum_of_all(count) if root == RANK else mine(count), f"reduce {count}")
        ranks = [pattern(count) + each for each in range(WORLD)]
        outputs = [torch.empty(count, device=DEVICE) for _ in range(WORLD)]
        dist.all_gather(outputs, mine(count))
        equal(torch.cat(outputs), torch.cat(ranks), f"all_gather {count}")
        output = torch.empty(WORLD * count, device=DEVICE)
        dist.all_gather_into_tensor(output, mine(count))
        equal(output, torch.cat(ranks), f"all_gather_into_tensor {count}")
        part = torch.empty(count, device=DEVICE)
        dist.reduce_scatter_tensor(part, mine(WORLD * count))
        equal(part, sum_of_all(WORLD * count)[RANK * count : (RANK + 1) * count], f"reduce_scatter_tensor {count}")
        dist.reduce_scatter(part, list(mine(WORLD * count).chunk(WORLD)) if count else [part.clone() for _ in range(WORLD)])
        equal(part, sum_of_all(WORLD * count)[RANK * count : (RANK + 1) * count], f"reduce_scatter {count}")
        dist.all_to_all_single(output, mine(WORLD * count))
        whole = pattern(WORLD * count)[RANK * count : (RANK + 1) * count]
        equal(output, torch.cat([whole + each for each in range(WORLD)]), f"all_to_all_single {count}")
        gathered = [torch.empty(count, device=DEVICE) for _ in range(WORLD)] if RANK == 0 else None
        dist.gather(mine(count), gathered, dst=0)
        if gathered is not None:
            equal(torch.cat(gathered), torch.cat(ranks), f"gather {count}")
        dist.scatter(part, ranks if RANK == WORLD - 1 else None, src=WORLD - 1)
        equal(part, ranks[RANK], f"scatter {count}")
        dist.barrier()


def unequal_parts() -> None:
    sent = [RANK + each + 1 for each in range(WORLD)]
    output = torch.empty(sum(sent), device=DEVICE)
    given = torch.cat([torch.full((size,), float(10 * RANK + each), device=DEVICE) for each, size in enumerate(sent)])
    dist.all_to_all_single(output, given, sent, sent)
    equal(output, torch.cat([torch.full((size,), 10.0 * each + RANK) for each, size in enumerate(sent)]), "all_to_all_single")
    outputs = [torch.empty(size, device=DEVICE) for size in sent]
    dist.all_to_all(outputs, list(given.split(sent)))
    equal(torch.cat(outputs), output, "all_to_all")


def pairs() -> None:
    to, source = (RANK + 1) % WORLD, (RANK - 1) % WORLD
    for count in SIZES:
        buffer = torch.empty(count, device=DEVICE)
        keep_busy()
        works = [dist.isend(mine(count), to), dist.irecv(buffer, source)]
        for work in works:
            work.wait()
        equal(buffer, pattern(count) + source, f"isend and irecv {count}")
        buffer = torch.empty(count, device=DEVICE)
        calls = [dist.P2POp(dist.isend, mine(count), to), dist.P2POp(dist.irecv, buffer, source)]
        for work in dist.batch_isend_irecv(calls):
            work.wait()
        equal(buffer, pattern(count) + source, f"batch {count}")


def after_long_kernels() -> None:
    """What is computed just before a call, and read just after it."""
    for count in (5, 70_000, 4 << 20):
        for is_async in (False, True):
            tensor = torch.zeros(count, device=DEVICE)
            keep_busy()
            tensor += mine(count)
            work = dist.all_reduce(tensor, async_op=is_async)
            if is_async:
                work.wait()
            read = tensor * 2 + 1
            tensor.zero_()
            equal(read, sum_of_all(count) * 2 + 1, f"all_reduce {count} {is_async}")
            output = torch.empty(WORLD * count, device=DEVICE)
            given = torch.zeros(count, device=DEVICE)
            keep_busy()
            output.fill_(-1)
            given += mine(count)
            work = dist.all_gather_into_tensor(output, given, async_op=is_async)
            if is_async:
                work.wait()
            read = output + 1
            output.zero_()
            equal(read, torch.cat([pattern(count) + each + 1 for each in range(WORLD)]), f"all_gather {count} {is_async}")


def on_other_streams() -> None:
    for count in (5, 70_000, 4 << 20):
        expected = sum_of_all(count) * 2
        base = mine(count)
        if IS_GPU:
            torch.cuda.synchronize()
        with stream():  # all of it there
            tensor = torch.zeros(count, device=DEVICE)
            keep_busy()
            tensor += base
            dist.all_reduce(tensor)
            read = tensor * 2
        if IS_GPU:
            torch.cuda.synchronize()
        equal(read, expected, f"made and read on a side stream {count}")
        with stream():  # begun there, waited for here
            tensor = torch.zeros(count, device=DEVICE)
            keep_busy()
            tensor += base
            work = dist.all_reduce(tensor, async_op=True)
        work.wait()
        read = tensor * 2
        equal(read, expected, f"begun on a side stream {count}")
        tensor = torch.zeros(count, device=DEVICE)  # begun here, waited for there
        keep_busy()
        tensor += base
        work = dist.all_reduce(tensor, async_op=True)
        with stream():
            work.wait()
            read = tensor * 2
            if IS_GPU:
                torch.cuda.current_stream().synchronize()
            equal(read, expected, f"waited for on a side stream {count}")


def outputs_still_written_by_kernels() -> None:
    """A kernel before the call writes to the output: the result comes after it, whichever thread brings it."""
    for count in (5, 70_000):
        for looks_at_future in (False, True):
            with stream():
                output = torch.empty(count, device=DEVICE)
                parts = [pattern(count) + each for each in range(WORLD)] if RANK == 0 else None
                for _ in range(5 if RANK > 0 else 1):  # the root must have sent while the others' kernels still run
                    keep_busy()
                output.fill_(-1)
                work = dist.scatter(output, parts, src=0, async_op=True)
                if looks_at_future:
                    work.get_future().wait()
                work.wait()
                read = output + 1
            if IS_GPU:
                torch.cuda.synchronize()
            equal(output, pattern(count) + RANK, f"scatter {count} {looks_at_future}")
            equal(read, pattern(count) + RANK + 1, f"scatter {count} {looks_at_future}, read")
            with stream():
                output = torch.empty(count * WORLD, device=DEVICE)
                given = mine(count)
                keep_busy()
                output.fill_(-1)
                work = dist.all_gather_into_tensor(output, given, async_op=True)
                if looks_at_future:
                    work.get_future().wait()
                work.wait()
            if IS_GPU:
                torch.cuda.synchronize()
            equal(output, torch.cat([pattern(count) + each for each in range(WORLD)]), f"all_gather {count} {looks_at_future}")


def futures() -> None:
    work = dist.all_reduce(mine(1000), async_op=True)
    doubled = work.get_future().then(lambda future: future.value()[0] * 2)
    equal(doubled.wait(), sum_of_all(1000) * 2, "then")
    works = [dist.all_reduce(mine(1000 + each), async_op=True) for each in range(8)]
    for each, work in reversed(list(enumerate(works))):
        work.wait()
        expect(work.is_completed(), "completed")
        equal(work.result()[0], sum_of_all(1000 + each), f"of several, waited for backwards {each}")
    tensors = [mine(50_000) for _ in range(4)]
    works = [dist.all_reduce(tensor, async_op=True) for tensor in tensors]
    read = tensors[0]
    del tensors, works  # nobody waits: its results come all the same
    dist.barrier()
    for _ in range(2000):
        if float(read[-1]) == float(sum_of_all(50_000)[-1]):
            break
    equal(read, sum_of_all(50_000), "dropped")


def layouts() -> None:
    base = mine(6 * 40).reshape(6, 40)
    total = sum_of_all(6 * 40).reshape(6, 40)
    for name, view in {
        "t": lambda x: x.t(),
        "every second": lambda x: x[:, ::2],
        "column": lambda x: x[:, 3],
        "channels_last": lambda x: x.reshape(2, 3, 5, 8).contiguous(memory_format=torch.channels_last),
    }.items():
        tensor = view(base.clone())
        dist.all_reduce(tensor)
        equal(tensor, view(total), f"all_reduce {name}")
        tensor = view(base.clone())
        dist.broadcast(tensor, WORLD - 1)
        equal(tensor, view(base - RANK + WORLD - 1), f"broadcast {name}")
        outputs = [torch.empty_like(view(base)) for _ in range(WORLD)]
        dist.all_gather(outputs, view(base))
        for each, output in enumerate(outputs):
            equal(output, view(base - RANK + each), f"all_gather {name}")
    whole = base.clone()
    dist.all_reduce(whole[2:4])  # a part: the rest keeps its values
    equal(whole, torch.cat([base[:2], total[2:4], base[4:]]), "rows")
    one = torch.complex(mine(9), mine(9))
    dist.all_reduce(one)
    equal(one, torch.complex(sum_of_all(9), sum_of_all(9)), "complex")
    with torch.inference_mode():
        tensor = mine(9)
        dist.all_reduce(tensor)
        equal(tensor, sum_of_all(9), "inference")
    expanded = torch.zeros(1, device=DEVICE).expand(4)
    try:
        dist.all_reduce(expanded)
        expect(False, "expanded: no error")
    except ValueError as error:
        expect("one place in memory" in str(error), f"expanded: {error}")


def objects_and_sparse() -> None:
    told: List[Any] = [None] * WORLD
    dist.all_gather_object(told, {"rank": RANK})
    expect(told == [{"rank": each} for each in range(WORLD)], f"objects {told}")
    told = [RANK]
    dist.broadcast_object_list(told, src=WORLD - 1)
    expect(told == [WORLD - 1], f"broadcast_object_list {told}")
    sparse = torch.sparse_coo_tensor([[RANK, WORLD]], [1.0, 2.0], (WORLD + 1,), device=DEVICE)
    dist.all_reduce(sparse)
    equal(sparse.to_dense(), torch.tensor([1.0] * WORLD + [2.0 * WORLD]), "sparse")


def functional() -> None:
    import torch.distributed._functional_collectives as funcol

    made = funcol.all_reduce(mine(1000), "sum", dist.group.WORLD)
    equal(made + 1, sum_of_all(1000) + 1, "all_reduce")
    made = funcol.all_gather_tensor(mine(1000), 0, dist.group.WORLD)
    equal(made + 1, torch.cat([pattern(1000) + each + 1 for each in range(WORLD)]), "all_gather_tensor")
    made = funcol.reduce_scatter_tensor(mine(1000 * WORLD), "sum", 0, dist.group.WORLD)
    equal(made + 1, sum_of_all(1000 * WORLD)[1000 * RANK : 1000 * (RANK + 1)] + 1, "reduce_scatter_tensor")


def groups() -> None:
    pair = dist.new_group([0, 1], backend="ronde")
    if RANK < 2:
        tensor = mine(100)
        dist.all_reduce(tensor, group=pair)
        equal(tensor, pattern(100) * 2 + 1, "new_group")
    mesh = dist.init_device_mesh(DEVICE.type, (WORLD,))
    tensor = mine(100)
    dist.all_reduce(tensor, group=mesh.get_group())
    equal(tensor, sum_of_all(100), "device mesh")


def errors() -> None:
    """Ranks that do not match are told so, and what comes after has the right values: through other memory."""
    for count in (10, 100_000):
        tensor = mine(count)
        dist.all_reduce(tensor)
        try:
            dist.all_reduce(mine(count + RANK))
            expect(False, "shapes that differ: no error")
        except RuntimeError as error:
            expect("shape" in str(error) or "size" in str(error), f"shapes: {error}")
        for _ in range(4):
            tensor = mine(count)
            dist.all_reduce(tensor)
            equal(tensor, sum_of_all(count), f"after an error {count}")


def graphs() -> None:
    """A call within the capture of a CUDA graph is refused, and the job goes on."""
    if not IS_GPU:
        return
    tensor = mine(100)
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            dist.all_reduce(tensor)
        expect(False, "no error")
    except Exception as error:
        if RANK == 0:
            print(f"in a graph: {type(error).__name__}: {str(error)[:300]}", flush=True)
    torch.cuda.synchronize()
    tensor = mine(100)
    dist.all_reduce(tensor)
    equal(tensor, sum_of_all(100), "after it")


if __name__ == "__main__":
    checks = [
        all_reduce_of_types_and_sizes, all_reduce_again_and_again, other_operations, unequal_parts, pairs, after_long_kernels,
        on_other_streams, outputs_still_written_by_kernels, futures, layouts, objects_and_sparse, functional, groups, errors,
        graphs,
    ]  # fmt: skip
    run(checks, RANK)
    dist.destroy_process_group()
