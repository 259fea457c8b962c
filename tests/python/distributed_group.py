"""Default process groups for tests in workers, which are ranks of a job already."""

from __future__ import annotations

import contextlib
import itertools
import os
from pathlib import Path
from typing import Iterator

import torch.distributed as dist

_made = itertools.count()


@contextlib.contextmanager
def default_group(rank: int, world: int) -> Iterator[None]:
    """The backend ronde for the time of the block. The ranks meet at a file beside the job's socket."""
    folder = Path(os.environ["RONDE_STORE"][len("unix:") :]).parent
    store = dist.FileStore(str(folder / f"torch-store-{next(_made)}"), world)
    dist.init_process_group("ronde", store=store, rank=rank, world_size=world)
    try:
        yield
    finally:
        dist.destroy_process_group()
