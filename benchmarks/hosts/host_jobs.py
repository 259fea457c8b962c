"""The beds that works run in, and the processes of one start in one of them."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path

from folders import ROOT
from host_works import HostWork, Network
from started import LINE_BYTES, Outcome, busy_seconds

sys.path.append(str(ROOT / "tests/hosts"))
from bed import Bed, Host, HostProcess  # noqa: E402: it is in a folder of its own
from by_hand import variables  # noqa: E402

CORES = len(os.sched_getaffinity(0))
IDLE_LOOK_S = 0.2
FEWEST_CALLS = 12  # of which the second half has only replayed steps
PORT = 29500
HEADER_BYTES = 66  # of a packet on Ethernet: 14, of IPv4: 20, of TCP with its time stamps: 32


class Beds:
    """A bed for each network, made when it is first needed, and kept: a context manager."""

    def __init__(self):
        # The ranks' start line is memory: a file that is written back to a disk would disturb what is measured.
        self.shared = Path(tempfile.mkdtemp(prefix="ronde-bench-hosts-", dir="/dev/shm"))
        self.beds: dict[Network, Bed] = {}

    def __enter__(self) -> "Beds":
        return self

    def __exit__(self, *_):
        for bed in self.beds.values():
            bed.close()
        shutil.rmtree(self.shared, ignore_errors=True)

    def of(self, network: Network) -> Bed:
        if network not in self.beds:
            bed = Bed(network.hosts, ssh=True, keep=[self.shared]).__enter__()
            self.beds[network] = bed
            for host in bed.hosts if network.rate else ():
                host.faults.rate(network.rate, network.burst)
        return self.beds[network]


class Job:
    """The processes of one start, and what was left of them in the hosts."""

    def __init__(self, beds: Beds, work: HostWork):
        self.bed = beds.of(work.network)
        self.work = work
        self.hosts: list[Host] = [host for host in self.bed.hosts for _ in range(work.per_host)]  # by rank
        self.folder = Path(tempfile.mkdtemp(dir=beds.shared))
        (self.folder / "line").write_bytes(bytes(LINE_BYTES))
        self.before = {host.name: set(host.processes()) for host in self.bed.hosts}
        self.processes: list[HostProcess] = []
        self.files: list[Path] = []

    def environment(self) -> dict[str, str]:
        """Of every measuring program."""
        return {"PEER_BENCH_LINE": str(self.folder / "line"), "PEER_BENCH_CORES": str(CORES),
                "PEER_BENCH_KVS": str(self.folder / "address"), "OMP_NUM_THREADS": "1"}

    def start(self, host: Host, command: list[str], environment: dict[str, str]):
        """One process; its output is kept."""
        output = self.folder / f"out{len(self.processes)}"
        with open(output, "wb") as out, open(output.with_suffix(".err"), "wb") as err:
            # As a rank of a session of its own Linux would not give it the core that another's sched_yield() gives away.
            process = host.start(*command, env={**self.environment(), **environment}, stdout=out, stderr=err)
        self.processes.append(process)
        self.files.append(output)

    def start_ranks(self, command: list[str], environment: dict[str, str]):
        """Of Ronde, by hand; each rank is told who it is for every engine that has no launcher."""
        key = secrets.token_hex(32)
        for rank, host in enumerate(self.hosts):
            place = {"PEER_BENCH_RANK": str(rank), "PEER_BENCH_SIZE": str(len(self.hosts))}
            told = variables(self.hosts, rank, f"tcp:{self.hosts[0].address}:{PORT}", key)
            self.start(host, command, {**told, **place, **environment})

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
        codes = [process.returncode for process in self.processes if process.returncode not in (None, 0)]
        if codes:
            return f"exited with {codes[0]}: {self.last_words()}"
        return f"no end within {limit_s:.0f} s" if running else ""

    def last_words(self) -> str:
        text = "\n".join(path.read_text(errors="replace") for file in self.files
                         for path in (file.with_suffix(".err"), file))
        lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith(("{", "--"))]
        telling = [line for line in lines if "rror" in line or ": rank" in line]
        return (min(telling, default="") or " / ".join(lines[:2]) or "it said nothing")[:400]

    def end(self):
        """Nothing survives: launchers' agents and what they have started are in other sessions, but in these hosts."""
        for process in self.processes:
            if process.poll() is None:
                process.kill()
        for host in self.bed.hosts:
            for pid in set(host.processes()) - self.before[host.name]:
                try:
                    os.kill(pid, 9)
                except ProcessLookupError:
                    pass
        for process in self.processes:
            process.wait(10)
        shutil.rmtree(self.folder, ignore_errors=True)

    def lines(self) -> list[dict]:
        text = "\n".join(path.read_text(errors="replace") for path in self.files)
        return [json.loads(line) for line in text.splitlines() if line.startswith("{") and line.endswith("}")]


def others_share() -> float:
    """The part of the cores that something else uses, while nothing of ours runs."""
    busy, begin = busy_seconds(), time.monotonic()
    time.sleep(IDLE_LOOK_S)
    return (busy_seconds() - busy) / ((time.monotonic() - begin) * CORES)


def sent_payload(host: Host) -> int:
    """Bytes of TCP's payload that the host's interface has sent since it is there. Its count of packets is one of what
    TCP has handed over; how many the link made of it is not in it."""
    folder = "/sys/class/net/eth0/statistics"
    octets, packets = map(int, host.check("cat", f"{folder}/tx_bytes", f"{folder}/tx_packets").split())
    return octets - HEADER_BYTES * packets


def with_counters(lines: list[dict], sent: list[int]) -> list[dict]:
    """The measurements, each with what the ranks' own lines say of it (ronde.cc): the messages of agreement of all. With
    `sent`, payload bytes by host, of a start of one size: what a host sent for each call, at most and at least."""
    counters = [line for line in lines if "counters" in line]
    measured = [line for line in lines if "counters" not in line]
    for line in measured:
        own = [each for each in counters if each["bytes"] == line["bytes"]]
        # A few calls are those in which ranks agree what is to be replayed.
        if own and max(each["all_calls"] for each in own) >= FEWEST_CALLS:
            line["control_messages"] = sum(each["control_messages"] for each in own)
        if own and sent:
            calls = max(each["all_calls"] for each in own)
            line["sent_most"], line["sent_least"] = max(sent) / calls, min(sent) / calls
    return measured


def start(contestant, work: HostWork, beds: Beds) -> Outcome:
    """One contestant's start for one work."""
    others = others_share()
    job = Job(beds, work)
    before = [sent_payload(host) for host in job.bed.hosts] if work.counts_bytes else []
    try:
        contestant.start_in(job)
        failure = job.wait(work.limit_s)
        sent = [sent_payload(host) - begin for host, begin in zip(job.bed.hosts, before)]
        outcome = Outcome(contestant.read(job, with_counters(job.lines(), sent)), failure)
    finally:
        job.end()
    for line in outcome.lines:
        line.update(contestant=contestant.name, kind=work.kind, others=round(others, 3))
    return outcome
