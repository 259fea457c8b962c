"""Frameworks above torch.distributed train on the backend ronde as docs/from-ddp.md says, each in its released form."""

from __future__ import annotations

import pytest

from launching import run_job

FRAMEWORKS = ["lightning", "accelerate", "transformers", "ignite"]


@pytest.mark.long
def test_they_train_to_the_last_bit_as_one_process(tmp_path):
    ended = run_job(2, "with_each.py", *FRAMEWORKS, limit_s=240.0, forked="torch", TMPDIR=str(tmp_path))
    assert ended.code == 0, ended.output
    for name in FRAMEWORKS:
        assert len(ended.lines(f"{name} has ended")) == 2, ended.output
    equal = [f"rank {rank} equal after 12 steps" for rank in range(2)]
    assert sorted(ended.lines("rank ")) == sorted(equal * len(FRAMEWORKS)), ended.output
