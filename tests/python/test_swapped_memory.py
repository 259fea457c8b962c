"""Tensors that the program gives other memory while a call is under way: the engine writes to what it was given."""

from __future__ import annotations

import threading
import time

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group

ELEMENTS = 4096


def swap_data(tensor):
    tensor.data = torch.zeros(ELEMENTS)


def swap_storage(tensor):
    tensor.set_(torch.zeros(ELEMENTS).untyped_storage(), 0, (ELEMENTS,))


def drop(tensor):
    del tensor


def begin_named(hvd, tensor):
    return hvd.allreduce_async_(tensor, op=hvd.Sum, name="swapped")


def begin_listed(hvd, tensor):
    return hvd.grouped_allreduce_async_([tensor, torch.ones(3)], op=hvd.Sum, name="swapped.list")


def begin_scan(hvd, tensor):
    return hvd.scan_async_(tensor, op=hvd.Sum, name="swapped.scan")


def begin_broadcast(hvd, tensor):
    return hvd.broadcast_async_(tensor, 1, name="swapped.broadcast")


def begin_of_torch(hvd, tensor):
    return dist.all_reduce(tensor, async_op=True)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("change", [swap_data, swap_storage, drop])
@pytest.mark.parametrize("begin", [begin_named, begin_listed, begin_scan, begin_broadcast, begin_of_torch])
def test_nothing_is_written_to_freed_memory(hvd, rank, begin, change):
    with default_group(rank, 2):
        for _ in range(20):
            tensor = torch.full((ELEMENTS,), rank + 1.0)
            if rank == 1:
                hvd.barrier()  # by then rank 0 has changed it, and made others where it lay
            handle = begin(hvd, tensor)
            others = []
            if rank == 0:
                change(tensor)
                del tensor
                others = [torch.full((ELEMENTS,), 5.0) for _ in range(8)]
                hvd.barrier()
            handle.wait() if begin is begin_of_torch else hvd.synchronize(handle)
            assert all(bool((other == 5.0).all()) for other in others)


def call_named(hvd, tensor):
    hvd.allreduce_(tensor, op=hvd.Sum, name="swapped.blocking")


def call_of_torch(hvd, tensor):
    dist.all_reduce(tensor)


@pytest.mark.ranks(2)
@pytest.mark.parametrize("change", [swap_data, swap_storage])
@pytest.mark.parametrize("call", [call_named, call_of_torch])
def test_nor_by_a_blocking_call_while_another_thread_changes_the_tensor(hvd, rank, call, change):
    with default_group(rank, 2):
        for _ in range(20):
            tensor = torch.full((ELEMENTS,), rank + 1.0)
            others, is_under_way = [], threading.Event()

            def change_it():
                is_under_way.wait(30)
                time.sleep(0.002)  # within the call: rank 1 makes its own only when this is done
                change(tensor)
                others.extend(torch.full((ELEMENTS,), 5.0) for _ in range(8))
                hvd.barrier()

            if rank == 1:
                hvd.barrier()
                call(hvd, tensor)
            else:
                thread = threading.Thread(target=change_it)
                thread.start()
                is_under_way.set()
                call(hvd, tensor)
                thread.join()
            assert all(bool((other == 5.0).all()) for other in others)
