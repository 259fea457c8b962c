"""Unnamed operations pair by the order in which the program calls them, and by nothing else."""

from __future__ import annotations

import queue
import threading
from typing import Optional

import pytest
import torch

from ronde.exceptions import DuplicateNameError


@pytest.mark.ranks(1, 2)
def test_calls_are_numbered_in_their_order(hvd, rank, world):
    hvd.barrier()
    first = hvd.allreduce_async(torch.ones(3), op=hvd.Sum)
    assert first.name.startswith("noname.")
    handles = [hvd.allreduce_async(torch.ones(3 + i), name="x" if i == 1 else None, op=hvd.Sum) for i in range(3)]
    names = [first.name, *(handle.name for handle in handles)]
    if rank == 0:
        hvd.synchronize(first)
    last = hvd.broadcast_async(torch.ones(2), 0)
    names.append(last.name)
    if rank != 0:
        hvd.synchronize(first)
    for handle in [*handles, last]:
        hvd.synchronize(handle)
    assert names.pop(2) == "allreduce.x"
    numbers = [int(name.rsplit(".", 1)[1]) for name in names]
    assert numbers == list(range(numbers[0], numbers[0] + 4))


@pytest.mark.ranks(2, 3)
def test_a_call_is_not_paired_by_what_was_waited_for(hvd, rank, world):
    """The program that gave wrong sums while a number was free again once its rank had waited."""
    for step in range(30):
        handles = []
        for call in range(3):
            value = float(10**call * (rank + 1) + step)
            handles.append(hvd.allreduce_async(torch.full((4,), value), op=hvd.Sum))
            if (rank + step) % 3 == call:
                hvd.synchronize(handles[0])
                handles[0] = None
        for call, handle in enumerate(handles):
            if handle is not None:
                expected = sum(10**call * (each + 1) + step for each in range(world))
                assert hvd.synchronize(handle).tolist() == [expected] * 4, (step, call)


@pytest.mark.ranks(2)
def test_other_calls_under_one_number_are_a_mismatch(hvd, rank):
    for _ in range(2):  # the second time with the calls before it replayed
        for _ in range(8):
            hvd.allreduce(torch.ones(4))
        with pytest.raises(hvd.HorovodInternalError) as caught:
            if rank == 0:
                hvd.allreduce(torch.ones(4), op=hvd.Sum)
            else:
                hvd.broadcast(torch.ones(4), 0)
        text = str(caught.value)
        assert "the ranks disagree about the operation" in text and text.count("test_names.py:") == 2, text
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@pytest.mark.ranks(2)
def test_a_call_that_is_refused_on_one_rank_fails_on_the_other(hvd, rank):
    for tensor in (torch.ones(4, device="meta"), torch.ones(4, 1).to_sparse_csr()):
        for _ in range(8):
            hvd.allreduce(torch.ones(4))
        with pytest.raises(ValueError if rank == 1 else hvd.HorovodInternalError) as caught:
            hvd.allreduce_(torch.ones(4) if rank == 0 else tensor)
        if rank == 0:
            assert "rank 1 has made the call that meets this one" in str(caught.value)
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2


@pytest.mark.ranks(2)
def test_a_dropped_handle_is_a_call_like_others(hvd, rank):
    if rank == 0:
        hvd.allreduce_async(torch.ones(1))  # dropped at once
    else:
        dropped = hvd.allreduce_async(torch.ones(1))
    assert hvd.synchronize(hvd.allreduce_async(torch.full((1,), 2.0)))[0] == 2
    if rank == 1:
        del dropped
    assert hvd.synchronize(hvd.allreduce_async(torch.full((1,), 3.0)))[0] == 3


@pytest.mark.ranks(2)
def test_after_a_barrier_all_are_in_step_again(hvd, rank):
    extra = hvd.allreduce_async(torch.ones(5)) if rank == 1 else None  # a call that rank 0 does not make
    hvd.barrier()
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == 2
    if extra is not None:
        with pytest.raises(hvd.HorovodInternalError, match="made more calls"):
            hvd.synchronize(extra)


