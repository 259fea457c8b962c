"""Where a scheduler has placed the ranks of a job, and the environment that makes each of them a rank."""

from __future__ import annotations

import os
import secrets
import socket
import sys
from pathlib import Path
from typing import Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

from ronde.exceptions import RondeError

__all__ = [
    "Place",
    "Reservation",
    "Seat",
    "checked_environment",
    "environment_of",
    "new_key",
    "own_place",
    "refuse_a_rank",
    "seats_of",
]

#: How many pairs of ports are tried of a range of the user's.
_MOST_TRIES = 1000


class Place(NamedTuple):
    """A process that is to become a rank.

    Attributes:
        host: its host's name, for sentences.
        network: the same text for processes that reach each other at a loopback address, and so may share memory.
        address: numbers or a name, by which other hosts reach this one.
        pid: its number on its host.
        devices: the GPUs that the scheduler has given it, as ``CUDA_VISIBLE_DEVICES`` names them.
    """

    host: str
    network: str
    address: str
    pid: int
    devices: Tuple[str, ...] = ()


class Seat(NamedTuple):
    """Who a rank is: the numbers that ``rank()``, ``size()``, ``local_rank()`` and their like tell."""

    rank: int
    size: int
    local_rank: int
    local_size: int
    cross_rank: int
    cross_size: int


