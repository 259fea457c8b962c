"""Names of unnamed operations: they repeat, so that the engine can plan them."""

from __future__ import annotations

import threading

import pytest
import torch

from ronde.torch import _names


@pytest.fixture
def fresh_names():
    _names.reset()
    yield
    _names.reset()


def test_a_number_is_free_once_it_was_waited_for(fresh_names):
    first, second, third = (_names.name_of("allreduce", None) for _ in range(3))
    assert [first, second, third] == ["allreduce.noname.0", "allreduce.noname.1", "allreduce.noname.2"]
    _names.waited_for(third)
    _names.waited_for(first)
    _names.waited_for(first)  # twice counts once
    assert _names.name_of("allreduce", None) == "allreduce.noname.0"
    assert _names.name_of("allreduce", None) == "allreduce.noname.2"
    assert _names.name_of("allreduce", None) == "allreduce.noname.3"
    assert _names.name_of("broadcast", None) == "broadcast.noname.0"


def test_what_is_from_before_a_barrier_gives_nothing_back(fresh_names):
    before = _names.name_of("allreduce", None)
    _names.restart()
    assert _names.name_of("allreduce", None) == "allreduce.noname.1.0"
    _names.waited_for(before)
    assert _names.name_of("allreduce", None) == "allreduce.noname.1.1"


def test_given_names_are_not_counted(fresh_names):
    name = _names.name_of("allreduce", "noname.0")
    _names.waited_for(name)
    assert name == "allreduce.noname.0" and _names.name_of("allreduce", None) == "allreduce.noname.0"


@pytest.mark.ranks(1, 2)
def test_a_loop_uses_the_same_names(hvd, rank, world):
    hvd.barrier()
    steps = []
    for _ in range(5):
        handles = [hvd.allreduce_async(torch.ones(3 + i), op=hvd.Sum) for i in range(3)]
        names = [handle.name for handle in handles]
        while not hvd.poll(handles[0]):  # which frees no number
            pass
        more = hvd.allreduce_async_(torch.ones(2), op=hvd.Sum)
        names.append(more.name)
        for handle in [*handles, more]:
            assert bool((hvd.synchronize(handle) == world).all())
        assert hvd.allreduce(torch.ones(1), op=hvd.Sum) == world
        steps.append([name.rsplit(".", 1)[1] for name in names])
    assert steps == [["0", "1", "2", "3"]] * 5


@pytest.mark.ranks(2)
def test_a_dropped_handle_keeps_its_number(hvd, rank):
    hvd.barrier()
    if rank == 0:
        hvd.allreduce_async(torch.ones(1))  # dropped at once
    else:
        dropped = hvd.allreduce_async(torch.ones(1))
    handle = hvd.allreduce_async(torch.ones(2))
    assert handle.name.endswith(".1")  # on both ranks, whenever their garbage is collected
    assert hvd.synchronize(handle)[0] == 1
    if rank == 1:
        del dropped
    handle = hvd.allreduce_async(torch.ones(2))
    assert handle.name.endswith(".1")
    hvd.synchronize(handle)


@pytest.mark.ranks(2)
def test_a_failed_operation_gives_its_number_back(hvd, rank):
    hvd.barrier()
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allreduce(torch.ones(1 + rank))
    with pytest.raises(hvd.HorovodInternalError):
        hvd.synchronize(hvd.allreduce_async(torch.ones(1 + rank)))
    handle = hvd.allreduce_async(torch.ones(1))
    assert handle.name.endswith(".0")
    hvd.synchronize(handle)


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
