"""What is measured between hosts: works of benchmarks/peers, each on a network of its own."""

from __future__ import annotations

from dataclasses import dataclass

from works import KIB, MIB, Work, is_many, size_text


@dataclass(frozen=True)
class Network:
    """Hosts and the links between them. Two works on equal networks share the bed."""

    name: str
    hosts: int
    rate: str = ""  # tc's; empty: as fast as the processor is
    burst: str = ""


BARE = Network("bare", 2)
TEN_GBIT = Network("10 Gbit/s", 2, "10gbit", "4m")
ONE_GBIT = Network("1 Gbit/s", 4, "1gbit", "256k")


@dataclass(frozen=True)
class HostWork:
    work: Work
    network: Network
    per_host: int = 1
    counts_bytes: bool = False  # those on each host's interface

    def __post_init__(self):
        assert self.work.ranks == self.network.hosts * self.per_host

    @property
    def kind(self) -> str:
        """In results: what was done and where."""
        return kind_of(self.work.kind, self.network, self.per_host)

    @property
    def title(self) -> str:
        if self.work.kind == "wire":
            return f"the wire, {self.network.name}"
        what = self.work.title.split(", ")[0]
        return f"{what}, {self.network.hosts} hosts x {self.per_host}, {self.network.name}"

    @property
    def limit_s(self) -> float:
        return self.work.limit_s + 30  # for a start by ssh, and a slow link


def kind_of(what: str, network: Network, per_host: int = 1) -> str:
    return f"{what} {network.hosts}x{per_host} {network.name}"


GROUPS = ([8, 64, KIB, 8 * KIB, 64 * KIB], [512 * KIB, MIB, 4 * MIB], [16 * MIB, 64 * MIB, 256 * MIB])
QUICK_GROUPS = ([8, KIB, 64 * KIB], [MIB], [16 * MIB, 64 * MIB])
SET_MODES = {"resnet50": ("async", "blocking", "flat", "packed"), "3000x1K": ("async", "blocking", "packed")}
QUICK_SET_MODES = {"resnet50": ("async", "packed"), "3000x1K": ("async", "packed")}


def all_works(quick: bool) -> list[HostWork]:
    """One round."""
    works = []
    for network in (BARE, TEN_GBIT):
        works.append(HostWork(Work("wire", 2, seconds=1 if quick else 3), network))
        for sizes in QUICK_GROUPS if quick else GROUPS:
            seconds = (0.1 if quick else 0.3) * (3 if max(sizes) >= 16 * MIB else 1)
            works.append(HostWork(Work("sweep", 2, tuple(sizes), True, seconds=seconds), network))
    eight = Work("sweep", 8, (64 * MIB,), True, seconds=2.5 if quick else 6)
    works.append(HostWork(eight, ONE_GBIT, per_host=2, counts_bytes=True))
    for name, modes in (QUICK_SET_MODES if quick else SET_MODES).items():
        for mode in modes:
            work = Work("set", 2, set=name, mode=mode, in_place=True, seconds=0.5 if quick else 1.5)
            works.append(HostWork(work, BARE))
    return works


__all__ = ["BARE", "KIB", "MIB", "ONE_GBIT", "TEN_GBIT", "HostWork", "Network", "Work", "all_works", "is_many", "kind_of",
           "size_text"]
