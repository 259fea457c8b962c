"""A loop of all-reduces with two live DataLoader workers; says what it sees. Rank 1 is to be killed by the test."""

import os
import sys
import time

import torch
from torch.utils.data import DataLoader, Dataset

import ronde.torch as hvd


class Numbers(Dataset):
    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.full((16,), float(index))


def main() -> None:
    torch.set_num_threads(1)
    hvd.init()
    loader = iter(DataLoader(Numbers(), batch_size=4, num_workers=2))
    next(loader)
    print(f"pid {hvd.rank()} {os.getpid()}", flush=True)
    step = 0
    try:
        while True:
            batch = next(loader)
            hvd.allreduce(batch, name="gradient", op=hvd.Sum)
            step += 1
            if step == 20:
                hvd.barrier()
            if step == 22 and hvd.rank() == 0:  # no rank is in the barrier any more: all have begun the step before
                print("running", flush=True)
    except hvd.HorovodInternalError as error:
        print(f"error at {time.time()} {type(error).__name__} code {error.code} rank {error.rank} of "
              f"'{error.tensor}': {error}", flush=True)  # fmt: skip
        sys.exit(3)


main()
