"""Handles: any order on any rank, duplicates, dropping, threads."""

from __future__ import annotations

import contextlib
import gc
import random
import threading

import pytest
import torch


def resnet50_sizes() -> list[int]:
    """Elements of ResNet-50's 161 parameters, first layer first."""
    sizes = [9408, 64, 64]
    width_in = 64
    for width, blocks in ((64, 3), (128, 4), (256, 6), (512, 3)):
        out = 4 * width
        for block in range(blocks):
            sizes += [width_in * width, width, width, 9 * width * width, width, width, width * out, out, out]
            if block == 0:
                sizes += [width_in * out, out, out]
            width_in = out
    return sizes + [2048000, 1000]


@pytest.mark.ranks(2, 3, 5)
def test_any_order(hvd, rank, world):
    names = [f"t{i}" for i in range(40)]
    for step in range(5):
        order = random.Random(1000 * step + rank).sample(names, len(names))
        handles = {
            name: hvd.allreduce_async(torch.full((int(name[1:]) * 37 + 1,), rank + 1.0), name=name, op=hvd.Sum)
            for name in order
        }
        for name in random.Random(step - rank).sample(names, len(names)):
            result = hvd.synchronize(handles[name])
            assert result.shape == (int(name[1:]) * 37 + 1,) and bool((result == world * (world + 1) / 2).all())


@pytest.mark.long
@pytest.mark.ranks(3, deadline=300)
def test_resnet50_in_another_order_on_each_rank(hvd, rank, world):
    sizes = resnet50_sizes()
    assert len(sizes) == 161 and sum(sizes) == 25_557_032
    gradients = [torch.empty(size) for size in sizes]
    for step in range(100):
        for i, gradient in enumerate(gradients):
            gradient.fill_(float(i + rank + step))
        order = random.Random(31 * step + rank).sample(range(len(sizes)), len(sizes))
        handles = [hvd.allreduce_async_(gradients[i], name=f"gradient.{i}", op=hvd.Sum) for i in order]
        for handle in handles:
            hvd.synchronize(handle)
        for i, gradient in enumerate(gradients):
            expected = float(world * (i + step) + world * (world - 1) // 2)
            assert gradient[0] == expected and gradient[-1] == expected
            if step % 20 == 0:
                assert bool((gradient == expected).all())


@pytest.mark.ranks(1, 2)
def test_duplicate_name(hvd, rank, world):
    first = hvd.allreduce_async(torch.ones(4), name="twin", op=hvd.Sum)
    with pytest.raises(ValueError, match="allreduce.twin"):
        hvd.allreduce_async(torch.ones(4), name="twin", op=hvd.Sum)
    while not hvd.poll(first):  # done, but its name is taken until somebody has waited
        pass
    with pytest.raises(ValueError, match="twin"):
        hvd.allreduce(torch.ones(4), name="twin", op=hvd.Sum)
    assert bool((hvd.synchronize(first) == world).all())
    assert bool((hvd.allreduce(torch.ones(4), name="twin", op=hvd.Sum) == world).all())


@pytest.mark.ranks(2)
def test_poll_and_synchronize(hvd, rank):
    handle = None
    if rank == 0:
        handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum)
        assert not hvd.poll(handle)
    hvd.barrier()  # now the other rank submits
    if rank == 1:
        handle = hvd.allreduce_async(torch.ones(1), name="late", op=hvd.Sum)
    assert hvd.synchronize(handle) == 2
    assert hvd.synchronize(handle) is None and hvd.synchronize(12345) is None
    for unknown in (handle, 12345):
        with pytest.raises(ValueError):
            hvd.poll(unknown)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("times", [100, pytest.param(1000, marks=pytest.mark.long)])
def test_who_polls_while_another_thread_waits(hvd, rank, world, times):
    """Until that has what it waits for, and the operation is freed under the eyes of who polls."""
    handles = []
    is_over = threading.Event()

    def poll():
        while not is_over.is_set():
            for handle in handles:
                with contextlib.suppress(ValueError):  # synchronized already
                    hvd.poll(handle)

    poller = threading.Thread(target=poll)
    poller.start()
    try:
        for _ in range(times):
            handles[:] = [hvd.allreduce_async(torch.ones(n), op=hvd.Sum) for n in (1, 300, 600)]
            assert all(bool((hvd.synchronize(handle) == world).all()) for handle in handles)
    finally:
        is_over.set()
        poller.join()


@pytest.mark.ranks(2, 3)
def test_dropped_handles(hvd, rank, world):
    from ronde import _operation

    others = set(_operation._under_way)  # of tests before this one, which signals have interrupted
    for round_ in range(20):
        for i in range(10):
            hvd.allreduce_async(torch.ones(50_000), name=f"dropped.{i}.{round_}")  # the tensor is dropped as well
        gc.collect()
        torch.full((50_000,), 7.0)  # reuses freed memory, if any was freed too early
        assert hvd.allreduce(torch.ones(1), name="kept", op=hvd.Sum) == world
    hvd.barrier()
    deadline = threading.Event()
    for _ in range(200):
        _operation.release_finished()
        if not _operation._abandoned:
            break
        deadline.wait(0.02)
    assert not _operation._abandoned and _operation._under_way <= others


@pytest.mark.ranks(2)
def test_threads(hvd, rank, world):
    failures = []

    def work(number: int) -> None:
        try:
            for step in range(30):
                result = hvd.allreduce(torch.full((number * 100 + 1,), rank + 1.0), name=f"thread.{number}", op=hvd.Sum)
                assert bool((result == 3).all())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    work(9)
    for thread in threads:
        thread.join()
    assert not failures


@pytest.mark.ranks(2)
def test_a_wait_lets_other_threads_run(hvd, rank):
    """Rank 1 joins only after a Python thread of rank 0 has run while rank 0 was waiting."""
    ran = threading.Event()
    waiting = threading.Event()

    def other() -> None:
        waiting.wait(30)
        hvd.allreduce(torch.ones(1), name="from the other thread")
        ran.set()

    thread = threading.Thread(target=other)
    thread.start()
    waiting.set()
    if rank == 0:
        hvd.allreduce(torch.ones(1), name="main")
    else:
        assert ran.wait(30)
        hvd.allreduce(torch.ones(1), name="main")
    thread.join()
    assert ran.is_set()


@pytest.mark.ranks(2, fresh=True)
def test_init_again(hvd, rank, world):
    for round_ in range(5):
        result = hvd.allreduce(torch.full((3,), float(round_)), op=hvd.Sum)
        assert bool((result == round_ * world).all())
        hvd.shutdown()
        assert not hvd.is_initialized()
        for function in (hvd.rank, hvd.size, hvd.local_rank, hvd.local_size, hvd.cross_rank, hvd.cross_size):
            with pytest.raises(ValueError, match="not initialised"):
                function()
        with pytest.raises(ValueError, match="not initialised"):
            hvd.allreduce(torch.ones(1))
        hvd.shutdown()
        hvd.init()
        hvd.init()
