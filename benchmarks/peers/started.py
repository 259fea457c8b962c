"""Starts the ranks of a contestant for one work and reads what it prints."""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from contestants import CORES, Contestant
from folders import ROOT
from works import Work

LINE_BYTES = 2 * 64 * 128  # StartLine's, for 64 ranks and twice (peer_program.h)
CLOCK_TICK = os.sysconf("SC_CLK_TCK")


def adopt_orphans():
    """Processes whose parents end become this one's children (Linux), so that none is lost sight of: launchers start
    their ranks in sessions of their own."""
    set_child_subreaper = 36
    ctypes.CDLL(None).prctl(set_child_subreaper, 1, 0, 0, 0)


def children() -> dict[int, bool]:
    """This process's, and whether they run (else they have ended and nobody has asked). One job at a time is under way:
    all are its."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
            except OSError:
                continue  # gone in between
            if int(parent) == os.getpid():
                found[int(entry.name)] = state not in "ZX"
    return found


@dataclass
class Outcome:
    lines: list[dict] = field(default_factory=list)
    failure: str = ""  # a sentence; lines that came before it stand


def busy_seconds() -> float:
    """What all processes of the machine have used of its cores, other virtual machines included (steal)."""
    numbers = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    user, nice, system, _idle, _iowait, irq, softirq, steal = numbers
    return (user + nice + system + irq + softirq + steal) / CLOCK_TICK


def own_seconds() -> float:
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    return sum(each.ru_utime + each.ru_stime for each in usage)


class Job:
    """The processes of one start, with what they print in files."""

    def __init__(self, command: list[str], environment: dict, copies: int, folder: Path):
        self.line = os.memfd_create("start line")
        os.ftruncate(self.line, LINE_BYTES)
        base = {
            **os.environ, **environment, "PEER_BENCH_LINE": f"/proc/{os.getpid()}/fd/{self.line}",
            "PEER_BENCH_CORES": str(CORES), "PEER_BENCH_KVS": str(folder / "address"),
        }
        self.output = [folder / f"out{i}" for i in range(max(copies, 1))]
        self.errors = [folder / f"err{i}" for i in range(max(copies, 1))]
        self.processes = []
        for i, (output, errors) in enumerate(zip(self.output, self.errors)):
            place = {"PEER_BENCH_RANK": str(i), "PEER_BENCH_SIZE": str(copies)} if copies else {}
            with open(output, "wb") as out, open(errors, "wb") as err:
                # A process group of its own, so that Ctrl-C is ours, but no session: Linux schedules each session as a
                # group, and sched_yield does not give the core to another group. Ranks then wait milliseconds.
                self.processes.append(subprocess.Popen(command, cwd=ROOT, env={**base, **place}, stdout=out, stderr=err,
                                                       stdin=subprocess.DEVNULL, process_group=0))

    def wait(self, limit_s: float) -> str:
        """Why it did not end well, empty if it did. When a rank fails, the others are ended soon after."""
        deadline = time.monotonic() + limit_s
        running = list(self.processes)
        while running and time.monotonic() < deadline:
            for process in list(running):
                code = process.poll()
                if code is not None:
                    running.remove(process)
                    if code != 0:
                        deadline = min(deadline, time.monotonic() + 2)
            time.sleep(0.01)
        if running and all(process.returncode in (None, 0) for process in self.processes):
            return f"no end within {limit_s:.0f} s"
        codes = [process.returncode for process in self.processes if process.returncode not in (None, 0)]
        return f"exited with {codes[0]}: {self.last_words()}" if codes else ""

    def last_words(self) -> str:
        text = "\n".join(path.read_text(errors="replace") for path in [*self.errors, *self.output])
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("{", "--"))]
        telling = [line for line in lines if "rror" in line or "ronde bench: rank" in line]
        # One is enough: the ranks say the same in no certain order.
        return (min(telling, default="") or " / ".join(lines[:2]) or "it said nothing")[:400]

    def end(self):
        """Ends what is left of it: launchers are asked first, since they know their ranks; nothing survives."""
        for process in self.processes:
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + 3
        while any(children().values()) and time.monotonic() < deadline:
            time.sleep(0.02)
        while any((left := children()).values()):
            for pid in left:
                os.kill(pid, signal.SIGKILL)
            for process in self.processes:
                process.wait()
            self.reap()
        self.reap()
        os.close(self.line)

    def reap(self):
        """Those that became this process's children and have ended."""
        own = {process.pid for process in self.processes}
        for pid in set(children()) - own:
            os.waitpid(pid, os.WNOHANG)

    def lines(self) -> list[dict]:
        text = "\n".join(path.read_text(errors="replace") for path in self.output)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def start(contestant: Contestant, work: Work) -> Outcome:
    command, environment, by_rank = contestant.start(work)
    adopt_orphans()
    with tempfile.TemporaryDirectory(prefix="peers") as folder:
        busy, own, begin = busy_seconds(), own_seconds(), time.monotonic()
        job = Job(command, environment, work.ranks if by_rank else 0, Path(folder))
        try:
            failure = job.wait(work.limit_s)
        finally:
            job.end()
        outcome = Outcome(job.lines(), failure)
    elapsed = time.monotonic() - begin
    others = max(0.0, (busy_seconds() - busy) - (own_seconds() - own)) / (elapsed * CORES)
    for line in outcome.lines:
        line.update(contestant=contestant.name, kind=work.kind, others=round(others, 3))
    return outcome
