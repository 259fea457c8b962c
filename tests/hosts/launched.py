"""Jobs that `ronde run` starts on the hosts of a bed."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from typing import Any, List, Optional

from bed import Argument, Bed, Host, HostProcess, wait_until

RONDE = Path(sys.executable).with_name("ronde")


def command(bed: Bed, hosts: str, *words: Argument, options: Any = ()) -> List[str]:
    """`ronde run -H hosts ... -- words`, by the bed's ssh."""
    return [str(each) for each in (RONDE, "run", "-H", hosts, "--ssh", bed.ssh, *options, "--", *words)]


class Launched:
    """A job under way, started in `on` (the bed's first host). Ends with its bed."""

    def __init__(self, bed: Bed, hosts: str, *words: Argument, on: Optional[Host] = None, options: Any = (),
                 **more: Any) -> None:
        self.host = on or bed.hosts[0]
        self.process: HostProcess = self.host.start(*command(bed, hosts, *words, options=options), stdout=subprocess.PIPE,
                                                    stderr=subprocess.PIPE, **more)
        self.out = ""
        self.err = ""

    def wait_for_lines(self, count: int, limit_s: float = 120.0) -> List[str]:
        """The job's next lines of standard output, without their ranks' prefixes; in order of ranks."""
        assert self.process.stdout is not None
        lines = []
        until = time.monotonic() + limit_s
        while len(lines) < count:
            line = self.process.stdout.readline()
            if not line or time.monotonic() > until:
                _, err = self.process.communicate(timeout=120)
                raise AssertionError(f"the job ended after {lines}: {err}")
            lines.append(line.rstrip("\n"))
        return [line.partition("] ")[2] for line in sorted(lines)]

    def end(self, limit_s: float = 120.0) -> int:
        """Its exit code; AssertionError if it does not end within the limit."""
        try:
            self.out, self.err = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            self.out, self.err = self.process.communicate()
            raise AssertionError(f"the job did not end within {limit_s} s\n{self.out}\n{self.err}") from error
        return self.process.returncode


class Strays:
    """Of the hosts of a bed: processes that were not there before."""

    def __init__(self, bed: Bed) -> None:
        self._before = {host.name: set(host.processes()) for host in bed.hosts}
        self._hosts = bed.hosts

    def of(self, host: Host) -> List[int]:
        return sorted(set(host.processes()) - self._before[host.name])

    def wait_until_gone(self, limit_s: float = 15.0) -> None:
        wait_until(lambda: not any(self.of(host) for host in self._hosts if host.pid), "the job's processes to be gone",
                   limit_s)
