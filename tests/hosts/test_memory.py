"""Memory that ranks of a host share: there is too little of it, or a job that was killed had some.

The numbers are those of the list of faults that these tests are made from.
"""

from __future__ import annotations

import signal

import pytest

from by_hand import ByHand


@pytest.mark.hosts(2)
@pytest.mark.parametrize("bytes_", [1000, 5_000_000])  # nothing can be shared; no room for large tensors
def test_a_host_that_gives_too_little_shared_memory_goes_by_tcp(bed, bytes_):  # 21
    one, two = bed.hosts
    little = {"LITTLE": "1"}
    ends = ByHand(bed, [one, one, two, two], "little_memory.py", bytes_, each=[{}, {}, little, little]).ends()
    assert [(end.code, end.out) for end in ends.values()] == [(0, "right\n")] * 4, ends
    # Not more than one line, by the lowest rank of the host.
    assert [end.err == "" for end in ends.values()] == [True, True, bytes_ != 1000, True], ends
    if bytes_ == 1000:
        for word in ("warning", "the ranks 3 ", "rank 2 on host rh2 cannot share memory: ", " bytes: File too large", "doctor"):
            assert word in ends[2].err, ends[2].err


@pytest.mark.hosts(2)
def test_a_killed_job_leaves_no_memory_and_the_next_one_works(bed):  # 22
    """Of one key and port, as a script that is started again has."""
    one, two = bed.hosts
    places = [one, one, two, two]

    def left():
        """What lies where a name of shared memory would, and the sockets with a name."""
        return [sorted(host.check("sh", "-c", "ls -A /dev/shm /tmp; grep -c ronde- /proc/net/unix || true").split())
                for host in bed.hosts]

    before = left()
    job = ByHand(bed, places, "steps.py", 1_000_000)
    for rank in range(4):
        job.read_to(rank, "step 1")
    for rank in range(4):
        job.signal(rank)
    for process in job.ranks:
        assert process.wait(10) == -signal.SIGKILL
    assert left() == before
    again = ByHand(bed, places, "steps.py", 1_000_000, 3, RONDE_KEY=job.key)
    for rank in range(4):
        again.read_to(rank, "right")
    again.succeed()
    assert left() == before