def own_place(address: str, devices: Sequence[str] = ()) -> Place:
    """This process's. ``address``: how its scheduler says that other hosts reach this one. Raises nothing."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    # Containers of one machine have its boot but networks of their own: they can neither meet at a loopback address nor share
    # memory. RONDE_HOST_ID is the user's word that processes are of different hosts.
    parts = (
        boot.read_text(encoding="ascii").strip() if boot.exists() else socket.gethostname(),
        os.readlink("/proc/self/ns/net") if os.path.lexists("/proc/self/ns/net") else "",
        os.environ.get("RONDE_HOST_ID", ""),
    )
    return Place(socket.gethostname(), "/".join(parts), address, os.getpid(), tuple(map(str, devices)))


def seats_of(places: Sequence[Place]) -> List[Seat]:
    """The seat of each place, in the places' order. Ranks are numbered host by host, hosts in the order in which they first
    come, so that ranks of one host follow each other."""
    hosts: Dict[str, List[int]] = {}
    for index, place in enumerate(places):
        hosts.setdefault(place.network, []).append(index)
    numbered = [index for members in hosts.values() for index in members]
    seats = {}
    for members in hosts.values():
        for local_rank, index in enumerate(members):
            across = [network for network, others in hosts.items() if len(others) > local_rank]
            seats[index] = Seat(
                numbered.index(index),
                len(places),
                local_rank,
                len(members),
                across.index(places[index].network),
                len(across),
            )
    return [seats[index] for index in range(len(places))]


class Reservation:
    """Two ports of this host that nobody else is given as long as this lives: where rank 0 serves the job's store, and
    ``MASTER_PORT``.

    The sockets are bound and never listen, so they are open to nobody; rank 0's own, which it binds beside them, may, since
    both say SO_REUSEADDR. So no other process can take a port between its choice and ``init()``, or between a
    ``shutdown()`` and the next ``init()``.
    """

    def __init__(self, port_range: Optional[str] = None) -> None:
        """``port_range``: ``29600-29699``, as RONDE_PORT_RANGE; None: the kernel's choice.

        Raises OSError if there are no free ports, ValueError for a range that cannot be read.
        """
        self._sockets: List[socket.socket] = []
        candidates = iter(_ports_of(port_range))
        while len(self._sockets) < 2:
            port = next(candidates, None)
            if port is None:
                self.close()
                raise OSError(f"RONDE_PORT_RANGE={port_range} has no two free ports on {socket.gethostname()}")
            try:
                self._sockets.append(_bound(port))
            except OSError:
                if port == 0:
                    self.close()
                    raise

    @property
    def ports(self) -> Tuple[int, int]:
        """That of the store, and ``MASTER_PORT``."""
        store, master = (int(each.getsockname()[1]) for each in self._sockets)
        return store, master

    def close(self) -> None:
        """Gives the ports back. Raises nothing."""
        for each in self._sockets:
            each.close()
        self._sockets = []


def _ports_of(port_range: Optional[str]) -> Sequence[int]:
    if not port_range:
        return (0, 0)
    first, dash, last = port_range.partition("-")
    if not (dash and first.isdigit() and last.isdigit() and 0 < int(first) <= int(last) < 65536):
        raise ValueError(f"RONDE_PORT_RANGE is '{port_range}'; expected FIRST-LAST, as 29600-29699")
    return range(int(first), int(last) + 1)[:_MOST_TRIES]


def _bound(port: int) -> socket.socket:
    """Bound at all addresses: which of them rank 0 listens at is its own choice."""
    made = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.bind(("0.0.0.0", port))
    except OSError:
        made.close()
        raise
    return made


def new_key() -> str:
    """A job's key: 64 hexadecimal digits of the kernel's random numbers. Who has it can take part in the job."""
    return secrets.token_hex(32)


def environment_of(
    index: int, places: Sequence[Place], ports: Tuple[int, int], key: str, more: Mapping[str, str]
) -> Dict[str, str]:
    """The variables that make the process at ``places[index]`` its rank, as `ronde run` sets them (docs/environment.md).

    Args:
        ports: of rank 0's :class:`Reservation`.
        key: of :func:`new_key`, the same for all.
        more: the user's own, which win.
    """
    seats = seats_of(places)
    seat = seats[index]
    first = places[next(i for i, each in enumerate(seats) if each.rank == 0)]
    # On one host nothing needs to be reachable from outside.
    address = "127.0.0.1" if len({place.network for place in places}) == 1 else first.address
    bracketed = f"[{address}]" if ":" in address else address
    variables = {}
    for family in ("RONDE_", "HOROVOD_"):
        for name, value in seat._asdict().items():
            variables[family + name.upper()] = str(value)
    variables.update(
        RANK=str(seat.rank),
        WORLD_SIZE=str(seat.size),
        LOCAL_RANK=str(seat.local_rank),
        LOCAL_WORLD_SIZE=str(seat.local_size),
        GROUP_RANK=str(seat.cross_rank),
        HOROVOD_HOSTNAME=places[index].host,
        RONDE_STORE=f"tcp:{bracketed}:{ports[0]}",
        RONDE_KEY=key,
        MASTER_ADDR=address,
        MASTER_PORT=str(ports[1]),
        # Whatever has started the scheduler (srun, say) has not started these ranks: this variable says so.
        RONDE_MASTER=f"{address}:{ports[1]}",
    )
    devices = _devices_of_host(places, seats, places[index].network)
    if devices:
        variables["CUDA_VISIBLE_DEVICES"] = ",".join(devices)
    return {**variables, **more}


def _devices_of_host(places: Sequence[Place], seats: Sequence[Seat], network: str) -> List[str]:
    """Those of all ranks of a host, by local rank: programs choose theirs by ``local_rank()``, as under other launchers."""
    here = sorted((seat.local_rank, place) for seat, place in zip(seats, places) if place.network == network)
    return list(dict.fromkeys(device for _, place in here for device in place.devices))


def checked_environment(env: Optional[Mapping[str, str]]) -> Dict[str, str]:
    """The user's variables, as a copy. TypeError if a name or a value is no text."""
    for name, value in (env or {}).items():
        if not isinstance(name, str) or not isinstance(value, str):
            raise TypeError(f"env holds {name!r}: {value!r}; expected names and values that are text")
    return dict(env or {})


def refuse_a_rank(what: str) -> None:
    """Raises RondeError if this process is a rank already: each rank of its job would begin ``what`` once more."""
    process = sys.modules.get("ronde._process")
    if process is None or not process.is_rank():
        return
    raise RondeError(
        f"{what}: this process is rank {process.rank()} of {process.size()} of a job already; call it from a process that is "
        "none, or after shutdown()"
    )
