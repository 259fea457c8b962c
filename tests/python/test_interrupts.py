"""Calls in which a signal handler raises, as Ctrl-C does in a notebook: what the others get, and whose the memory is."""

from __future__ import annotations

import contextlib
import random
import signal
import traceback
import weakref

import numpy as np
import pytest
import ronde.numpy as rnp
import torch
import torch.distributed as dist

from distributed_group import default_group
from ronde import _abi, _operation, _ticket
from ronde._lib import check, library
from ronde._slot import Slot
from ronde.exceptions import DuplicateNameError, RondeError

CANCELLED = "rank 0 has cancelled"


class Interrupt(Exception):
    """Of the signal handler."""


@contextlib.contextmanager
def interrupted(seconds, again=0.0):
    """Raises Interrupt out of its block, after so long at the latest; and each ``again`` seconds, if what is called may lose
    an exception (PyTorch's record functions do)."""

    def handle(*_):
        raise Interrupt

    before = signal.signal(signal.SIGALRM, handle)
    try:
        signal.setitimer(signal.ITIMER_REAL, seconds, again)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def waited_for(hvd, tensor):
    """By a wait of its own."""
    work = dist.all_reduce(tensor, async_op=True)
    try:
        work.wait()
    except Interrupt:
        assert work.is_completed() and not work.is_success()
        raise


CALLS = {
    "named": lambda hvd, tensor: hvd.allreduce_(tensor, op=hvd.Sum, name="x"),
    "unnamed": lambda hvd, tensor: hvd.allreduce_(tensor, op=hvd.Sum),
    "handle": lambda hvd, tensor: hvd.synchronize(hvd.broadcast_async_(tensor, 1)),
    "group": lambda hvd, tensor: hvd.grouped_allreduce_([tensor, tensor.clone()], op=hvd.Sum),
    "torch": lambda hvd, tensor: dist.all_reduce(tensor),
    "work": waited_for,
    "rows": lambda hvd, tensor: dist.all_gather_into_tensor(torch.cat([tensor] * 2), tensor),
}


@pytest.mark.ranks(2)
@pytest.mark.parametrize("elements", [3, 100_000])
@pytest.mark.parametrize("before", [0, 12], ids=["negotiated", "replayed"])
@pytest.mark.parametrize("call", CALLS)
def test_an_interrupted_call_is_cancelled(hvd, rank, call, before, elements):
    with default_group(rank, 2):
        for _ in range(before):
            CALLS[call](hvd, torch.full((elements,), rank + 1.0))
        tensor = torch.full((elements,), rank + 1.0)
        if rank == 0:
            with pytest.raises(Interrupt), interrupted(0.05):
                CALLS[call](hvd, tensor)
            tensor.fill_(7.0)
        hvd.allreduce(torch.ones(1), name="now the other")
        if rank == 1:
            with pytest.raises(RondeError, match=CANCELLED):
                CALLS[call](hvd, tensor)
        hvd.allreduce(torch.ones(1), name="now both")
        assert tensor.unique().tolist() == [7.0 if rank == 0 else 2.0]
        result = torch.full((elements,), rank + 1.0)
        CALLS[call](hvd, result)  # the next ones meet
        if call not in ("handle", "rows"):
            assert result.unique().tolist() == [3.0]


@pytest.mark.ranks(2)
def test_a_work_that_others_wait_for_goes_on(rank):
    """Its future is out."""
    with default_group(rank, 2):
        tensor = torch.full((3,), rank + 1.0)
        if rank == 0:
            work = dist.all_reduce(tensor, async_op=True)
            future = work.get_future()
            with pytest.raises(Interrupt), interrupted(0.05):
                work.wait()
            dist.send(torch.ones(1), 1)
            assert future.wait()[0].tolist() == [3.0] * 3
        else:
            dist.recv(torch.ones(1), 0)
            dist.all_reduce(tensor)
        assert tensor.tolist() == [3.0] * 3


