"""Which hosts a job is to run on."""

from __future__ import annotations

import socket
from typing import List, NamedTuple, Optional


class Host(NamedTuple):
    """A host and how many ranks it takes."""

    name: str
    slots: int


def _slots(text: str, where: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ValueError(f"{where}: '{text}' is no number of slots; expected 1 or more")
    return int(text)


def parse_hosts(text: str) -> List[Host]:
    """``host:slots,...``; a host without slots takes one. ValueError for anything else."""
    hosts = []
    for item in text.split(","):
        name, colon, slots = item.strip().rpartition(":")
        if not colon:
            name, slots = slots, "1"
        if not name:
            raise ValueError(f"-H {text}: expected host:slots, as in localhost:2")
        hosts.append(Host(name, _slots(slots, f"-H {text}")))
    return hosts


def read_host_file(path: str) -> List[Host]:
    """Lines ``host slots=N``; empty lines and what follows ``#`` do not count. ValueError, OSError."""
    hosts = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            words = line.split("#")[0].split()
            if not words:
                continue
            settings = dict(word.split("=", 1) for word in words[1:] if "=" in word)
            hosts.append(Host(words[0], _slots(settings.get("slots", "1"), f"{path}, line {number}")))
    if not hosts:
        raise ValueError(f"{path} names no host; expected lines such as `localhost slots=2`")
    return hosts


def is_this_host(name: str) -> bool:
    """Whether ranks there are started without ssh (src/launch/ssh_command.cc)."""
    own = socket.gethostname()
    return name in ("localhost", "::1", own, own.split(".")[0]) or name.startswith("127.")


def ranks_to_start(num_proc: Optional[int], hosts: Optional[List[Host]]) -> int:
    """How many ranks that is: ``num_proc``, or all slots. ValueError if the hosts do not take so many."""
    if num_proc is not None and num_proc < 1:
        raise ValueError(f"-np {num_proc}: expected 1 or more")
    if hosts is None:
        if num_proc is None:
            raise ValueError("how many ranks? Say it with -np N")
        return num_proc
    slots = sum(host.slots for host in hosts)
    if num_proc is not None and num_proc > slots:
        raise ValueError(f"-np {num_proc} is more than the {slots} slot{'s' * (slots != 1)} of the hosts given")
    return slots if num_proc is None else num_proc
