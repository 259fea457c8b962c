"""Jobs between hosts whose ranks were started by hand: the values of all operations, over each kind of network."""

from __future__ import annotations

import pytest

from by_hand import ByHand


@pytest.mark.hosts(3)
@pytest.mark.parametrize("count", [pytest.param(2, marks=pytest.mark.long), 3])
def test_all_operations_on_hosts(bed, count):
    digests = ByHand(bed, bed.hosts[:count], "operations.py").succeed()
    assert len(set(digests)) == 1


@pytest.mark.hosts(2)
def test_all_operations_on_ranks_of_several_hosts(bed):
    one, two = bed.hosts
    digests = ByHand(bed, [one, two, two, one], "operations.py").succeed(90)
    assert len(set(digests)) == 1


@pytest.mark.hosts(2, "namespaces")
def test_over_ipv6_alone(bed):
    for host in bed.hosts:
        host.check("ip", "-4", "addr", "flush", "dev", "eth0")
    digests = ByHand(bed, bed.hosts, "operations.py", ipv6=True).succeed()
    assert len(set(digests)) == 1