def _cannot_compress(tensor):
    raise RuntimeError("no memory")


#: Calls of which rank 0's are refused in Python, some before the tensors are looked at.
HALF_REFUSED = {
    "op": lambda hvd, bad: hvd.allreduce(torch.ones(3), op=77 if bad else hvd.Sum),
    "factor": lambda hvd, bad: hvd.allreduce(torch.ones(3), op=hvd.Sum, prescale_factor=0.0 if bad else 2.0),
    "compression": lambda hvd, bad: hvd.allreduce(
        torch.ones(3),
        op=hvd.Sum,
        compression=type("Own", (hvd.Compression.none,), {"compress": staticmethod(_cannot_compress)})
        if bad
        else hvd.Compression.none,
    ),
    "memory": lambda hvd, bad: hvd.allreduce(torch.ones(1).expand(1 << 50 if bad else 3), op=hvd.Sum),
    "rows": lambda hvd, bad: hvd.allgather([[1, 2], [3]] if bad else [[1, 2], [3, 4]]),
    "splits": lambda hvd, bad: hvd.alltoall(torch.ones(4), splits=["a"] if bad else None),
    "root": lambda hvd, bad: hvd.broadcast(torch.ones(3), None if bad else 0),
    "compressed rows": lambda hvd, bad: hvd.reducescatter(
        torch.ones(4),
        compression=type("Own", (hvd.Compression.none,), {"compress": staticmethod(_cannot_compress)})
        if bad
        else hvd.Compression.none,
    ),
    "a tensor for a list": lambda hvd, bad: hvd.grouped_allreduce(torch.ones(3) if bad else [torch.ones(3)]),
    "the same in place": lambda hvd, bad: hvd.grouped_allreduce_(torch.ones(3) if bad else [torch.ones(3)]),
    "the same of rows": lambda hvd, bad: hvd.grouped_allgather(torch.ones(3) if bad else [torch.ones(3)]),
    "the same, scattered": lambda hvd, bad: hvd.grouped_reducescatter(torch.ones(4) if bad else [torch.ones(4)]),
    "batch": lambda hvd, bad: hvd.SyncBatchNorm(2)(torch.ones(4) if bad else torch.ones(4, 2)),
    "features": lambda hvd, bad: hvd.SyncBatchNorm(2)(torch.ones(4, 3 if bad else 2)),
    "a root beyond": lambda hvd, bad: hvd.broadcast(torch.ones(3), 1 << 40 if bad else 0),
    "no tensors": lambda hvd, bad: hvd.synchronize(hvd.grouped_allreduce_async([] if bad else [torch.ones(3)])),
}


@pytest.mark.parametrize("which", HALF_REFUSED)
@pytest.mark.ranks(2)
def test_a_call_that_is_refused_before_the_engine_sees_it_counts(hvd, rank, which):
    for step in range(3):
        with pytest.raises(Exception, match=None if rank == 0 else "it was refused there"):
            HALF_REFUSED[which](hvd, rank == 0)
        assert hvd.allreduce(torch.tensor([float(step + rank)]), op=hvd.Sum).item() == 2 * step + 1


@pytest.mark.ranks(2)
def test_a_call_inside_another_counts_before_it(hvd, rank):
    """A compressor may make calls of its own, and fail after them: both calls count, once each."""

    def compress(tensor):
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum).tolist() == [2, 2]
        if step == 1 and rank == 0:
            raise RuntimeError("no memory")
        return tensor, None

    own = type("Own", (hvd.Compression.none,), {"compress": staticmethod(compress)})
    for step in range(3):
        if step == 1:
            with pytest.raises(Exception, match="no memory" if rank == 0 else "it was refused there: no memory"):
                hvd.allreduce(torch.ones(3), op=hvd.Sum, compression=own)
        else:
            assert hvd.allreduce(torch.ones(3), op=hvd.Sum, compression=own).tolist() == [2, 2, 2]
        assert hvd.allreduce(torch.tensor([float(step + rank)]), op=hvd.Sum).item() == 2 * step + 1


