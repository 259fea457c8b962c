"""A real Slurm on the hosts of a bed: slurmctld on the first, slurmd and munged on each.

    with Slurm(bed) as slurm:
        slurm.srun("-N2", "-n2", "--mpi=none", sys.executable, program)
"""

from __future__ import annotations

import os
import pwd
import subprocess
from pathlib import Path
from typing import Any, Dict

from bed import Argument, Bed, Host, HostProcess, wait_until

_PATH = "/usr/bin:/bin:/usr/sbin:/sbin"


class Slurm:
    """Ends with its bed."""

    def __init__(self, bed: Bed) -> None:
        self.bed = bed
        self.folder = bed.folder / "slurm"
        self.config = self.folder / "slurm.conf"

    def __enter__(self) -> "Slurm":
        self.folder.mkdir()
        (self.folder / "state").mkdir()
        self._write_configuration()
        for host in self.bed.hosts:
            self._start_munge(host)
        self._daemon(self.bed.hosts[0], "slurmctld", "-D", "-f", self.config)
        for host in self.bed.hosts:
            (self.folder / f"spool.{host.name}").mkdir()
            self._daemon(host, "slurmd", "-D", "-f", self.config, "-N", host.name)
        wait_until(self._is_idle, "all of Slurm's nodes to be idle")
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def _write_configuration(self) -> None:
        names = ",".join(host.name for host in self.bed.hosts)
        self.config.write_text(
            f"ClusterName=bed\nSlurmctldHost={self.bed.hosts[0].name}\nAuthType=auth/munge\nSlurmUser=root\nSlurmdUser=root\n"
            f"StateSaveLocation={self.folder}/state\nSlurmdSpoolDir={self.folder}/spool.%n\n"
            f"SlurmctldPidFile={self.folder}/slurmctld.pid\nSlurmdPidFile={self.folder}/slurmd.%n.pid\n"
            "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/none\nJobAcctGatherType=jobacct_gather/none\n"
            "SelectType=select/cons_tres\nSelectTypeParameters=CR_Core\nReturnToService=2\nSwitchType=switch/none\n"
            "SlurmdParameters=config_overrides\n"  # more processors than this machine has
            f"NodeName={names} CPUs=4 RealMemory=1000 State=UNKNOWN\nPartitionName=p Nodes=ALL Default=YES\n"
        )
        (self.folder / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")

    def _start_munge(self, host: Host) -> None:
        """Its own user's, as its packages have it; each host's /run is its own, the key is this machine's."""
        user = pwd.getpwnam("munge")
        munge = self.folder / f"munge.{host.name}"
        munge.mkdir(mode=0o755)
        os.chown(munge, user.pw_uid, user.pw_gid)
        host.check("chown", "munge", "/run/munge")
        command = ("exec /usr/sbin/munged --foreground --socket=/run/munge/munge.socket.2 "
                   f"--pid-file={munge}/pid --seed-file={munge}/seed")
        self._daemon(host, "su", "-s", "/bin/sh", "munge", "-c", command)
        wait_until(lambda: host.run("munge", "-n").returncode == 0, f"munge of {host.name}")

    def _daemon(self, host: Host, *command: Argument) -> HostProcess:
        log = (self.folder / f"{Path(str(command[0])).name}.{host.name}.log").open("w")
        try:
            return host.start(*command, env={"PATH": _PATH}, stdout=log, stderr=log)
        finally:
            log.close()

    def _is_idle(self) -> bool:
        done = self.bed.hosts[0].run("sinfo", "-h", "-N", "-o", "%T", env=self._environment({}))
        return done.stdout.split() == ["idle"] * len(self.bed.hosts)

    def _environment(self, more: Dict[str, str]) -> Dict[str, str]:
        return {"SLURM_CONF": str(self.config), **more}

    def run(self, *command: Argument, limit_s: float = 180.0, env: Any = None,
            **options: Any) -> "subprocess.CompletedProcess[str]":
        """A command of Slurm's (srun, sbatch, ...) on the first host."""
        return self.bed.hosts[0].run(*command, limit_s=limit_s, env=self._environment(env or {}), **options)

    def logs(self) -> str:
        return "\n".join(f"--- {path.name}\n{path.read_text()[-2000:]}" for path in sorted(self.folder.glob("*.log")))
