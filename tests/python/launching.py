"""Finds the launcher and runs programs under it, for tests of whole jobs."""

from __future__ import annotations

import atexit
import functools
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, List, Optional

import pytest

from zygote_process import STAND_IN, ZygoteProcess

PROGRAMS = Path(__file__).resolve().parent / "programs"

# It only ends what hangs: machines differ by a factor of three, and others run beside the test.
LIMIT_S = 180.0


def launcher() -> str:
    """The command `ronde`: RONDE_LAUNCHER, else the one installed beside this Python, else the one in PATH."""
    beside = Path(sys.executable).with_name("ronde")
    found = os.environ.get("RONDE_LAUNCHER") or (str(beside) if beside.exists() else shutil.which("ronde"))
    if not found:
        raise RuntimeError("the command `ronde` is not installed; name it with RONDE_LAUNCHER")
    return found


def wait_until(condition: Callable[[], bool], limit_s: float, what: str) -> None:
    """Waits for something that no descriptor tells, looking often; AssertionError after the limit."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {limit_s} s"
        time.sleep(0.01)


@functools.lru_cache(maxsize=None)
def program_zygote(framework: str) -> ZygoteProcess:
    """Started when it is first asked for; ends with this process."""
    zygote = ZygoteProcess("program_zygote.py", [framework])
    atexit.register(zygote.quit)
    return zygote


@dataclass
class Ended:
    """How a job ended."""

    code: int
    output: str
    seconds: float

    def lines(self, start: str) -> List[str]:
        """The lines, without their rank's prefix, that begin like this."""
        bare = [
            line.split("] ", 1)[1] if line.startswith("[") and "] " in line else line
            for line in self.output.splitlines()
        ]
        return [line for line in bare if line.startswith(start)]


class Job:
    """A program on several ranks. Its output is collected; whatever happens it is gone after `with`."""

    def __init__(self, ranks: int, program: str, *arguments: str, forked: str = "", **environment: str) -> None:
        """`forked`: from a process that has loaded this framework, "torch" or "jax" (program_zygote.py); for tests that ask what a
        program does, not how its processes begin and end."""
        python = [sys.executable, STAND_IN, program_zygote(forked).address] if forked else [sys.executable]
        command = [launcher(), "run", "-n", str(ranks), "--", *python, str(PROGRAMS / program), *arguments]
        self._began = time.monotonic()
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **environment},
            start_new_session=True,
        )
        self._seen: List[str] = []

    def __enter__(self) -> "Job":
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)  # its guardian ends the ranks
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def read_until(self, text: str) -> str:
        """The first line that contains the text. A job that has not printed it within LIMIT_S is ended."""
        assert self.process.stdout is not None
        limit = threading.Timer(LIMIT_S, self.process.kill)
        limit.start()
        try:
            for line in self.process.stdout:
                self._seen.append(line)
                if text in line:
                    return line
        finally:
            limit.cancel()
        raise AssertionError(f"the job ended without printing '{text}':\n{''.join(self._seen)}")

    def end(self, limit_s: float = LIMIT_S) -> Ended:
        """Waits for the job and everything it prints."""
        try:
            rest, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            self.process.kill()
            rest, _ = self.process.communicate()
            raise AssertionError(f"the job did not end within {limit_s} s:\n{''.join(self._seen)}{rest}") from error
        return Ended(self.process.returncode, "".join(self._seen) + rest, time.monotonic() - self._began)


def long(*values: Any) -> Any:
    """A test's parameters in a case that is like another: CI alone runs it."""
    return pytest.param(*values, marks=pytest.mark.long)


def run_job(
    ranks: int, program: str, *arguments: str, limit_s: float = LIMIT_S, forked: str = "", **environment: str
) -> Ended:
    """Runs a program of tests/python/programs on so many ranks until it ends. `forked`: see Job."""
    with Job(ranks, program, *arguments, forked=forked, **environment) as job:
        return job.end(limit_s)


def processes_with(marker: str) -> List[int]:
    """Processes whose environment holds this text: all that a job with such a variable has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and int(folder.name) != os.getpid():
            text: Optional[bytes]
            try:
                text = (folder / "environ").read_bytes()
            except OSError:
                text = None  # ended meanwhile, or another user's
            if text and marker.encode() in text:
                found.append(int(folder.name))
    return found
