"""A rank of torch.distributed ends a group that others still use: what passes between them goes on, as over Gloo."""

from __future__ import annotations

import pytest
from launching import run_job


@pytest.mark.parametrize(("group", "rounds"), [("new_group", 5), ("default", 3)])
def test_the_others_go_on_sending(group, rounds):
    ended = run_job(3, "one_leaves.py", group, str(rounds), forked="torch")
    assert ended.code == 0, ended.output
    assert sorted(ended.lines("rank ")) == [f"rank {rank} done" for rank in range(3)], ended.output
