"""A DataLoader whose workers ask for their rank, as many scripts seed them; the data set asks as well."""

import random
from typing import Tuple

import torch

import horovod.torch as hvd

hvd.init()
torch.set_num_threads(1)


class Samples(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tuple[int, int, int]:
        return index, hvd.rank() * 10 + hvd.size(), random.randrange(10**9)


def seed(worker: int) -> None:
    random.seed(1000 * hvd.rank() + worker)


loader = torch.utils.data.DataLoader(
    Samples(), num_workers=2, worker_init_fn=seed, multiprocessing_context="fork", batch_size=None
)
for _ in range(2):  # a training step between the epochs
    read = list(loader)
    assert [index for index, _, _ in read] == list(range(4))
    assert all(who == hvd.rank() * 10 + hvd.size() for _, who, _ in read)
    expected = [random.Random(1000 * hvd.rank() + worker) for worker in range(2)]
    assert [number for _, _, number in read] == [expected[index % 2].randrange(10**9) for index in range(4)]
    assert hvd.allreduce(torch.ones(1), op=hvd.Sum).item() == hvd.size()
print("workers know their rank", flush=True)