@pytest.mark.ranks(2)
def test_a_call_that_fails_after_its_submit_counts_once(hvd, rank):
    numbers = []
    for _ in range(2):
        handle = hvd.allreduce_async(torch.ones(2))
        numbers.append(int(handle.name.rsplit(".", 1)[1]))
        hvd.synchronize(handle)
        with pytest.raises(hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(2 + rank))
    assert numbers[1] == numbers[0] + 2


@pytest.mark.ranks(2, 3)
def test_a_barrier_that_is_refused_counts_for_nobody(hvd, rank, world):
    """A rank that has given up waiting, or another thread of it, calls a barrier while the last one is under way."""
    if rank == 0:
        ends: "queue.Queue[Optional[Exception]]" = queue.Queue()

        def call():
            try:
                hvd.barrier()
                ends.put(None)
            except ValueError as error:
                ends.put(error)

        threads = [threading.Thread(target=call) for _ in range(2)]
        for thread in threads:
            thread.start()
        assert isinstance(ends.get(timeout=180), DuplicateNameError)
        for other in range(1, world):
            hvd.send(torch.ones(1), other)
        assert ends.get(timeout=180) is None
        for thread in threads:
            thread.join()
    else:
        hvd.recv(torch.zeros(1), 0)
        hvd.barrier()
    for step in range(4):
        expected = sum(float(each + step) for each in range(world))
        assert hvd.allreduce(torch.tensor([float(rank + step)]), op=hvd.Sum).item() == expected


@pytest.mark.ranks(2, 3)
def test_gradients_of_two_unnamed_operations_do_not_mix(hvd, rank, world):
    """Each rank goes back through its graph in an order of its own."""
    for _ in range(3):
        a, b = torch.full((4,), rank + 1.0, requires_grad=True), torch.full((4,), rank + 2.0, requires_grad=True)
        reduced = [hvd.allreduce(a, op=hvd.Sum), hvd.allreduce(b, op=hvd.Sum)]
        gathered = hvd.allgather(a), hvd.allgather(b)
        work = [
            (reduced[0].sum(), a, 1.0 * world),
            ((3 * reduced[1]).sum(), b, 3.0 * world),
            ((2 * gathered[0]).sum(), a, 2.0),
            ((5 * gathered[1]).sum(), b, 5.0),
        ]
        # All at once, in threads: a blocking backward pass in another order on each rank would wait for ever.
        failures = []

        def run(loss, leaf, expected):
            try:
                (gradient,) = torch.autograd.grad(loss, leaf)
                assert bool((gradient == expected).all()), (gradient, expected)
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=run, args=item) for item in (work if rank == 0 else reversed(work))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failures, failures


@pytest.mark.ranks(2)
def test_an_interrupt_before_the_submit_is_told(hvd, rank):
    def interrupted(tensor):
        raise KeyboardInterrupt

    own = type("Own", (hvd.Compression.none,), {"compress": staticmethod(interrupted)})
    for step in range(3):
        with pytest.raises(KeyboardInterrupt if rank == 0 else hvd.HorovodInternalError):
            hvd.allreduce(torch.ones(3), op=hvd.Sum, compression=own if rank == 0 else hvd.Compression.none)
        assert hvd.allreduce(torch.tensor([float(step + rank)]), op=hvd.Sum).item() == 2 * step + 1


@pytest.mark.ranks(2)
def test_groups_may_be_given_by_iterators(hvd, rank, world):
    tensors = [torch.full((2,), float(each), requires_grad=each == 0) for each in range(3)]
    for call in (hvd.grouped_allreduce, hvd.grouped_allgather, hvd.grouped_reducescatter):
        results = call(tensor for tensor in tensors)
        assert [result.flatten()[0].item() for result in results] == [0.0, 1.0, 2.0]
    plain = [tensor.detach().clone() for tensor in tensors]
    results = hvd.grouped_allreduce_(iter(plain), op=hvd.Sum)
    assert [result[0].item() for result in results] == [0.0, 2.0, 4.0] and results[1] is plain[1]
