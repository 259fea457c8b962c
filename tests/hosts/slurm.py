"""Real Slurm in a bed: slurmctld on its first host, slurmd and munge on each, which is a node named as the host.

    with Slurm(bed) as slurm:
        slurm.check("srun", "-N3", "-n3", "hostname")      # from the first host

Needs root and Debian's packages slurmctld, slurmd, slurm-client and munge, which makes munge's key.
"""

from __future__ import annotations

import subprocess
from typing import Any, Dict, List, Optional

from bed import Bed, Host, HostProcess, wait_until

_CPUS = 4  # of each node, whatever the machine has


class Slurm:
    """Runs for as long as the ``with`` lasts; its processes end with the bed at the latest."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.folder = bed.folder / "slurm"
        self.environment = {"SLURM_CONF": str(self.folder / "slurm.conf")}
        self._daemons: List[HostProcess] = []

    def __enter__(self) -> "Slurm":
        for name in ("state", *(f"spool.{host.name}" for host in self.bed.hosts)):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "slurm.conf").write_text(self._configuration())
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        for host in self.bed.hosts:
            host.check("chown", "munge:munge", "/run/munge")
            self._start(host, "munged", "setpriv", "--reuid=munge", "--regid=munge", "--clear-groups", "munged", "--foreground",
                        "--socket=/run/munge/munge.socket.2", "--pid-file=/run/munge/pid", "--log-file=/run/munge/log",
                        "--seed-file=/run/munge/seed")
        for host in self.bed.hosts:
            wait_until(lambda host=host: host.run("munge", "-n").returncode == 0,  # type: ignore[misc]
                       f"munge on {host.name}")
        self._start(self.bed.hosts[0], "slurmctld", "slurmctld", "-D", "-f", self.folder / "slurm.conf")
        for host in self.bed.hosts:
            self._start(host, "slurmd", "slurmd", "-D", "-f", self.folder / "slurm.conf", "-N", host.name)
        idle = ["idle"] * len(self.bed.hosts)
        wait_until(lambda: self.run("sinfo", "-h", "-N", "-o", "%t").stdout.split() == idle, "nodes that are idle", 60)
        return self

    def __exit__(self, *_: object) -> None:
        for daemon in reversed(self._daemons):
            daemon.kill()
            daemon.wait(30)

    def run(self, *command: Any, env: Optional[Dict[str, str]] = None, **options: Any) -> "subprocess.CompletedProcess[str]":
        """As Host.run(), on the first host, where Slurm's commands find this Slurm."""
        return self.bed.hosts[0].run(*command, env={**self.environment, **(env or {})}, **options)

    def check(self, *command: Any, env: Optional[Dict[str, str]] = None, **options: Any) -> str:
        """As Host.check(), likewise."""
        return self.bed.hosts[0].check(*command, env={**self.environment, **(env or {})}, **options)

    def start(self, *command: Any, env: Optional[Dict[str, str]] = None, **options: Any) -> HostProcess:
        """As Host.start(), likewise."""
        return self.bed.hosts[0].start(*command, env={**self.environment, **(env or {})}, **options)

    def _start(self, host: Host, name: str, *command: Any) -> None:
        with (host.folder / f"{name}.log").open("w") as log:
            self._daemons.append(host.start(*command, env=self.environment, stdout=log, stderr=log))

    def _configuration(self) -> str:
        names = ",".join(host.name for host in self.bed.hosts)
        return f"""
ClusterName=bed
SlurmctldHost={self.bed.hosts[0].name}
AuthType=auth/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation={self.folder}/state
SlurmdSpoolDir={self.folder}/spool.%n
SlurmctldPidFile=/run/slurmctld.pid
SlurmdPidFile=/run/slurmd.pid
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
SwitchType=switch/none
MpiDefault=none
NodeName={names} CPUs={_CPUS} State=UNKNOWN
PartitionName=bed Nodes=ALL Default=YES OverSubscribe=YES
"""
