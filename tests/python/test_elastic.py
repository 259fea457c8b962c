"""Elastic training: the state is saved, restored and the same on all ranks, and the loop goes on after errors in which
all processes live."""

from __future__ import annotations

import os
import time
from typing import Any, Callable, List, Optional, Tuple

import pytest
import torch
from torch import nn

from ronde.elastic import HostUpdate, ObjectState, notification_manager, run_fn
from ronde.exceptions import CollectiveError, HostsUpdatedInterrupt, MismatchError, PeerLostError, RondeError

SAMPLES = 46
EPOCHS = 2

#: Called in each step: (state, where, how many attempts there were before). May raise.
Fault = Callable[[Any, str, int], None]


class Training:
    """A run with all that a state can hold: model, optimizer, scheduler, sampler, plain objects."""

    def __init__(self, hvd: Any, rank: int, momentum: float = 0.9) -> None:
        self.hvd = hvd
        torch.manual_seed(rank)  # the state makes them the same
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
        plain = torch.optim.SGD(self.model.parameters(), lr=0.1, momentum=momentum)
        self.optimizer = hvd.DistributedOptimizer(plain, named_parameters=self.model.named_parameters())
        self.scheduler = torch.optim.lr_scheduler.StepLR(self.optimizer, 4, gamma=0.5)
        self.sampler = hvd.elastic.ElasticSampler(range(SAMPLES), seed=7)
        self.state = hvd.elastic.TorchState(self.model, self.optimizer, scheduler=self.scheduler, sampler=self.sampler,
                                            epoch=0, step=0)
        self.read: List[List[int]] = []  # this rank's batches; the state is the same on all ranks, this is not
        self.attempts = 0
        self.resets: List[int] = []
        self.state.register_reset_callbacks([lambda: self.resets.append(hvd.size())])

    def run(self, fault: Optional[Fault] = None) -> Tuple[List[torch.Tensor], List[List[int]], float]:
        hvd, state = self.hvd, self.state
        inputs = torch.randn(SAMPLES, 4, generator=torch.Generator().manual_seed(11))

        @hvd.elastic.run
        def train(state: Any) -> None:
            attempt, self.attempts = self.attempts, self.attempts + 1
            told = fault or (lambda *_: None)
            del self.read[state.step :]
            for state.epoch in range(state.epoch, EPOCHS):
                loader = torch.utils.data.DataLoader(range(SAMPLES), batch_size=2, sampler=self.sampler)
                for index, batch in enumerate(loader):
                    told(state, "before", attempt)
                    self.read.append(batch.tolist())  # from here on others may use this batch's gradients
                    loss = self.model(inputs[batch]).square().mean() + self.model(inputs[batch]).mean()
                    loss.backward()
                    told(state, "in flight", attempt)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.scheduler.step()
                    state.step += 1
                    told(state, "uncommitted", attempt)
                    self.sampler.record_batch(index, len(batch))
                    state.commit()
                self.sampler.set_epoch(state.epoch + 1)

        train(state)
        return [p.detach().clone() for p in self.model.parameters()], self.read, self.optimizer.param_groups[0]["lr"]


def check_same_end(hvd: Any, rank: int, fault: Fault, resets: int = 1) -> None:
    """With the fault training ends as without: same bits, each sample read once."""
    expected = Training(hvd, rank).run()
    training = Training(hvd, rank)
    parameters, read, rate = training.run(fault)
    rows = hvd.allgather(parameters[0].reshape(1, -1))
    assert training.resets == [hvd.size()] * resets, "it was joined anew"
    assert (read, rate) == expected[1:]
    assert all(torch.equal(a, b) for a, b in zip(parameters, expected[0]))
    assert len(rows.unique(dim=0)) == 1


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("where", ["before", "in flight", "uncommitted"])
def test_an_internal_error_on_all_ranks(hvd, rank, where):
    def fault(state, place, attempt):
        if attempt == 0 and place == where and state.step >= 3:
            raise hvd.HorovodInternalError("as if an operation had failed")

    check_same_end(hvd, rank, fault)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("where", ["before", "in flight", "uncommitted"])
