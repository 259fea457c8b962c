"""Jobs whose ranks nobody has launched (docs/wire.md): each is told who it is, where rank 0 serves, and the job's key."""

from __future__ import annotations

import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Dict, List, Sequence

from bed import Bed, Host, HostProcess

PROGRAMS = Path(__file__).resolve().parent / "programs"


@dataclass
class End:
    """How a rank ended."""

    code: int
    out: str
    err: str


def variables(hosts: Sequence[Host], rank: int, store: str, key: str, ipv6: bool = False) -> Dict[str, str]:
    """What a rank is told that nobody has launched; the ranks are on these hosts, in order."""
    host = hosts[rank]
    of_host = [number for number, other in enumerate(hosts) if other is host]
    names = list(dict.fromkeys(other.name for other in hosts))
    return {
        "RONDE_RANK": str(rank),
        "RONDE_SIZE": str(len(hosts)),
        "RONDE_LOCAL_RANK": str(of_host.index(rank)),
        "RONDE_LOCAL_SIZE": str(len(of_host)),
        "RONDE_CROSS_RANK": str(names.index(host.name)),
        "RONDE_CROSS_SIZE": str(len(names)),
        "RONDE_STORE": store,
        "RONDE_KEY": key,
        "RONDE_ADDRESS": host.address6 if ipv6 else host.address,
        "RONDE_PROBE": "0",
        "RONDE_INIT_TIMEOUT_S": "30",
        "OMP_NUM_THREADS": "1",
    }


class ByHand:
    """One rank on each of these hosts, of which each may be named several times. Ends with its bed."""

    def __init__(self, bed: Bed, hosts: Sequence[Host], program: str, *arguments: object, ipv6: bool = False,
                 each: Sequence[Dict[str, str]] = (), limit_s: float = 240.0, **environment: str) -> None:
        """`program`: a file of programs/. `environment`: for all ranks, which wins over what this sets. `each`: by rank, which
        wins over that. An empty text unsets a variable. `limit_s`: then all ranks are killed, which ends whatever waits."""
        self.hosts = list(hosts)
        self.key = secrets.token_hex(32)
        self.port = 29500 if bed.has_namespaces else _free_port(hosts[0].address)
        address = hosts[0].address6 if ipv6 else hosts[0].address
        self.store = f"tcp:[{address}]:{self.port}" if ipv6 else f"tcp:{address}:{self.port}"
        self.began = time.monotonic()
        self._ends: List[End] = []
        self.ranks: List[HostProcess] = []
        self._environments: List[Dict[str, str]] = []
        for rank, host in enumerate(hosts):
            own = {**variables(hosts, rank, self.store, self.key, ipv6), **environment, **(dict(each[rank]) if each else {})}
            own = {name: value for name, value in own.items() if value}
            self._environments.append(own)
            self.ranks.append(
                host.start(sys.executable, PROGRAMS / program, *map(str, arguments), env=own,
                           stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            )
        self._limit = threading.Timer(limit_s, self._kill)
        self._limit.daemon = True
        self._limit.start()

    def environment(self, rank: int) -> Dict[str, str]:
        """The rank's variables of Ronde, for another process in its place."""
        return dict(self._environments[rank])

    def _kill(self) -> None:
        for process in self.ranks:
            process.kill()

    def read(self, rank: int) -> str:
        """The rank's next line; the job's limit, or the end of the rank's output, ends a wait in vain."""
        stdout = self.ranks[rank].stdout
        assert stdout is not None
        line: str = stdout.readline()
        if not line:
            _, err = self.ranks[rank].communicate(timeout=180)
            how = f"with {self.ranks[rank].returncode}, {time.monotonic() - self.began:.1f} s after the start"
            raise AssertionError(f"rank {rank} has ended {how}: {err}")
        return line.rstrip("\n")

    def read_all(self) -> List[str]:
        """The next line of each."""
        return [self.read(rank) for rank in range(len(self.ranks))]

    def read_to(self, rank: int, text: str) -> str:
        """The rank's first line that begins so. Another of a failure (steps.py) ends the wait."""
        line = self.read(rank)
        while not line.startswith(text):
            assert not line.startswith("failed"), f"rank {rank}: {line}"
            line = self.read(rank)
        return line

    def tell(self, *ranks: int) -> None:
        """A line on the standard inputs of these ranks, or of all."""
        for rank in ranks or range(len(self.ranks)):
            stdin = self.ranks[rank].stdin
            assert stdin is not None
            stdin.write("go\n")
            stdin.flush()

    def signal(self, rank: int, sig: int = signal.SIGKILL) -> None:
        self.ranks[rank].send_signal(sig)

    def ends(self, limit_s: float = 180.0, without: Sequence[int] = ()) -> Dict[int, End]:
        """How the ranks ended, which they do within the limit, counted from now. `without`: not asked for these."""
        until = time.monotonic() + limit_s
        found: Dict[int, End] = {}
        late: List[Any] = []
        for rank, process in enumerate(self.ranks):
            if rank in without:
                continue
            try:
                out, err = process.communicate(timeout=max(0.1, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                late.append(rank)
                process.kill()
                out, err = process.communicate(timeout=180)
            found[rank] = End(process.returncode, out, err)
        if not without:
            self._limit.cancel()
        assert not late, f"ranks {late} did not end within {limit_s} s: {found}"
        return found

    def succeed(self, limit_s: float = 180.0) -> List[str]:
        """All end in order; what each has written besides lines that were read."""
        ends = self.ends(limit_s)
        assert all(end.code == 0 for end in ends.values()), ends
        return [end.out for end in ends.values()]


def _free_port(address: str) -> int:
    with socket.socket() as free:
        free.bind((address, 0))
        port: int = free.getsockname()[1]
        return port