@pytest.mark.ranks(2)
def test_barriers_meet_after_one_that_was_interrupted(rank, monkeypatch):
    """Before the engine has seen it, and then while it waits."""

    def interrupt(*_):
        raise Interrupt

    with default_group(rank, 2):
        dist.barrier()
        if rank == 0:
            with monkeypatch.context() as patched, pytest.raises(Interrupt):
                patched.setattr(_operation.Operation, "submit", interrupt)
                dist.barrier()
            with pytest.raises(Interrupt), interrupted(0.05):
                dist.barrier()
            dist.send(torch.ones(1), 1)
        else:
            dist.recv(torch.ones(1), 0)
            with pytest.raises(RondeError, match=CANCELLED):
                dist.barrier()
        for _ in range(3):
            dist.barrier()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("face", ["hvd", "torch"])
@pytest.mark.parametrize("rounds", [20, pytest.param(150, marks=pytest.mark.long)])
def test_interrupts_at_any_moment(hvd, rank, face, rounds):
    """Whatever has become of the call that was interrupted: after a barrier the ranks are in step, and nothing hangs."""
    own = random.Random(5)
    with default_group(rank, 2):
        reduce = dist.all_reduce if face == "torch" else lambda tensor: hvd.allreduce_(tensor, op=hvd.Sum)
        barrier = dist.barrier if face == "torch" else hvd.barrier
        pending = torch.zeros(2)
        late = dist.irecv(pending, 1, tag=9) if rank == 0 else None
        future = late.get_future() if late is not None else None
        for _ in range(rounds):
            tensors = [torch.full((8,), rank + 1.0) for _ in range(3)]
            for tensor in tensors:
                try:
                    with interrupted(own.uniform(5e-6, 3e-4)) if rank == 0 else contextlib.nullcontext():
                        reduce(tensor)
                except (Interrupt, RondeError):
                    tensor.fill_(7.0)
            barrier()  # ends what the other has not called
            # An interrupt between PyTorch's call and its wait leaves a work under way that nobody waits for: then 7 + 2.
            possible = {3.0, 7.0, 9.0} if face == "torch" else {3.0, 7.0}
            assert {value for tensor in tensors for value in tensor.tolist()} <= possible
            total = torch.full((8,), rank + 1.0)
            reduce(total)
            assert total.tolist() == [3.0] * 8
        if rank == 1:
            dist.send(torch.ones(2), 0, tag=9)
        else:
            assert late is not None and future is not None
            assert future.wait()[0].tolist() == [1.0] * 2 and late.wait()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("times", [1, 2])
@pytest.mark.parametrize("kind", [{}, {"groups": 1}], ids=["place", "group"])
def test_steps_that_are_interrupted_on_all_ranks(hvd, rank, world, times, kind):
    """On the first in its step, so that the others wait for its next one, and on these while they do. They say which generation
    of gradients comes next, and meet in it when all have loaded a state."""
    p = torch.nn.Parameter(torch.zeros(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("interrupted.p", p)], op=hvd.Sum, **kind)

    def step(within=contextlib.nullcontext):
        optimizer.zero_grad()
        p.sum().backward()
        with within():
            optimizer.step()

    @contextlib.contextmanager
    def alarm():
        with pytest.raises(Interrupt), interrupted(0.1, again=5.0):
            yield

    step()
    for _ in range(times):
        if rank == 0:
            step(alarm)
        hvd.barrier()
        if rank != 0:
            step(alarm)
        hvd.barrier()
        if rank == 0:  # with gradients that wait for the others
            optimizer.load_state_dict(optimizer.state_dict())
        hvd.barrier()
    optimizer.load_state_dict(optimizer.state_dict())
    hvd.barrier()
    step()
    step()
    assert p.tolist() == [-3.0 * world] * 3


@pytest.mark.ranks(2)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_slot_that_goes_while_a_handler_raises_keeps_its_memory(hvd, rank, monkeypatch):
    """The other rank's part is still to come."""

    def interrupt(*_):
        raise Interrupt

    memory = np.full(4, rank + 1.0)
    slot = Slot("interrupted.slot", (memory.ctypes.data, memory.shape, _abi.FLOAT64), memory, reduce_op=_abi.SUM)
    kept = weakref.ref(slot)
    if rank == 0:
        check(library().ronde_submit_slot(slot.number))
        with monkeypatch.context() as patched:
            patched.setattr(Slot, "done", interrupt)
            del slot
        assert any(each is kept() for each in _ticket.abandoned)
    hvd.barrier()
    if rank == 1:
        check(library().ronde_submit_slot(slot.number))
        slot.wait()
        assert memory.tolist() == [3.0] * 4
    hvd.barrier()


