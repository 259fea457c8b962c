"""Which samples a rank reads, with a memory of those that were read."""

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Sized

import torch

from ronde import _process


class ElasticSampler(torch.utils.data.Sampler[int]):
    """Deals a data set out to the ranks, and deals the rest out anew when training starts again in the middle of an
    epoch, with other ranks too.

    All ranks have one order of the samples. What is left of it is dealt like cards: of each round rank r gets the r-th.
    So what the ranks have read together after each batch is the beginning of that order, and one number says all:
    ``processed_num``. So that ranks have equally many, the last round of an epoch is filled up with the epoch's first
    samples: ``size() - 1`` at most come twice. No other is lost or repeated.

    Args:
        dataset: anything with a length, the same on all ranks.
        shuffle: whether the order is another one in each epoch, drawn from ``seed`` and the epoch.
        seed: the same on all ranks.

    Attributes:
        epoch: that which is read.
        processed_num: how many samples of its order all ranks together have read.
        rank: this process's, when the rest was dealt.
        num_replicas: the number of ranks then.
        remaining_indices: what was left of the order then, of all ranks.

    ``init()`` must have been called. Raises NotInitializedError (a ValueError) otherwise.
    """

    def __init__(self, dataset: Sized, shuffle: bool = True, seed: int = 0) -> None:
        self.dataset = dataset
        self.shuffle = shuffle
        self.seed = seed
        self.epoch = 0
        self.processed_num = 0
        self.rank = 0
        self.num_replicas = 1
        self.remaining_indices: List[int] = []
        self._first: List[int] = []  # of the epoch's order
        self.reset()

    def set_epoch(self, epoch: int) -> None:
        """Begins an ``epoch``: no sample has been read. Call it at an epoch's *end* for the next one: at the beginning
        it would forget, after a restart, what has been read already. Raises NotInitializedError (a ValueError) before
        ``init()``."""
        self.epoch = epoch
        self.processed_num = 0
        self.reset()

    def record_batch(self, batch_idx: int, batch_size: int) -> None:
        """Notes that every rank has read ``batch_size`` more of its samples. Does not change an iteration under way.
        ``batch_idx`` is not looked at. Raises nothing."""
        self.processed_num = min(self.processed_num + batch_size * self.num_replicas, len(self.dataset))

    def state_dict(self) -> Dict[str, int]:
        """``{"epoch": ..., "processed_num": ...}``. Raises nothing."""
        return {"epoch": self.epoch, "processed_num": self.processed_num}

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        """Goes to the place in the epoch that ``state_dict`` names, and deals the rest out. Raises KeyError if it lacks
        one of the two."""
        self.epoch = int(state_dict["epoch"])
        self.processed_num = int(state_dict["processed_num"])
        self.reset()

    def reset(self) -> None:
        """Deals what has not been read out to the ranks that there are now. Raises NotInitializedError (a ValueError)
        before ``init()``."""
        self.rank = _process.rank()
        self.num_replicas = _process.size()
        order = self._order()
        self.remaining_indices = order[self.processed_num :]
        self._first = order[: self.num_replicas]

    @property
    def num_samples(self) -> int:
        """How many samples this rank reads; ``len()`` says the same."""
        return len(self)

    @property
    def total_size(self) -> int:
        """How many all ranks read together, those included that come twice."""
        return len(self) * self.num_replicas

    def _order(self) -> List[int]:
        count = len(self.dataset)
        if not self.shuffle:
            return list(range(count))
        generator = torch.Generator()
        generator.manual_seed(self.seed + self.epoch)
        order: List[int] = torch.randperm(count, generator=generator).tolist()
        return order

    def __iter__(self) -> Iterator[int]:
        dealt = list(self.remaining_indices)
        while len(dealt) % self.num_replicas != 0:  # an epoch may have fewer samples than there are ranks
            dealt += self._first[: self.num_replicas - len(dealt) % self.num_replicas]
        return iter(dealt[self.rank :: self.num_replicas])

    def __len__(self) -> int:
        return -(-len(self.remaining_indices) // self.num_replicas)
