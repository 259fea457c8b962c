"""Mistakes of programs in jobs between hosts: all ranks are told what differs, and where it was called.

The numbers are those of the list of faults that these tests are made from.
"""

from __future__ import annotations

import time

import pytest

from by_hand import ByHand


@pytest.mark.hosts(2)
@pytest.mark.parametrize(("kind", "said"), [
    ("shape", ["'allreduce.gradient'", "[3, 4]", "[3, 5]"]),
    ("dtype", ["'allreduce.gradient'", "float32", "float64"]),
    ("op", ["'allreduce.gradient'", "sum", "max"]),
    ("root", ["'broadcast.gradient'", "root"]),
    ("set", []),
])
def test_what_differs_is_said_on_all_ranks_and_the_job_goes_on(bed, kind, said):  # 23, 24
    one, two = bed.hosts
    job = ByHand(bed, [one, one, two], "mistakes.py", kind)
    assert job.read_all() == ["ready"] * 3
    texts = job.read_all()
    for text in texts:
        assert text.startswith("MismatchError: ") and all(word in text for word in said), texts
    assert job.read_all() == ["goes on"] * 3
    job.succeed()


@pytest.mark.hosts(2, "namespaces")
def test_an_exception_on_one_rank_is_heard_at_once(bed):  # 27
    one, two = bed.hosts
    job = ByHand(bed, [one, two, two], "mistakes.py", "exception")
    assert job.read_all() == ["ready"] * 3
    job.tell()
    raised = float(job.read_to(1, "raised at").split()[2])
    for rank in (0, 2):
        text = job.read_to(rank, "failed at")
        assert float(text.split()[2].rstrip(":")) - raised < 1, text
        assert "PeerLeftError: 'allreduce.steps': rank 1 has left the job" in text, text
    ends = job.ends()
    assert [end.code for end in ends.values()] == [3, 1, 3] and "a batch is damaged" in ends[1].err