def test_an_internal_error_on_one_rank(hvd, rank, world, where):
    """The others are told in their next operation that this rank has left."""

    def fault(state, place, attempt):
        if attempt < 2 and rank == world - 1 and place == where and state.step == 3 + attempt:
            raise hvd.HorovodInternalError("as if an operation had failed here")

    check_same_end(hvd, rank, fault, resets=2)


@pytest.mark.ranks(2, 3, warnings=True)
def test_a_deadline_that_passes(hvd, rank, world):
    os.environ["RONDE_TIMEOUT_S"] = "0.3"
    try:
        hvd.shutdown()
        hvd.init()

        def fault(state, place, attempt):
            if attempt == 0 and place == "before" and state.step == 4:
                hvd.allreduce(torch.ones(3), name="late" if rank == 0 else "early")

        check_same_end(hvd, rank, fault)
    finally:
        del os.environ["RONDE_TIMEOUT_S"]
        hvd.shutdown()
        hvd.init()


@pytest.mark.ranks(1, 2, 3)
def test_news_of_hosts_keep_the_state(hvd, rank):
    told = []

    def fault(state, place, attempt):
        if attempt == 0 and rank == 0 and place == "before" and state.step == 5 and not told:
            told.append(place)
            notification_manager.handle_hosts_updated(time.time(), HostUpdate.added)

    check_same_end(hvd, rank, fault)


@pytest.mark.ranks(2)
def test_news_and_an_error_at_once(hvd, rank):
    """One rank starts again for news while another does for an error: neither waits for the other for ever."""

    def fault(state, place, attempt):
        if attempt == 0 and place == "before" and state.step == 5:
            if rank == 0:
                raise HostsUpdatedInterrupt(skip_sync=True)
            raise hvd.HorovodInternalError("at the same time")

    training = Training(hvd, rank)
    _, read, _ = training.run(fault)
    assert training.resets == [2]
    per_epoch = SAMPLES // 4 + 1
    assert len(read) == EPOCHS * per_epoch


@pytest.mark.ranks(2)
def test_what_is_not_survived(hvd, rank):
    training = Training(hvd, rank)

    def mismatch(state, place, attempt):
        hvd.allreduce(torch.ones(2 + rank), name="different")

    with pytest.raises(MismatchError):
        training.run(mismatch)
    assert training.attempts == 1


@pytest.mark.ranks(3)
def test_process_sets_come_back(hvd, rank):
    pair = hvd.add_process_set([0, 2])
    attempts = []

    @hvd.elastic.run
    def train(state: Any) -> List[float]:
        attempts.append(pair.process_set_id)
        sums = [hvd.allreduce(1.0, op=hvd.Sum, name="all").item()]
        if pair.included():
            sums.append(hvd.allreduce(float(rank), op=hvd.Sum, process_set=pair, name="pair").item())
        if len(attempts) == 1:
            raise hvd.HorovodInternalError("as if an operation had failed")
        return sums

    sums = train(hvd.elastic.TorchState(step=0))
    assert hvd.remove_process_set(pair)
    assert len(attempts) == 2 and sums == ([3.0] if rank == 1 else [3.0, 2.0])


@pytest.mark.ranks(1, 2)
def test_sync_gives_rank_0s_state(hvd, rank):
    training = Training(hvd, rank)
    state = hvd.elastic.TorchState(training.model, training.optimizer, scheduler=training.scheduler,
                                   sampler=training.sampler, epoch=0, history=[])
    state.epoch = 10 + rank
    state.history = [[rank]]
    training.sampler.record_batch(0, rank + 1)
    training.scheduler.last_epoch = 5 + rank
    state.sync()
    rows = hvd.allgather(next(training.model.parameters()).detach().reshape(1, -1))
    assert (state.epoch, state.history) == (10, [[0]])
    assert training.sampler.processed_num == hvd.size() and training.scheduler.last_epoch == 5
    assert len(rows.unique(dim=0)) == 1
    state.epoch, state.history[0][0] = 99, 98
    training.model[0].weight.data.zero_()
    state.restore()
    assert (state.epoch, state.history) == (10, [[0]]), "what was synchronized is what is restored"
    assert training.model[0].weight.abs().sum() > 0


