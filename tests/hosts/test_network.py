"""Networks that lose, change and delay what goes over them: what a job between hosts does then."""

from __future__ import annotations

import time

import pytest

from by_hand import ByHand


@pytest.mark.hosts(3, "faults")
@pytest.mark.parametrize("percent", [1, 5])
def test_sums_are_right_where_packets_are_lost(bed, percent):  # 13
    for host in bed.hosts:
        host.faults.packets_as_on_the_wire()
    job = ByHand(bed, bed.hosts, "steps.py", 100_000, 30 // percent)
    for host in bed.hosts:
        host.faults.loss(percent)
    for rank in range(3):
        job.read_to(rank, "right")


@pytest.mark.long
@pytest.mark.hosts(3, "faults")
@pytest.mark.parametrize("percent", [1, 5])
def test_values_are_right_where_packets_are_lost(bed, percent):  # 13
    for host in bed.hosts:
        host.faults.packets_as_on_the_wire()
    job = ByHand(bed, bed.hosts, "operations.py", RONDE_HOST_TIMEOUT_S="10")
    for host in bed.hosts:
        host.faults.loss(percent)
    digests = job.succeed(200)
    assert len(set(digests)) == 1


#: How a wire treats packets; see faults.wire().
WIRES = {
    "late": {"delay_ms": 20, "jitter_ms": 10},
    "in another order": {"delay_ms": 1, "reordered": 10},
    "twice": {"delay_ms": 0.2, "twice": 5},
    "all of it": {"delay_ms": 2, "jitter_ms": 2, "reordered": 5, "twice": 5},
}


@pytest.mark.hosts(3, "wire")
@pytest.mark.parametrize("wire", WIRES)
def test_sums_are_right_where_packets_come_late_twice_or_in_another_order(bed, wire):  # 13
    """No host is taken for dead meanwhile."""
    job = ByHand(bed, bed.hosts, "steps.py", 30_000, 10, RONDE_HOST_TIMEOUT_S="5")
    for host in bed.hosts:
        host.faults.wire(**WIRES[wire])
    for rank in range(3):
        job.read_to(rank, "right")


@pytest.mark.long
@pytest.mark.hosts(3, "wire")
@pytest.mark.parametrize("protection", ["checksum", "encrypt"])
def test_values_are_right_where_packets_come_as_they_like(bed, protection):  # 13
    job = ByHand(bed, bed.hosts, "operations.py", RONDE_HOST_TIMEOUT_S="10", RONDE_TCP_INTEGRITY=protection)
    for host in bed.hosts:
        host.faults.wire(jitter_ms=0.2, reordered=5, twice=5)
    assert len(set(job.succeed(200))) == 1


@pytest.mark.hosts(2, "rate")
@pytest.mark.long
def test_a_slow_link_is_not_a_dead_host(bed):  # 14
    """A step takes several times as long as a host may be silent, while bytes move all the time."""
    job = ByHand(bed, bed.hosts, "steps.py", 150_000, 2, 0, "told", RONDE_HOST_TIMEOUT_S="3")
    assert job.read_all() == ["ready"] * 2
    bed.hosts[1].faults.rate("1mbit", burst="32k")
    began = time.monotonic()
    job.tell()
    for rank in range(2):
        job.read_to(rank, "right")
    assert time.monotonic() - began > 6
    bed.hosts[1].faults.heal()
    job.succeed()


@pytest.mark.hosts(2, "namespaces")
def test_what_is_larger_than_the_way_lets_through_ends_the_job(bed):  # 41
    """A black hole: hosts that send large packets, and a switch port that drops them without a word."""
    for host in bed.hosts:
        host.check("ip", "link", "set", "eth0", "mtu", "9000")
    for host in bed.hosts:
        host.in_switch("ip", "link", "set", host.port, "mtu", "9000" if host is bed.hosts[0] else "1500")
        host.faults.packets_as_on_the_wire()
    job = ByHand(bed, bed.hosts, "steps.py", 300_000, RONDE_HOST_TIMEOUT_S="3")
    job.read_all()
    began = time.monotonic()
    said = [job.read_to(rank, "failed at") for rank in range(2)]
    assert time.monotonic() - began < 6
    assert all("PeerLostError" in text for text in said) and any("does not answer" in text for text in said), said


@pytest.mark.hosts(2, "namespaces")
def test_a_link_of_small_packets(bed):  # 41
    bed.hosts[1].faults.mtu(1280)
    digests = ByHand(bed, bed.hosts, "operations.py").succeed()
    assert len(set(digests)) == 1


# ---- Clocks

@pytest.mark.hosts(2)
@pytest.mark.parametrize("at_first, then", [("+3600", "+3600"), ("+0", "-3600"), ("+0", "+3600")])
def test_the_wall_clock_of_a_host_is_an_hour_off_or_jumps(bed, at_first, then):  # 42
    """Only monotonic clocks count."""
    preload = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1"
    if bed.hosts[0].run("test", "-e", preload).returncode != 0:
        pytest.skip("there is no libfaketime (Debian's package faketime)")
    clock = bed.folder / "clock"
    clock.write_text(f"{at_first}s\n")
    wrong = {"LD_PRELOAD": preload, "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
             "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    job = ByHand(bed, bed.hosts, "clock_steps.py", each=[{}, wrong])
    began = [float(job.read_to(rank, "begins at").split()[2]) for rank in range(2)]
    clock.write_text(f"{then}s\n")
    job.tell()
    ended = [float(job.read_to(rank, "ends at").split()[2]) for rank in range(2)]
    job.succeed()
    assert abs(ended[1] - began[1] - (float(then) - float(at_first))) < 600, "the clock has jumped"
    assert abs(ended[0] - began[0]) < 600


# ---- Bytes that TCP lets pass

@pytest.mark.hosts(2, "faults")
@pytest.mark.parametrize(
    "count, protection", [(10, "checksum"), (1_000_000, "checksum"), (1_000_000, "mac"), (1_000_000, "encrypt")]
)
def test_changed_bytes_end_the_job_and_name_the_rank(bed, count, protection):  # 16
    job = ByHand(bed, bed.hosts, "steps.py", count, RONDE_TCP_INTEGRITY=protection)
    for rank in range(2):
        job.read_to(rank, "step 3")
    bed.hosts[1].faults.corrupt(every=5, at=0 if count == 10 else 1001)
    said = [job.read_to(rank, "failed at") for rank in range(2)]
    assert "what rank 0 has sent was changed on the way" in said[1], said
    assert "rank 1" in said[0], said


@pytest.mark.hosts(2, "faults")
def test_without_a_checksum_wrong_values_pass(bed):
    """That is what the checksum is for: this test says whether the one before tests anything."""
    job = ByHand(bed, bed.hosts, "steps.py", 1_000_000, RONDE_TCP_INTEGRITY="off")
    for rank in range(2):
        job.read_to(rank, "step 3")
    bed.hosts[1].faults.corrupt(every=5, at=1001)
    with pytest.raises(AssertionError, match="wrong values"):
        while True:
            job.read_to(1, "step")


@pytest.mark.hosts(2)
@pytest.mark.parametrize("protection", ["mac", "encrypt"])
def test_all_operations_with_a_mac_and_encrypted(bed, protection):
    ByHand(bed, [bed.hosts[0], *bed.hosts], "operations.py", RONDE_TCP_INTEGRITY=protection).succeed()


@pytest.mark.hosts(2)
def test_all_ranks_need_one_kind_of_protection(bed):
    job = ByHand(bed, bed.hosts, "steps.py", 10, each=[{}, {"RONDE_TCP_INTEGRITY": "off"}])
    for rank in range(2):
        said = job.read_to(rank, "failed at")
        assert f"rank {1 - rank} (host " in said and "RONDE_TCP_INTEGRITY" in said, said
