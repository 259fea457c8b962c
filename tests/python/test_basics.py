"""Who am I: topology, life cycle, errors before init. The checks of one rank; jobs are tested in the other files."""

from __future__ import annotations


import pytest


@pytest.mark.ranks(1, 2, 3, 5)
def test_topology(hvd, rank, world):
    assert hvd.is_initialized()
    assert hvd.size() == world and 0 <= rank < world
    assert hvd.local_rank() == rank and hvd.local_size() == world
    assert hvd.cross_rank() == 0 and hvd.cross_size() == 1
    assert sorted(hvd.allgather_object(rank)) == list(range(world))
