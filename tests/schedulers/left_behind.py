"""What a job may have left: processes, shared memory, folders, ports."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Set

#: It only ends what hangs.
LIMIT_S = 60.0
#: Spark tells that a task has ended two seconds before it kills its Python, and the kernel takes a moment on a loaded machine.
GONE_S = 15.0

_LISTENING = "0A"


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Waits for something that no descriptor tells, looking often; AssertionError after the limit."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {limit_s} s"
        time.sleep(0.02)


def ronde_files() -> Set[str]:
    """Files and folders with Ronde's name where jobs may have some. The second is of these tests alone (conftest)."""
    return {str(path) for folder in ("/dev/shm", os.environ["TMPDIR"]) for path in Path(folder).glob("*ronde*")}


def folder_of_executors(context: Any) -> Path:
    """Where the executors of a local cluster of Spark's write: no setting moves it."""
    import pyspark

    return Path(pyspark.__file__).parent / "work" / str(context.applicationId)


def files_with(text: str, *folders: Path) -> List[str]:
    """The files that hold a text: below the tests' own folder, where Ray's nodes and Spark's driver have theirs, and others."""
    found = []
    for top in (Path(os.environ["TMPDIR"]), *folders):
        for folder, _, names in os.walk(top):
            for path in (Path(folder) / name for name in names):
                with contextlib.suppress(FileNotFoundError):
                    if path.is_file() and text.encode() in path.read_bytes():
                        found.append(str(path))
    return found


def listening() -> Dict[str, int]:
    """The ports of this host where somebody listens, by the name of the socket."""
    rows = [line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]]
    return {f"socket:[{row[9]}]": int(row[1].rpartition(":")[2], 16) for row in rows if row[3] == _LISTENING}


def own_sockets() -> Iterator[str]:
    """The names of the sockets of all processes that these tests have started: others of the host take ports, too."""
    mark = f"TMPDIR={os.environ['TMPDIR']}".encode()
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                yield from (os.readlink(each) for each in (folder / "fd").iterdir())


def lives(pid: int) -> bool:
    """Whether there is such a process, other than one that waits for its parent to ask how it ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


class Traces:
    """What the ranks of one job have left in a folder (failing.leave_traces)."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files = ronde_files()

    def pid_of(self, rank: int) -> int:
        """That rank's process; waits until it has joined the job."""
        wait_until((self._folder / str(rank)).exists, LIMIT_S, f"rank {rank} has joined")
        return int((self._folder / str(rank)).read_text().split()[0])

    def assert_nothing_is_left(self, ranks: int) -> None:
        """Of so many ranks, all of which have joined the job."""
        texts = [(self._folder / str(rank)).read_text() for rank in range(ranks)]
        told: List[List[int]] = [[int(word) for word in text.split()] for text in texts]
        processes = [each[0] for each in told] + [int(path.read_text()) for path in self._folder.glob("child.*")]
        assert os.getpid() not in processes
        # A killed process is gone in a moment, on a loaded machine too.
        wait_until(lambda: not any(map(lives, processes)), GONE_S, f"the processes {processes} are gone")
        ports = {port for each in told for port in each[1:]}
        assert len(ports) == 2
        open_ports = listening()
        assert ports & {open_ports[name] for name in own_sockets() if name in open_ports} == set()
        assert ronde_files() - self._files == set(), ronde_files() - self._files