@pytest.mark.ranks(2)
def test_what_a_handler_raises_is_no_refusal_of_memory(hvd, world, monkeypatch):
    """Where Ronde goes on without what it was refused, an error that the program has made itself still reaches the program."""
    from ronde import _shared_buffer

    def interrupted(*_):
        raise hvd.HorovodInternalError("from the program's handler")

    monkeypatch.setattr(_shared_buffer, "allocate", interrupted)
    with pytest.raises(hvd.HorovodInternalError, match="from the program's handler"):
        hvd.empty_shared(10)
    p = torch.nn.Parameter(torch.ones(3))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([p], lr=1.0), [("handler.p", p)], op=hvd.Sum)
    with pytest.raises(hvd.HorovodInternalError, match="from the program's handler"):
        p.sum().backward()
        optimizer.step()
    monkeypatch.undo()
    optimizer.load_state_dict(optimizer.state_dict())
    optimizer.zero_grad()
    p.sum().backward()
    optimizer.step()
    assert p.tolist() == [1.0 - world] * 3


@pytest.mark.ranks(2)
@pytest.mark.parametrize("how", ["call", "halves"])
def test_persistent_all_reduce(hvd, rank, how):
    """The array of an interrupted call is the program's again, and nobody succeeds with what it stores there."""
    array = np.full(4, rank + 1.0)
    with rnp.allreduce_init(array, f"interrupted.{how}", op=rnp.Sum) as again:

        def do():
            if how == "call":
                again()
            else:
                again.start()
                again.wait()

        do()
        assert array.tolist() == [3.0] * 4
        if rank == 0:
            with pytest.raises(Interrupt), interrupted(0.2):
                do()
            array[:] = -7.0
        hvd.barrier()
        if rank == 1:
            with pytest.raises(RondeError, match=CANCELLED):
                do()
            assert array.tolist() == [3.0] * 4
        hvd.barrier()
        assert rank == 1 or array.tolist() == [-7.0] * 4
        array[:] = rank + 1.0
        do()
        assert array.tolist() == [3.0] * 4


@pytest.mark.ranks(1)
def test_a_persistent_all_reduce_can_be_done_again_whenever_it_was_interrupted(hvd):
    for number in range(300):
        with rnp.allreduce_init(np.ones(4), f"interrupted anywhere {number}", op=rnp.Max) as again:
            with contextlib.suppress(Interrupt), interrupted(random.random() * 2e-5 + 1e-6):
                for _ in range(200):
                    again.start()
                    again.wait()
            try:
                again()
            except DuplicateNameError:  # it raised before wait() had begun
                again.wait()
                again()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("way", ["at once", "step by step", "by a copy"])
@pytest.mark.parametrize("rounds", [60, pytest.param(600, marks=pytest.mark.long)])
def test_an_interrupt_while_a_work_is_begun_leaves_none_under_way(hvd, rank, way, rounds):
    """The others' wait succeeded with sums of what the interrupted rank wrote to its tensor afterwards. What PyTorch's own
    layer loses between its call and its wait is another matter."""
    moments = random.Random(1)
    call = dist.all_reduce if way == "at once" else dist.broadcast
    arguments = {} if way == "at once" else {"src": 1}
    right = 3.0 if way == "at once" else 2.0
    hits = 0
    with default_group(rank, 2):
        for round_ in range(rounds):
            tensor = torch.full((500_003, 2 if way == "by a copy" else 1), rank + 1.0)[:, 0]
            work = within = None
            try:
                with interrupted(moments.uniform(1e-5, 4e-4)) if rank == 0 else contextlib.nullcontext():
                    work = call(tensor, async_op=True, **arguments)
            except Interrupt as raised:
                frames = [frame.f_code.co_filename for frame, _ in traceback.walk_tb(raised.__traceback__)]
                within = any("/ronde/torch/distributed/" in each for each in frames)
                shown = traceback.format_tb(raised.__traceback__)
            if within:
                hits += 1
                tensor.fill_(-77.0)
            elif work is not None:
                try:
                    work.wait()
                    assert bool((tensor == right).all()), (round_, tensor.unique())
                except RondeError:  # cancelled, or never called
                    pass
            dist.barrier()
            assert not within or bool((tensor == -77).all()), (round_, tensor.unique(), "".join(shown))
        assert rank != 0 or hits > 0
