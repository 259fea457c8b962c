"""Connections of others to a job between hosts, and ranks that do not belong to it."""

from __future__ import annotations

import secrets
import subprocess
import sys

import pytest

from bed import wait_until
from by_hand import PROGRAMS, ByHand


def start_strangers(host, target, port, count, seed, *record):
    return host.start(sys.executable, PROGRAMS / "strangers.py", target.address, port, count, seed, *record,
                      stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def connections(strangers):
    out, err = strangers.communicate(timeout=180)
    assert strangers.returncode == 0, err
    return int(out.split()[-1])


def listening(host, but=()):
    """The TCP ports at which the host listens."""
    rows = host.check("ss", "-Hltn").splitlines()
    return {int(row.split()[3].rpartition(":")[2]) for row in rows} - set(but)


@pytest.mark.hosts(3)
@pytest.mark.parametrize("count", [1000, pytest.param(5000, marks=pytest.mark.long)])
def test_strangers_change_nothing_while_a_job_runs(bed, count):  # 34, 36
    one, two, other = bed.hosts
    undisturbed = ByHand(bed, [one, two], "operations.py").ends()
    assert [end.err for end in undisturbed.values()] == ["strangers: 0\n"] * 2

    # Rank 1 reaches the store through somebody who records what it says there, to say it again.
    record = bed.folder / "record"
    recorder = other.start(sys.executable, PROGRAMS / "recorder.py", other.address, 29501, one.address, 29500, record,
                           stdout=subprocess.PIPE)
    assert recorder.stdout.readline() == "ready\n"
    through = {"RONDE_STORE": f"tcp:{other.address}:29501"}
    job = ByHand(bed, [one, two], "operations.py", each=[{}, through] if bed.has_namespaces else ())
    if bed.has_namespaces:
        wait_until(lambda: record.exists() and record.stat().st_size > 100, "what rank 1 says")
    else:
        record.write_bytes(secrets.token_bytes(200))
    strangers = [start_strangers(other, one, job.port, count, seed, record) for seed in range(2)]
    assert [each.stdout.readline() for each in strangers] == ["begun\n"] * 2
    disturbed = job.ends()
    assert [(end.code, end.out) for end in disturbed.values()] == [(0, end.out) for end in undisturbed.values()]
    counted = int(disturbed[0].err.rpartition("strangers: ")[2])
    assert 0 < counted <= 2 * count and disturbed[1].err == "strangers: 0\n"
    assert f"a connection from {other.address} port " in disturbed[0].err, disturbed[0].err
    assert len(disturbed[0].err.splitlines()) == 1 + len(str(counted))  # the first, the tenth, the hundredth
    for each in strangers:
        assert connections(each) == count


@pytest.mark.hosts(3, "namespaces")
def test_strangers_do_not_keep_ranks_apart(bed):  # 34
    """They come first, to every port of ranks that wait for the last of them."""
    one, two, other = bed.hosts
    # By TCP alone a rank listens for others before they have come; else it first finds out with whom it shares a host.
    job = ByHand(bed, [one, two], "operations.py", each=[{}, {}], RONDE_TRANSPORT="tcp")
    job.signal(1)
    wait_until(lambda: len(listening(one)) == 2, "the ports of rank 0: the store's and its own")
    strangers = [start_strangers(other, one, port, 3000, port) for port in listening(one)]
    assert [each.stdout.readline() for each in strangers] == ["begun\n"] * 2
    late = two.start(sys.executable, PROGRAMS / "operations.py", env=job.environment(1), stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    out, err = late.communicate(timeout=180)
    assert late.returncode == 0, err
    assert job.ends(without=[1])[0].out == out
    for each in strangers:
        each.kill()


@pytest.mark.hosts(2)
def test_another_key_is_refused(bed):  # 35
    other_key = {"RONDE_KEY": secrets.token_hex(32)}
    job = ByHand(bed, bed.hosts, "steps.py", 10, each=[{}, other_key], RONDE_INIT_TIMEOUT_S="3")
    first, second = [job.read_to(rank, "failed at") for rank in range(2)]
    assert "missing: rank 1" in first and "another job's key" in second


@pytest.mark.hosts(3)
def test_who_has_not_come_is_named(bed):  # 38
    job = ByHand(bed, bed.hosts, "steps.py", 10, each=[{}, {}, {"RONDE_STORE": f"tcp:{bed.hosts[2].address}:1"}],
                 RONDE_INIT_TIMEOUT_S="3")
    first, second, third = [job.read_to(rank, "failed at") for rank in range(3)]
    assert "missing: rank 2" in first and "missing: rank 2" in second
    assert "nobody serves the job's store" in third


@pytest.mark.hosts(2)
def test_two_processes_that_are_the_same_rank(bed):  # 37
    one, two = bed.hosts
    job = ByHand(bed, [one, two, two], "steps.py", 10, RONDE_SIZE="2", RONDE_INIT_TIMEOUT_S="5",
                 each=[{}, {}, {"RONDE_RANK": "1"}])
    said = [job.read(rank) for rank in (1, 2)]
    assert "ready" in said and job.read(0) == "ready", said  # one of them is rank 1, and the job is as without the other
    refused = next(text for text in said if text != "ready")
    assert "another one is, or was, rank 1" in refused or "another process has claimed this rank" in refused, said


@pytest.mark.hosts(2)
def test_a_port_that_is_taken(bed):  # 39
    one = bed.hosts[0]
    taken = f"import socket, time; s = socket.create_server(('{one.address}', 29500)); "
    taken += "print('ready', flush=True); time.sleep(99)"
    other = one.start(sys.executable, "-c", taken, stdout=subprocess.PIPE)
    assert other.stdout.readline() == "ready\n"
    job = ByHand(bed, bed.hosts, "steps.py", 10, RONDE_STORE=f"tcp:{one.address}:29500", RONDE_INIT_TIMEOUT_S="3")
    said = job.read_to(0, "failed at")
    assert "29500" in said and "in use" in said
    assert "29500" in job.read_to(1, "failed at")


@pytest.mark.hosts(2, "namespaces")
def test_loopback_is_told_to_another_host(bed):  # 40
    job = ByHand(bed, bed.hosts, "steps.py", 10, RONDE_ADDRESS="127.0.0.1", RONDE_INIT_TIMEOUT_S="3")
    said = [job.read_to(rank, "failed at") for rank in range(2)]
    assert any("RONDE_ADDRESS" in text for text in said), said


@pytest.mark.hosts(2)
def test_an_address_that_is_not_this_hosts(bed):  # 40
    job = ByHand(bed, bed.hosts, "steps.py", 10, each=[{}, {"RONDE_ADDRESS": "10.99.0.1"}], RONDE_INIT_TIMEOUT_S="5")
    said = [job.read_to(rank, "failed at") for rank in range(2)]
    assert all("rank 1" in text and "10.99.0.1" in text for text in said), said


@pytest.mark.long
@pytest.mark.hosts(2)
def test_too_few_descriptors(bed):  # 43
    """At whatever point of its start a rank runs out of them, it says so, and the other names it."""
    ended_well = 0
    for descriptors in range(5, 10):
        job = ByHand(bed, bed.hosts[:1], "steps.py", 10, 5, RONDE_SIZE="2", RONDE_INIT_TIMEOUT_S="5")
        limited = f"ulimit -n {descriptors}; exec {sys.executable} {PROGRAMS / 'steps.py'} 10 5"
        env = {**job.environment(0), "RONDE_RANK": "1", "RONDE_ADDRESS": bed.hosts[1].address}
        other = bed.hosts[1].start("sh", "-c", limited, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        out, err = other.communicate(timeout=180)
        job.tell()
        (end,) = job.ends().values()
        assert "Too many open files" in out + err and other.returncode != 0, (descriptors, out, err, end)
        if "InitializationError" in out:
            assert end.code == 3 and "rank 1" in end.out, (descriptors, out, end)
            ended_well += 1
    assert ended_well > 2