class Counting(nn.Module):
    """Has state beside its parameters and buffers: a tensor, or something else."""

    def __init__(self, rank, extra, hook=None):
        super().__init__()
        self.weight, self.extra = nn.Parameter(torch.full((3,), rank + 1.0)), extra
        self.register_buffer("mean", torch.full((2,), rank + 5.0))
        if hook is not None:
            self.register_state_dict_post_hook(hook)

    def get_extra_state(self):
        return self.extra

    def set_extra_state(self, state):
        self.extra = state


def copies(module, state, prefix, metadata):
    state.update({key: value.clone() for key, value in state.items() if isinstance(value, torch.Tensor)})


@pytest.mark.ranks(2)
@pytest.mark.parametrize("hook", [None, copies])
def test_sync_gives_what_lies_beside_parameters(hvd, rank, hook):
    """It was broadcast into a copy, which was thrown away."""
    tensor = Counting(rank, torch.tensor(10 * (rank + 1)), hook)
    other = Counting(rank, {"steps": [rank] * (rank + 1)}, hook)
    state = hvd.elastic.TorchState(nn.Sequential(tensor, other), step=rank)
    weight = tensor.weight
    state.sync()
    for module in (tensor, other):
        assert module.weight.tolist() == [1.0] * 3 and module.mean.tolist() == [5.0] * 2
    assert int(tensor.extra) == 10 and other.extra == {"steps": [0]} and tensor.weight is weight


@pytest.mark.ranks(1)
def test_a_sync_that_fails_half_way_leaves_the_last_commit(hvd):
    """The model had saved what it got, the objects had not: training went on from a mixture of the two."""
    model = nn.Linear(1, 1)
    state = hvd.elastic.TorchState(model, torch.optim.SGD(model.parameters(), lr=0.1), batch=2)
    committed = model.weight.item()
    model.weight.data += 1
    state.batch = 4

    def fails(value):
        raise CollectiveError("no answer")

    state._bcast_object = fails
    with pytest.raises(CollectiveError, match="no answer"):
        state.sync()
    state.restore()
    assert (model.weight.item(), state.batch) == (committed, 2)


@pytest.mark.ranks(1)
@pytest.mark.parametrize("distributed", [False, True])
def test_restored_state_keeps_its_types(hvd, distributed):
    """PyTorch's load_state_dict rounds float32 state of parameters of 16 bits to these."""
    parameter = nn.Parameter(torch.ones(3, dtype=torch.bfloat16))
    optimizer = torch.optim.SGD([parameter], lr=0.1)
    master = torch.tensor([1.0, 1 / 3, 1e-9])
    optimizer.state[parameter] = {"master": master.clone(), "more": [{"nested": master.double()}]}
    if distributed:
        optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=[("p", parameter)])
    state = hvd.elastic.TorchState(optimizer=optimizer)
    for _ in range(2):
        optimizer.state[parameter]["master"].zero_()
        state.restore()
        restored = optimizer.state[parameter]
        assert restored["master"].dtype == torch.float32 and torch.equal(restored["master"], master)
        assert restored["more"][0]["nested"].dtype == torch.float64


@pytest.mark.ranks(1)
def test_another_model_takes_the_place(hvd):
    state = hvd.elastic.TorchState(nn.Linear(2, 2), second=nn.Linear(1, 1), steps=3)
    assert state.steps == 3 and not hasattr(state, "optimizer")
    other = nn.Linear(2, 2)
    state.model = other
    before = other.weight.detach().clone()
    other.weight.data.zero_()
    state.second.weight.data.fill_(7)
    state.restore()
    assert torch.equal(other.weight, before) and state.second.weight.item() != 7


