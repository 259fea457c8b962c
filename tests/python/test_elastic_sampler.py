"""`ElasticSampler`: whatever happens to the ranks, no sample of an epoch is lost, none is read twice but to fill up."""

from __future__ import annotations

import random
from typing import List

import pytest

from ronde import _process
from ronde.torch.elastic import ElasticSampler


class Ranks:
    """The samplers of all ranks of a job, in one process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, samples: int, shuffle: bool, seed: int) -> None:
        self._monkeypatch = monkeypatch
        self._made_of = (samples, shuffle, seed)
        self.samplers: List[ElasticSampler] = []

    def start(self, ranks: int, state: dict | None) -> None:
        """A job of new processes that all get this state."""
        samples, shuffle, seed = self._made_of
        self.samplers = []
        for rank in range(ranks):
            self._monkeypatch.setattr(_process, "rank", lambda rank=rank: rank)
            self._monkeypatch.setattr(_process, "size", lambda: ranks)
            sampler = ElasticSampler(range(samples), shuffle=shuffle, seed=seed)
            if state is not None:
                sampler.load_state_dict(state)
            self.samplers.append(sampler)

    def rounds(self, batch_size: int) -> List[List[List[int]]]:
        """Per batch the ranks' samples."""
        mine = [list(sampler) for sampler in self.samplers]
        assert {len(samples) for samples in mine} == {len(self.samplers[0])}, "ranks must have equally many"
        assert all(sampler.num_samples == len(mine[0]) for sampler in self.samplers)
        assert all(sampler.total_size == sum(map(len, mine)) for sampler in self.samplers)
        starts = range(0, len(mine[0]), batch_size)
        return [[samples[first : first + batch_size] for samples in mine] for first in starts]


@pytest.mark.parametrize("seed", range(60))
def test_any_history_reads_each_sample_once(monkeypatch, seed):
    """Jobs of random sizes follow one another in an epoch; each ends by news of hosts (what was read counts) or by an
    error (what was read since the commit does not)."""
    chance = random.Random(seed)
    samples = chance.choice([0, 1, 2, 7, 30, 97])
    ranks = Ranks(monkeypatch, samples, shuffle=chance.random() < 0.8, seed=seed)
    read: List[int] = []
    state, committed = None, 0
    for _ in range(chance.randrange(5)):
        ranks.start(chance.randint(1, 5), state)
        batches = ranks.rounds(chance.randint(1, 4))
        for index, batch in enumerate(batches[: chance.randint(0, len(batches))]):
            read += [sample for round_ in zip(*batch) for sample in round_]
            for sampler, part in zip(ranks.samplers, batch):
                sampler.record_batch(index, len(part))
            if chance.random() < 0.5:
                state, committed = ranks.samplers[0].state_dict(), len(read)
        if chance.random() < 0.5:
            state, committed = ranks.samplers[0].state_dict(), len(read)
        del read[committed:]
        assert len({(s.epoch, s.processed_num) for s in ranks.samplers}) == 1
    ranks.start(last := chance.randint(1, 5), state)
    for index, batch in enumerate(ranks.rounds(3)):
        read += [sample for round_ in zip(*batch) for sample in round_]
        for sampler, part in zip(ranks.samplers, batch):
            sampler.record_batch(index, len(part))
    assert sorted(read[:samples]) == list(range(samples)), "each once"
    assert len(read) - samples < 5, "only the last round is filled up"
    assert all(sampler.state_dict() == {"epoch": 0, "processed_num": samples} for sampler in ranks.samplers)
    assert last in range(1, 6)


def test_epochs_have_orders_of_their_own(monkeypatch):
    ranks = Ranks(monkeypatch, 50, shuffle=True, seed=3)
    ranks.start(1, None)
    [sampler] = ranks.samplers
    first = list(sampler)
    assert list(sampler) == first
    sampler.record_batch(0, 20)
    assert list(sampler) == first, "an iteration under way does not change"
    sampler.set_epoch(1)
    assert sampler.state_dict() == {"epoch": 1, "processed_num": 0}
    assert list(sampler) != first and sorted(sampler) == sorted(first)
    sampler.load_state_dict({"epoch": 0, "processed_num": 20})
    assert list(sampler) == first[20:] and len(sampler) == 30


def test_plain_order(monkeypatch):
    ranks = Ranks(monkeypatch, 5, shuffle=False, seed=0)
    ranks.start(2, None)
    assert [list(sampler) for sampler in ranks.samplers] == [[0, 2, 4], [1, 3, 0]]
