"""What this machine and user allow a bed of hosts: see Level."""

from __future__ import annotations

import enum
import functools
import glob
import os
import shutil
import subprocess
from typing import Dict, FrozenSet


class Level(enum.Enum):
    """How much of a host a bed's hosts are."""

    ROOT = "root"  # namespaces of their own, and a real sshd in each
    USER = "user"  # the same in a user namespace, where no sshd works: only one user is mapped
    NONE = "none"  # addresses 127.0.0.x of this host


# What a test may need, and how it is called in messages.
NEEDS = {
    "namespaces": "hosts with network, process and mount namespaces of their own",
    "rate": "links with a rate (tc's tbf)",
    "faults": "packets dropped, changed and refused (nft)",
    "wire": "packets that come late, twice and in another order (wire.py, ethtool)",
    "ssh": "a real sshd in each host",
    "slurm": "a real Slurm over the hosts",
    "pmix": "PMIx under Slurm",
    "hydra": "MPICH's launcher",
    "open-mpi": "Open MPI's launcher",
    "bubblewrap": "containers by bubblewrap",
    "podman": "containers by podman and runc",
    "libfabric": "libfabric, which Ronde opens at run time",
    "time": "monotonic clocks of their own",
}
_OF_ROOT = ("ssh", "slurm", "bubblewrap", "podman")
_PROGRAMS = {"rate": "tc", "faults": "nft", "wire": "ethtool", "ssh": "/usr/sbin/sshd", "slurm": "slurmctld", "hydra": "mpiexec.hydra",
             "open-mpi": "mpirun.openmpi", "bubblewrap": "bwrap", "podman": "podman"}
_PACKAGES = {"tc": "iproute2", "ethtool": "ethtool", "nft": "nftables", "/usr/sbin/sshd": "openssh-server",
             "slurmctld": "slurmctld, with slurmd, slurm-client and munge", "mpiexec.hydra": "mpich",
             "mpirun.openmpi": "openmpi-bin", "bwrap": "bubblewrap", "podman": "podman, with runc"}


def unshare_command(level: Level) -> list[str]:
    """Begins a command that runs in new namespaces; as pid 1, and with it ends what it has started."""
    user = ["--user", "--map-root-user"] if level is Level.USER else []
    return ["unshare", *user, "--net", "--pid", "--fork", "--kill-child", "--mount", "--mount-proc", "--uts", "--ipc", "--"]


@functools.lru_cache(maxsize=None)
def why_not(level: Level) -> str:
    """Why a bed of this level cannot be had here; empty if it can."""
    if level is Level.NONE:
        return ""
    if level is Level.ROOT and os.geteuid() != 0:
        return "this is not root"
    if shutil.which("ip") is None:
        return "there is no program ip (Debian's package iproute2)"
    tried = "ip link add br0 type bridge && mount -t tmpfs tmpfs /run && hostname tried"
    try:
        done = subprocess.run(
            [*unshare_command(level), "sh", "-ec", tried],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "" if done.returncode == 0 else f"no namespaces: {done.stdout.strip()}"


@functools.lru_cache(maxsize=None)
def why_no_time(of: Level) -> str:
    """Why no process can have a monotonic clock of its own here; empty if it can."""
    user = ["--user", "--map-root-user"] if of is Level.USER else []
    done = subprocess.run(
        ["unshare", *user, "--time", "--monotonic", "1", "--fork", "--", "true"],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60,
    )
    return "" if done.returncode == 0 else f"no time namespaces: {done.stdout.strip()}"


@functools.lru_cache(maxsize=None)
def level() -> Level:
    """The best there is, or the one that RONDE_HOSTS_LEVEL names, which must be there then."""
    named = os.environ.get("RONDE_HOSTS_LEVEL")
    if named:
        chosen = Level(named)
        if why_not(chosen):
            raise RuntimeError(f"RONDE_HOSTS_LEVEL={named}: {why_not(chosen)}")
        return chosen
    return next(each for each in Level if not why_not(each))


def missing(of: Level) -> Dict[str, str]:
    """What of NEEDS a bed of this level lacks here, and why."""
    lacks: Dict[str, str] = {}
    for need in NEEDS:
        program = _PROGRAMS.get(need)
        if of is Level.NONE:
            lacks[need] = "; ".join(f"level {each.value}: {why_not(each)}" for each in Level if each is not Level.NONE)
            if not why_not(Level.ROOT) or not why_not(Level.USER):
                lacks[need] = "RONDE_HOSTS_LEVEL=none"
        elif need in _OF_ROOT and of is Level.USER:
            lacks[need] = f"{need} needs root: a user namespace has one user only"
        elif program is not None and shutil.which(program) is None:
            lacks[need] = f"there is no program {program} (Debian's package {_PACKAGES[program]})"
        elif need == "pmix" and not glob.glob("/usr/lib/*/libpmix.so"):
            lacks[need] = "Slurm's plugin finds no libpmix.so (Debian's package libpmix-dev)"
        elif need == "libfabric" and not glob.glob("/usr/lib/*/libfabric.so.1"):
            lacks[need] = "there is no libfabric.so.1 (Debian's package libfabric1)"
        elif need == "time" and why_no_time(of):
            lacks[need] = why_no_time(of)
    return lacks


def offers(of: Level) -> FrozenSet[str]:
    """What of NEEDS a bed of this level has."""
    return frozenset(NEEDS) - missing(of).keys()