@pytest.mark.ranks(1)
def test_handlers_of_ones_own(hvd):
    from horovod.torch.elastic.state import StateHandler, get_handler_registry, set_handler_registry

    class Counter:
        def __init__(self):
            self.count = 0

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, state):
            self.count = state["count"]

    before = get_handler_registry()
    try:
        set_handler_registry([(Counter, StateHandler), *before])
        counter = Counter()
        state = hvd.elastic.TorchState(counter=counter)
        counter.count = 5
        state.commit()
        counter.count = 6
        state.restore()
        assert counter.count == 5 and state.counter is counter
    finally:
        set_handler_registry(before)


# ---- The loop and the state without ranks --------------------------------------------------------------------------


def lone_state(**values: Any) -> ObjectState:
    return ObjectState(lambda value: value, lambda: 0, **values)


def test_objects_are_copied():
    state = lone_state(batch=0, history=[1])
    state.history.append(2)
    state.save()
    state.history.append(3)
    state.batch = 4
    state.restore()
    assert (state.batch, state.history) == (0, [1, 2])
    state.history.append(5)
    state.restore()
    assert state.history == [1, 2], "the saved copy is not handed out"


def test_order_of_a_restart():
    calls: List[str] = []
    state = lone_state(step=0)
    state.register_reset_callbacks([lambda: calls.append("first"), lambda: calls.append("second")])

    def train(state: Any, *words: str, more: int) -> str:
        calls.append(f"step {state.step}")
        state.step += 1
        if state.step == 1:
            state.commit()
        if len(calls) == 1:
            state.step = 50
            raise CollectiveError("lost")
        return f"{words} {more}"

    assert run_fn(train, lambda: calls.append("reset"))(state, "a", more=2) == "('a',) 2"
    assert calls == ["step 0", "reset", "first", "second", "step 1"]


def test_news_are_told_once():
    state = lone_state()
    state.check_host_updates()
    state.on_hosts_updated(10.0, HostUpdate.removed)
    with pytest.raises(HostsUpdatedInterrupt) as news:
        state.commit()
    assert news.value.skip_sync
    state.commit()
    state.on_hosts_updated(10.0, HostUpdate.removed)  # the same news again
    state.commit()
    state.on_hosts_updated(11.0, HostUpdate.removed)
    state.on_hosts_updated(12.0, HostUpdate.added)
    with pytest.raises(HostsUpdatedInterrupt) as news:
        state.check_host_updates()
    assert not news.value.skip_sync


@pytest.mark.parametrize("given, variable", [(2, None), (None, "2"), (2, "9")])
def test_limit(given, variable, monkeypatch):
    if variable is not None:
        monkeypatch.setenv("RONDE_ELASTIC_RESET_LIMIT", variable)
    attempts = []

    def train(state: Any) -> None:
        attempts.append(state)
        raise CollectiveError("again")

    with pytest.raises(RondeError, match="started again 2 times, the limit, and stops: again") as stopped:
        run_fn(train, lambda: None, given)(lone_state())
    assert len(attempts) == 3 and isinstance(stopped.value.__cause__, CollectiveError)
    assert not isinstance(stopped.value, CollectiveError), "a loop around this one must not start it again"
    monkeypatch.setenv("RONDE_ELASTIC_RESET_LIMIT", "few")
    with pytest.raises(ValueError, match="RONDE_ELASTIC_RESET_LIMIT is 'few'"):
        run_fn(train, lambda: None)(lone_state())


@pytest.mark.parametrize("error", [PeerLostError, MismatchError, ValueError])
def test_errors_that_end_training(error):
    resets = []

    def train(state: Any) -> None:
        raise error("the end")

    with pytest.raises(error, match="the end"):
        run_fn(train, lambda: resets.append(1))(lone_state())
    assert resets == []


def test_a_restart_that_fails_is_tried_again():
    failures = [CollectiveError("first"), CollectiveError("while joining anew")]

    def reset() -> None:
        if len(failures) == 1:
            raise failures.pop()

    def train(state: Any) -> int:
        if len(failures) == 2:
            raise failures.pop(0)
        return 1

    assert run_fn(train, reset)(lone_state()) == 1
    assert failures == []
