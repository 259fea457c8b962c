"""Who is measured between hosts, each with the settings that serve it best, and how it is started in a bed."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

import install
from folders import LIBRARY, RONDE, ROOT, SOURCES, WORK
from host_jobs import CORES, Job
from host_works import HostWork, is_many

HERE = Path(__file__).resolve().parent
PROGRAM = WORK / "bin/ronde_between_hosts"
WIRE_PORT = "5201"
PROTECTION = ("ronde_off", "ronde_mac", "ronde_encrypt")  # against what may happen to packets, other than by default


def install_ronde_program():
    """benchmarks/hosts/ronde.cc, with the engine that users get."""
    contestant = ROOT / "src/cli/bench/ronde_contestant.cc"
    install.compile_program(PROGRAM.name, str(HERE / "ronde.cc"),
                            ["-I", SOURCES, contestant, LIBRARY, f"-Wl,-rpath,{LIBRARY.parent}"])


@dataclass(frozen=True)
class HostContestant:
    name: str
    title: str
    settings: str  # for the page
    program: str = ""  # what install.install() makes; empty: nothing is to be installed
    needs: tuple[str, ...] = ()
    environment: dict = field(default_factory=dict, hash=False)
    words: tuple[str, ...] = ()

    @property
    def is_peer(self) -> bool:
        return not self.name.startswith("ronde")

    def takes(self, work: HostWork) -> bool:
        kind = work.work.kind
        if self.name == "iperf3" or kind == "wire":
            return self.name == "iperf3" and kind == "wire"
        if self.name == "ronde_slot":
            return kind == "set"
        return self.name not in PROTECTION or kind == "sweep" and work.network.hosts == 2

    def start_in(self, job: Job):
        getattr(self, "start_" + self.name.partition("_")[0])(job)

    def read(self, job: Job, lines: list[dict]) -> list[dict]:
        if self.name != "iperf3":
            return lines
        try:
            return [wire_line(json.loads(job.files[1].read_text())["end"])]
        except (ValueError, KeyError):  # it has failed, with an "error" and sums of nothing
            return []

    # Each of these is called by start_in() for the contestant of its name.

    def start_ronde(self, job):
        job.start_ranks([str(PROGRAM), *job.work.work.words(), *self.words, "--peer", self.name], self.environment)

    def start_gloo(self, job):
        command = [sys.executable, str(SOURCES / "collectives.py"), "gloo", *job.work.work.python_words()]
        job.start_ranks(command, {"GLOO_SOCKET_IFNAME": "eth0"})

    def start_openmpi(self, job):
        settings = {"plm_rsh_agent": str(job.bed.ssh), "pml": "ob1", "btl": "self,vader,tcp",
                    "btl_tcp_if_include": "eth0", "oob_tcp_if_include": "eth0"}
        if job.work.per_host > 1:
            settings["mpi_yield_when_idle"] = "1"
        words = [word for name, value in settings.items() for word in ("--mca", name, value)]
        passed = [word for name in job.environment() for word in ("-x", name)]
        hosts = ",".join(f"{host.name}:{job.work.per_host}" for host in job.bed.hosts)
        command = ["mpirun.openmpi", "-H", hosts, "-np", str(len(job.hosts)), "--bind-to", "none", *words, *passed]
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        job.start(job.bed.hosts[0], [*command, *self.measuring_program(job)], root)

    def start_mpich(self, job):
        hosts = ",".join(f"{host.name}:{job.work.per_host}" for host in job.bed.hosts)
        command = ["mpiexec.mpich", "-launcher", "ssh", "-launcher-exec", str(job.bed.ssh), "-iface", "eth0",
                   "-hosts", hosts, "-n", str(len(job.hosts)), "-bind-to", "none"]
        environment = {"UCX_NET_DEVICES": "eth0", **self.environment}
        job.start(job.bed.hosts[0], [*command, *self.measuring_program(job)], environment)

    def start_iperf3(self, job):
        server, client = job.bed.hosts[1], job.bed.hosts[0]
        job.start(server, ["taskset", "-c", core(1), "iperf3", "-s", "-1", "-p", WIRE_PORT], {})
        reach = f"until iperf3 -c {server.address} -p {WIRE_PORT} -P 1 --bidir -J -t {job.work.work.seconds:g}"
        # The server may not listen yet; the job's limit ends the tries.
        command = f"{reach} >{job.folder}/said; do sleep 0.05; done; cat {job.folder}/said"
        job.start(client, ["taskset", "-c", core(0), "sh", "-c", command], {})

    def measuring_program(self, job):
        return [str(WORK / "bin" / self.program), *job.work.work.words(), *self.words, "--peer", self.name]


def core(number: int) -> str:
    """The cores that ranks are pinned to, by rank."""
    cores = sorted(os.sched_getaffinity(0))
    return str(cores[number % len(cores)])


def wire_line(end: dict) -> dict:
    """Of what iperf3 says at the end of a --bidir run: what both sides have received."""
    both = [end["sum_received"], end["sum_received_bidir_reverse"]]
    return {"peer": "iperf3", "op": "wire", "ranks": 2, "bytes_per_s": sum(each["bits_per_second"] for each in both) / 8}


CONTESTANTS = [
    HostContestant("ronde", "Ronde, persistent plan", "release build, checksums as by default",
                   words=("--form", "persistent")),
    HostContestant("ronde_slot", "Ronde, by slot", "release build", words=("--form", "slot")),
    HostContestant("ronde_off", "Ronde without checksums", "RONDE_TCP_INTEGRITY=off, persistent plan",
                   environment={"RONDE_TCP_INTEGRITY": "off"}, words=("--form", "persistent")),
    HostContestant("ronde_mac", "Ronde with MACs", "RONDE_TCP_INTEGRITY=mac, persistent plan",
                   environment={"RONDE_TCP_INTEGRITY": "mac"}, words=("--form", "persistent")),
    HostContestant("ronde_encrypt", "Ronde, encrypted", "RONDE_TCP_INTEGRITY=encrypt, persistent plan",
                   environment={"RONDE_TCP_INTEGRITY": "encrypt"}, words=("--form", "persistent")),
    HostContestant("openmpi", "Open MPI 4.1", "Debian's 4.1.4 over ssh; ob1 over self,vader,tcp; unbound, the measuring "
                   "threads on a core each; with more ranks than cores mpi_yield_when_idle=1", program="openmpi"),
    HostContestant("mpich", "MPICH 4.0", "Debian's 4.0.2 over ssh, UCX over the same interface; unbound, as Open MPI",
                   program="mpich"),
    HostContestant("gloo", "Gloo through torch", "torch 2.13.0, one OMP thread; called from Python"),
    HostContestant("iperf3", "iperf3", "Debian's; -P 1 --bidir, server and client on a core each"),
]

__all__ = ["CONTESTANTS", "CORES", "PROGRAM", "PROTECTION", "RONDE", "HostContestant", "install_ronde_program", "is_many",
           "wire_line"]
