"""Frameworks above torch.distributed train on the backend ronde as docs/from-ddp.md says, each in its released form."""

from __future__ import annotations

import pytest

from launching import run_job


@pytest.mark.parametrize("framework", ["lightning", "accelerate", "ignite"])
def test_trains_to_the_last_bit_as_one_process(framework, tmp_path):
    ended = run_job(2, f"with_{framework}.py", TMPDIR=str(tmp_path))
    assert ended.code == 0, ended.output
    assert sorted(ended.lines("rank ")) == [f"rank {rank} equal after 12 steps" for rank in range(2)], ended.output
