"""Horovod's two limits in a job: the log says who is waited for, and then the waiting rank's call ends with it."""

from __future__ import annotations

import pytest

from launching import run_job


@pytest.mark.parametrize("steps", [0, 10], ids=["agreed", "replayed"])
def test_a_stall_is_reported_and_then_ends_the_job(tmp_path, steps):
    ended = run_job(
        2, "stalls.py", str(steps), str(tmp_path / "gone"),
        HOROVOD_STALL_CHECK_TIME_SECONDS="0.5", HOROVOD_STALL_SHUTDOWN_TIME_SECONDS="1.5",
    )
    assert ended.code != 0
    assert "named 'allreduce.x' waits for rank 0; rank 1 has submitted it" in ended.output
    sentence = ended.lines("ended: ")
    assert len(sentence) == 1 and "named 'allreduce.x': rank 0 did not submit it" in sentence[0], ended.output
