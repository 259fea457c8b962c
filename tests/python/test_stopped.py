"""A rank that is stopped in an operation, by suspend, a debugger or a container's freezer, and goes on when the others have
given up: no result is wrong, and nothing is written into memory that an error has given back.

Not in the usual run, `RONDE_TEST_SOAK=1` runs them: about one job in twenty does not end, an open fault (docs/roadmap.md)."""

from __future__ import annotations

import os

import pytest
from launching import run_job

pytestmark = pytest.mark.skipif(
    os.environ.get("RONDE_TEST_SOAK") != "1", reason="open fault: the rank that goes on may wait for ever"
)

_KINDS = ["allreduce", "unnamed", "grouped", "broadcast", "allgather", "alltoall", "reducescatter", "reduce", "exchange",
          "mixed"]  # fmt: skip


@pytest.mark.parametrize("kind", _KINDS)
@pytest.mark.parametrize("memory", ["private", "shared"])
def test_a_rank_that_goes_on_late(kind, memory, tmp_path):
    seed = _KINDS.index(kind) * 2 + (memory == "shared")
    ended = run_job(2, "stopped_in.py", kind, memory, str(seed), str(tmp_path), "-1", RONDE_TIMEOUT_S="1", forked=True)
    assert sorted(ended.lines("rank ")) == ["rank 0: right", "rank 1: right"], ended.output


@pytest.mark.parametrize("kind", ["allreduce", "allgather", "broadcast", "exchange"])
def test_another_is_killed_meanwhile(kind, tmp_path):
    memory = "shared" if kind == "allreduce" else "private"
    ended = run_job(3, "stopped_in.py", kind, memory, "5", str(tmp_path), "1", RONDE_TIMEOUT_S="1", forked=True)
    assert "rank 0: right" in ended.lines("rank "), ended.output
    assert not [line for line in ended.lines("rank ") if not line.endswith(": right")], ended.output
