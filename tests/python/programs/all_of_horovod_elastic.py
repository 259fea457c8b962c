"""Horovod's elastic training: states, handlers, samplers, the loop that starts again."""

from __future__ import annotations

import time
from typing import Any, Dict, List

import numpy as np
import torch
from all_of_horovod_expect import raises
from all_of_horovod_names import Watched
from all_of_horovod_reference import check, numbers, tensor_of


def check_sampler(sampler_class: Any, rank: int, size: int) -> None:
    """Each sample is dealt to one rank, but for what fills up the last round; what is left is dealt anew."""
    data = list(range(4 * size + 1))
    dealt_by = sampler_class(data, shuffle=False)
    sampler = Watched("horovod.torch.elastic:ElasticSampler", dealt_by)
    dealt = [data[first::size] for first in range(size)]
    longest = max(map(len, dealt))
    assert list(dealt_by)[: len(dealt[rank])] == dealt[rank] and len(dealt_by) == len(list(dealt_by)) == longest
    sampler.record_batch(0, 2)
    assert sampler.state_dict() == {"epoch": 0, "processed_num": 2 * size}
    sampler.reset()
    assert list(dealt_by)[: len(dealt[rank]) - 2] == dealt[rank][2:]
    saved = sampler.state_dict()
    sampler.set_epoch(1)
    assert sampler.state_dict() == {"epoch": 1, "processed_num": 0}
    sampler.load_state_dict(saved)
    assert list(dealt_by)[: len(dealt[rank]) - 2] == dealt[rank][2:]
    orders = []
    for epoch in range(2):
        shuffled = sampler_class(data, seed=3)
        shuffled.set_epoch(epoch)
        orders.append(list(shuffled))
    assert orders[0] != orders[1] and set(orders[0]) <= set(data)


def check_plain_states(plain: Any, interrupt: Any, rank: int) -> None:
    """Of ``horovod.common.elastic``: no framework, no job."""
    held = plain.ObjectState(lambda thing: thing, lambda: rank, batch=0, history=[rank])
    assert isinstance(held, plain.State)
    state = Watched("horovod.common.elastic:ObjectState", held)
    called: List[str] = []
    state.register_reset_callbacks([lambda: called.append("first"), lambda: called.append("second")])
    held.batch, held.history[0] = 5, 99
    state.restore()
    assert (held.batch, held.history) == (0, [rank])
    held.batch = 7
    state.save()
    held.batch = 8
    state.restore()
    state.sync()
    assert held.batch == 7
    state.on_reset()
    state.reset()
    assert called == ["first", "second"]
    state.on_hosts_updated(time.time(), 1)  # hosts were removed: nothing is to be synchronized
    with raises(interrupt, "hosts"):
        state.commit()
    state.check_host_updates()
    attempts: List[int] = []

    def train(state: Any, more: int) -> int:
        attempts.append(state.batch)
        state.batch += more
        if len(attempts) == 1:
            plain.notification_manager.handle_hosts_updated(time.time() + 1, 2)
            state.commit()
        return int(state.batch)

    resets: List[int] = []
    assert plain.run_fn(train, lambda: resets.append(len(attempts)))(held, 10) == 27
    assert (attempts, resets) == ([7, 17], [1]) and called == ["first", "second"] * 2


class Counter:
    """A kind of object that no handler knows."""

    def __init__(self, count: int) -> None:
        self.count = count

    def state_dict(self) -> Dict[str, int]:
        """As of a module."""
        return {"count": self.count}

    def load_state_dict(self, state: Dict[str, int]) -> None:
        """As of a module."""
        self.count = state["count"]


def check_handlers(handlers: Any, sampler_class: Any, rank: int) -> None:
    """Each kind by itself: saved, restored, and the same as on rank 0 after sync()."""
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=rank + 1.0)
    sampler = sampler_class(range(100), shuffle=False)
    model.weight.data.copy_(tensor_of(numbers(rank, (1, 2))))
    by_kind = {
        "model": handlers.ModelStateHandler(model),
        "optimizer": handlers.OptimizerStateHandler(optimizer),
        "sampler": handlers.SamplerStateHandler(sampler),
    }
    for handler in by_kind.values():
        assert isinstance(handler, handlers.StateHandler)
        handler.sync()
    check(model.weight.detach(), numbers(0, (1, 2)), "a model's handler")
    assert optimizer.param_groups[0]["lr"] == 1.0
    model.weight.data.zero_()
    optimizer.param_groups[0]["lr"] = 9.0
    sampler.record_batch(0, 3)
    for handler in by_kind.values():
        handler.restore()
    check(model.weight.detach(), numbers(0, (1, 2)), "a model's handler")
    assert optimizer.param_groups[0]["lr"] == 1.0 and sampler.processed_num == 0
    other = torch.nn.Linear(2, 1, bias=False)
    by_kind["model"].set_value(other)
    other.weight.data.zero_()
    by_kind["model"].restore()
    assert other.weight.abs().sum() > 0
    before = handlers.get_handler_registry()
    handlers.set_handler_registry([(Counter, handlers.StateHandler), *before])
    try:
        counter = Counter(rank)
        state = handlers.TorchState(counter=counter)
        state.sync()
        assert state.counter is counter and counter.count == 0
    finally:
        handlers.set_handler_registry(before)


def check_torch_state(hvd: Any, elastic: Any, rank: int, size: int) -> None:
    """Training that fails in the middle, on all ranks, ends with the parameters of training that does not."""
    model = torch.nn.Linear(3, 1, bias=False)
    model.weight.data.copy_(tensor_of(numbers(rank, (1, 3))))
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.125))
    sampler = elastic.ElasticSampler(range(10), shuffle=False)
    state = elastic.TorchState(model, optimizer, sampler=sampler, step=0)
    resets: List[int] = []
    state.register_reset_callbacks([lambda: resets.append(hvd.size())])

    @elastic.run
    def train(state: Any) -> int:
        while state.step < 6:
            optimizer.zero_grad()
            (model.weight * tensor_of(numbers(rank, (1, 3), state.step % 3))).sum().backward()
            optimizer.step()
            state.step += 1
            if state.step == 4 and not resets:
                raise hvd.HorovodInternalError("as if an operation had failed")
            if state.step % 3 == 0:
                state.commit()
        return int(state.step)

    assert train(state) == 6 and resets == [size] and state.sampler is sampler
    expected = numbers(0, (1, 3))  # all start with rank 0's
    for step in range(6):
        expected = expected - 0.125 * np.mean([numbers(each, (1, 3), step % 3) for each in range(size)], axis=0)
    check(state.model.weight.detach(), expected, "parameters after a restart")


def check_elastic(hvd: Any, modules: Dict[str, Any], rank: int, size: int) -> None:
    """All of it. ``modules``: where the names are found."""
    elastic = modules["elastic"]
    for where in (elastic, modules["sampler"]):
        check_sampler(where.ElasticSampler, rank, size)
    check_plain_states(modules["plain elastic"], modules["exceptions"].HostsUpdatedInterrupt, rank)
    check_handlers(modules["state"], modules["sampler"].ElasticSampler, rank)
    check_torch_state(hvd, elastic, rank, size)
    assert hvd.elastic.TorchState is elastic.TorchState is modules["state"].TorchState
