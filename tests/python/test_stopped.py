"""A rank that is stopped in an operation, by suspend, a debugger or a container's freezer, and goes on when the others
have given up: no result is wrong, nothing is written into memory that an error has given back, and nobody waits for ever.

A job takes some seconds of waiting for limits, so many run at a time. `RONDE_TEST_SOAK=1` runs each five times, at
other moments."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import List, Sequence, Tuple

import pytest
from launching import Ended, Job

_KINDS = ["allreduce", "unnamed", "grouped", "broadcast", "allgather", "alltoall", "reducescatter", "reduce", "exchange",
          "mixed"]  # fmt: skip
_IN_PLACE = ["allreduce", "unnamed", "grouped", "broadcast", "mixed"]  # shared memory makes a difference
_ROUNDS = 5 if os.environ.get("RONDE_TEST_SOAK") == "1" else 1


def ends_of(ranks: int, jobs: Sequence[Tuple[str, str, int]], killed: str, folder: Path) -> List[Ended]:
    """Of jobs that run beside each other: operation, memory and a seed for the moment."""
    with contextlib.ExitStack() as all_gone:
        started = []
        for kind, memory, seed in jobs:
            place = folder / f"{kind}-{memory}-{seed}"
            place.mkdir()
            arguments = (kind, memory, str(seed), str(place), killed)
            started.append(
                all_gone.enter_context(Job(ranks, "stopped_in.py", *arguments, RONDE_TIMEOUT_S="1", forked="torch"))
            )
        return [job.end() for job in started]


@pytest.mark.parametrize("round", range(_ROUNDS))
def test_a_rank_that_goes_on_late(round, tmp_path):
    both = [(kind, "private") for kind in _KINDS] + [(kind, "shared") for kind in _IN_PLACE]
    jobs = [(kind, memory, at + 100 * round) for at, (kind, memory) in enumerate(both)]
    for job, ended in zip(jobs, ends_of(2, jobs, "-1", tmp_path), strict=True):
        assert sorted(ended.lines("rank ")) == ["rank 0: right", "rank 1: right"], (job, ended.output)


@pytest.mark.parametrize("round", range(_ROUNDS))
def test_another_is_killed_meanwhile(round, tmp_path):
    jobs = [("allreduce", "shared", 5 + round)]
    jobs += [(kind, "private", 5 + round) for kind in ("allgather", "broadcast", "exchange")]
    for job, ended in zip(jobs, ends_of(3, jobs, "1", tmp_path), strict=True):
        assert "rank 0: right" in ended.lines("rank "), (job, ended.output)
        assert not [line for line in ended.lines("rank ") if not line.endswith(": right")], (job, ended.output)
