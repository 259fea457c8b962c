"""Hosts with their slots, and the ranks in them. Pure: nothing is started, so other hosts may be named."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from horovod.runner import _hosts


class HostInfo:
    """A host and how many ranks it takes."""

    def __init__(self, hostname: str, slots: int) -> None:
        self.hostname = hostname
        self.slots = slots

    @staticmethod
    def from_string(host_string: str) -> "HostInfo":
        """Of ``host:slots``; a host without slots takes one. ValueError for anything else."""
        return parse_hosts(host_string)[0]


@dataclass
class SlotInfo:
    """A rank and its place."""

    hostname: str
    rank: int
    local_rank: int
    cross_rank: int
    size: int
    local_size: int
    cross_size: int

    def to_response_string(self) -> str:
        """The numbers, as text: rank and size, in the job, on the host, and over hosts."""
        pairs = (self.rank, self.size, self.local_rank, self.local_size, self.cross_rank, self.cross_size)
        return ",".join(map(str, pairs))


#: No place.
INVALID_SLOT_INFO = SlotInfo("", -1, -1, -1, -1, -1, -1)


def parse_hosts(hosts_string: str) -> List[HostInfo]:
    """Of ``host:slots,...``. ValueError for anything else."""
    return [HostInfo(host.name, host.slots) for host in _hosts.parse_hosts(hosts_string)]


def parse_hosts_and_slots(hosts: str) -> Tuple[List[str], Dict[str, int]]:
    """The same as names, and slots by name."""
    parsed = parse_hosts(hosts)
    return [host.hostname for host in parsed], {host.hostname: host.slots for host in parsed}


def parse_host_files(filename: str) -> str:
    """``host:slots,...`` of a file with lines ``host slots=N``. ValueError, OSError."""
    return ",".join(f"{host.name}:{host.slots}" for host in _hosts.read_host_file(filename))


def get_host_assignments(hosts: Sequence[HostInfo], min_np: int, max_np: Optional[int] = None) -> List[SlotInfo]:
    """A place for each rank: all slots of the first host, then of the next, until ``max_np`` ranks have one. ValueError
    if there are fewer than ``min_np``."""
    places: List[Tuple[str, int]] = []  # by rank: the host, and which rank of it
    for host in hosts:
        room = host.slots if max_np is None else min(host.slots, max_np - len(places))
        places += [(host.hostname, local_rank) for local_rank in range(room)]
    if len(places) < min_np:
        raise ValueError(
            f"Requested more processes ({min_np}) than there are available slots ({len(places)}): give more hosts or slots"
        )
    local_sizes: Dict[str, int] = defaultdict(int)
    across: Dict[int, List[str]] = defaultdict(list)  # by local rank the hosts that have one
    for hostname, local_rank in places:
        local_sizes[hostname] += 1
        across[local_rank].append(hostname)
    return [
        SlotInfo(
            hostname=hostname,
            rank=rank,
            local_rank=local_rank,
            cross_rank=across[local_rank].index(hostname),
            size=len(places),
            local_size=local_sizes[hostname],
            cross_size=len(across[local_rank]),
        )
        for rank, (hostname, local_rank) in enumerate(places)
    ]
