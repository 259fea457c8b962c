"""Ranks and hosts that die, stop or fall silent while a job runs between hosts: who is named, how, and within which time.

The numbers are those of the list of faults that these tests are made from.
"""

from __future__ import annotations

import signal
import time

import pytest

from bed import Bed
from by_hand import ByHand

HOST_TIMEOUT_S = 10  # RONDE_HOST_TIMEOUT_S, where it is not set
SHORT_S = 3  # the shortest that may be set
GONE = "its host does not answer any more"


def started(bed, count, *arguments, step=3, **environment):
    """A job of a rank on each host, that has come so far."""
    job = ByHand(bed, bed.hosts, "steps.py", count, *arguments, **environment)
    for rank in range(len(bed.hosts)):
        job.read_to(rank, f"step {step}")
    return job


def failure(job, rank, since, within_s):
    """What the rank says of its failed call, which came in time."""
    text = job.read_to(rank, "failed at")
    assert float(text.split()[2].rstrip(":")) - since < within_s, (rank, since, text)
    return text


def survivors(job, lost, since, within_s):
    """What the others say, all of them in time; then they are let go."""
    said = {rank: failure(job, rank, since, within_s) for rank in range(len(job.ranks)) if rank != lost}
    for rank, text in said.items():
        assert f"rank {lost} (host rh{lost + 1}, pid " in text and "PeerLostError" in text, said
        job.ranks[rank].stdin.close()
        assert job.ranks[rank].wait(10) == 3
    return said


@pytest.mark.hosts(3, "namespaces")
@pytest.mark.parametrize(("lost", "count"), [(0, 10), (2, 10), (0, 3_000_000), (2, 3_000_000)])
def test_a_rank_that_is_killed_is_seen_at_once(bed, lost, count):  # 1, 3
    job = started(bed, count)
    killed = time.monotonic()
    job.signal(lost)
    survivors(job, lost, killed, 2)
    assert job.ranks[lost].wait(10) == -signal.SIGKILL


@pytest.mark.hosts(3, "namespaces")
def test_a_rank_that_is_killed_while_nothing_is_under_way(bed):  # 1
    job = started(bed, 10, 1000, 1.0, step=0)
    killed = time.monotonic()
    job.signal(1)
    survivors(job, 1, killed, 3)


@pytest.mark.hosts(3, "namespaces")
@pytest.mark.parametrize("lost", [0, 2])
def test_the_end_of_all_of_a_hosts_processes_is_seen_at_once(bed, lost):
    job = started(bed, 3_000_000)
    killed = time.monotonic()
    bed.hosts[lost].kill()
    survivors(job, lost, killed, 2)


@pytest.mark.hosts(0, "namespaces")
def test_a_host_that_vanishes_is_noticed_in_ten_seconds(bed):  # 5, 9
    """With much under way to it, with little, with nothing, with rank 0 on it, and after the rank there was stopped: all at
    the same time."""
    much = (3_000_000, 1000, 0.05)
    cases = [(much, 2, 1), ((10, 100_000, 0.01), 2, 1), ((10, 1000, 3.0), 2, 0), (much, 0, 1), (much, 1, 1)]
    beds = [Bed(3) for _ in cases]
    try:
        jobs = [started(each.__enter__(), *arguments, step=step) for each, (arguments, _, step) in zip(beds, cases)]
        jobs[-1].signal(1, signal.SIGSTOP)
        until = time.monotonic() + 4  # so that the kernels ask for room seldom
        while time.monotonic() < until:
            assert all(process.poll() is None for job in jobs for process in job.ranks)
            time.sleep(0.1)
        cuts = []
        for each, (_, lost, _) in zip(beds, cases):
            each.hosts[lost].faults.cut_power()
            cuts.append(time.monotonic())
        for job, cut, (_, lost, _) in zip(jobs, cuts, cases):
            said = survivors(job, lost, cut, HOST_TIMEOUT_S + 1)  # one more, where others keep the cores
            assert any(GONE in text for text in said.values()), said
    finally:
        for each in beds:
            each.close()


@pytest.mark.hosts(3, "namespaces")
def test_how_soon_a_vanished_host_is_noticed_can_be_set(bed):
    job = started(bed, 1_000_000, RONDE_HOST_TIMEOUT_S=str(SHORT_S))
    bed.hosts[1].faults.cut_power()
    said = survivors(job, 1, time.monotonic(), SHORT_S + 1)
    assert any(GONE in text for text in said.values())


@pytest.mark.hosts(2, "faults")
@pytest.mark.parametrize("which", [[], ["broadcast"]], ids=["who is answered too", "who only sends"])
def test_a_host_that_hears_nothing_any_more(bed, which):  # 12
    job = started(bed, 1_000_000, 10**9, 0.0, *which, RONDE_HOST_TIMEOUT_S=str(SHORT_S))
    bed.hosts[1].faults.deaf(of=bed.hosts[0])
    began = time.monotonic()
    for rank in range(2):
        assert "PeerLostError" in failure(job, rank, began, 2 * SHORT_S + 1)


@pytest.mark.hosts(3, "namespaces")
@pytest.mark.parametrize("count", [10, pytest.param(3_000_000, marks=pytest.mark.long)])
def test_a_rank_that_is_stopped_has_not_died(bed, count):  # 6
    """Longer than a host may be silent, with more under way than there is room for."""
    job = started(bed, count, RONDE_HOST_TIMEOUT_S=str(SHORT_S))
    stopped = job.ranks[2]
    stopped.send_signal(signal.SIGSTOP)
    until = time.monotonic() + 2.5 * SHORT_S
    while time.monotonic() < until:
        assert all(process.poll() is None for process in job.ranks)
        time.sleep(0.1)
    stopped.send_signal(signal.SIGCONT)
    for rank in range(3):
        last = int(job.read_to(rank, "step").split()[1])
        while int(job.read_to(rank, "step").split()[1]) < last + 50:
            pass


@pytest.mark.hosts(3, "namespaces")
def test_a_link_that_is_down_for_a_moment(bed):
    job = started(bed, 100_000)
    bed.hosts[1].faults.link_down()
    time.sleep(2)  # less than a host may be silent
    bed.hosts[1].faults.link_up()
    for rank in range(3):
        last = int(job.read_to(rank, "step").split()[1])
        while int(job.read_to(rank, "step").split()[1]) < last + 300:
            pass


@pytest.mark.hosts(2, "faults")
def test_a_connection_that_is_reset_in_the_middle(bed):  # 15
    job = started(bed, 3_000_000, RONDE_HOST_TIMEOUT_S=str(SHORT_S))
    reset = time.monotonic()
    bed.hosts[1].faults.reset(of=bed.hosts[0])
    said = [failure(job, rank, reset, 2 * SHORT_S) for rank in range(2)]
    assert all("PeerLostError" in text for text in said), said
    assert any("its connection was reset" in text for text in said), said
