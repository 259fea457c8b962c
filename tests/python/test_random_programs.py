"""Random programs, in which what a rank waits for, polls or drops is its own affair, give what the reference gives.

RONDE_PROGRAMS=n runs so many of each kind, RONDE_PROGRAM=seed only that one.
"""

from __future__ import annotations

import os

import pytest
import random_hvd_programs
import random_programs
import torch.distributed as dist
from distributed_group import default_group


def seeds(usual, world):
    """Of the programs to run; few where there are many more ranks than cores, which take their turns."""
    usual = usual if world <= 3 else usual // 10
    only = os.environ.get("RONDE_PROGRAM")
    if only is not None:
        return [int(only)]
    return range(1, int(os.environ.get("RONDE_PROGRAMS", usual)) + 1)


@pytest.mark.ranks(2, 3, deadline=3600)
def test_torch_distributed_beside_gloo(rank, world):
    with default_group(rank, world):
        pairs = [(dist.new_group(backend="gloo"), dist.group.WORLD), (dist.new_group(backend="gloo"), dist.new_group())]
        for seed in seeds(150, world):
            random_programs.run(seed, pairs, rank, world)


@pytest.mark.ranks(2, 3, deadline=3600)
def test_horovods_functions_beside_numpy(hvd, rank, world):
    for seed in seeds(100, world):
        random_hvd_programs.run(seed, hvd, rank, world)
