"""RONDE_TRANSPORT=ofi: what is right between hosts through libfabric, who is named when a rank dies, and how it is told that
libfabric cannot be used."""

from __future__ import annotations

import signal
import time

import pytest

from by_hand import ByHand

THROUGH_LIBFABRIC = {"RONDE_TRANSPORT": "ofi"}


@pytest.mark.hosts(2, "namespaces", "libfabric")
@pytest.mark.parametrize("provider", ["net", pytest.param("tcp", marks=pytest.mark.long)])
def test_every_operation_is_right(bed, provider):
    """Two ranks on the first host, one on the other; the same bits on all."""
    one, two = bed.hosts
    digests = ByHand(bed, [one, one, two], "operations.py", **THROUGH_LIBFABRIC, RONDE_OFI_PROVIDER=provider).succeed(120)
    assert len(set(digests)) == 1


@pytest.mark.hosts(3, "namespaces", "libfabric")
def test_a_rank_that_is_killed_is_named_at_once_and_leaves_nothing(bed):
    job = ByHand(bed, bed.hosts, "steps.py", 1_000_000, **THROUGH_LIBFABRIC)
    for rank in range(3):
        job.read_to(rank, "step 3")
    killed = time.monotonic()
    job.signal(1)
    for rank in (0, 2):
        said = job.read_to(rank, "failed at")
        assert float(said.split()[2].rstrip(":")) - killed < 2, said
        assert "rank 1 (host rh2, pid " in said and "PeerLostError" in said
        job.ranks[rank].stdin.close()
        assert job.ranks[rank].wait(10) == 3
    assert job.ranks[1].wait(10) == -signal.SIGKILL
    for host in bed.hosts:
        assert host.check("ls", "/dev/shm").strip() == ""


@pytest.mark.hosts(2, "namespaces", "libfabric")
def test_where_libfabric_cannot_be_used_all_ranks_say_which_rank_and_why(bed):
    """On one host there is none, or ranks have different providers."""
    cases = {
        "rank 1 (host rh2) cannot use RONDE_TRANSPORT=ofi: RONDE_OFI_LIBRARY names no libfabric that can be used": {
            "RONDE_OFI_LIBRARY": "/nowhere/libfabric.so.1"},
        "rank 1 (host rh2) has provider tcp;ofi_rxm of libfabric ": {"RONDE_OFI_PROVIDER": "tcp"},
        "which Ronde does not use: it reaches ranks of its own host only": {"RONDE_OFI_PROVIDER": "shm"},
    }
    for sentence, of_second in cases.items():
        ends = ByHand(bed, bed.hosts, "steps.py", 10, 1, each=[{"RONDE_OFI_PROVIDER": "net"}, of_second], **THROUGH_LIBFABRIC)
        for rank in range(2):
            said = ends.read_to(rank, "failed at")
            assert sentence in said
            ends.ranks[rank].stdin.close()
            assert ends.ranks[rank].wait(10) == 3
