"""Several hosts on this machine, to test what happens between hosts.

    with Bed(3, ssh=True) as bed:
        one, two, three = bed.hosts                     # named rh1, rh2, rh3
        one.check("ping", "-c1", two.address)           # ends in time, or the test fails
        one.check(bed.ssh, "rh2", "hostname")           # `bed.ssh`: a program to use as ssh
        two.faults.loss(5)
        two.faults.cut_power()

Each host has network, process, mount, host-name and System V namespaces of its own, its own /tmp, /run and /dev/shm, boot
id and name, and an address of IPv4 and of IPv6 on a switch that connects them. The namespaces have no names: other beds may
be on this machine at the same time. All of a bed's processes are in one pid namespace, whose pid 1 (bed_guardian.py) ends
with the process that has made the bed, however that ends; so does then all of the bed.

Without the rights for that hosts are addresses 127.0.0.x of this machine, see levels.py.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any, Callable, Dict, List, Optional, Sequence, Union

from faults import Faults
from levels import Level, level as best_level, unshare_command

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
Argument = Union[str, Path]

_SSHD = "/usr/sbin/sshd"
_LIMIT_S = 90.0  # of what makes and changes a bed
_FOLDERS = "ronde-bed-"  # and the pid of who made it


class HostProcess(subprocess.Popen):  # type: ignore[type-arg]
    """A process in a host. Signals and kill() go to it, not to the nsenter that waits for it here."""

    in_namespace = True
    host = ""

    def inner_pid(self) -> Optional[int]:
        """Its pid in this process's namespace; None once it has ended."""
        if not self.in_namespace:
            return self.pid if self.poll() is None else None
        until = time.monotonic() + _LIMIT_S
        while self.poll() is None and time.monotonic() < until:
            if children := _children_of(self.pid):
                return children[0]
            time.sleep(0.001)  # nsenter is about to fork
        return None

    def send_signal(self, sig: int) -> None:
        pid = self.inner_pid()
        if pid is not None:
            try:
                os.kill(pid, sig)
            except ProcessLookupError:
                pass
        if sig in (signal.SIGCONT, signal.SIGKILL):
            self.wake()

    def wake(self) -> None:
        """nsenter stops when the process does, and would not see its end."""
        if self.in_namespace and self.poll() is None:
            os.kill(self.pid, signal.SIGCONT)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class Host:
    """One of a bed. Its methods raise where the bed's level has no such thing."""

    def __init__(self, bed: "Bed", number: int) -> None:
        self.bed = bed
        self.number = number
        self.name = f"rh{number}"
        self.port = f"port{number}"  # its end at the switch
        self.address = f"10.77.0.{number}" if bed.has_namespaces else f"127.0.0.{10 + number}"
        self.address6 = f"fd77::{number}" if bed.has_namespaces else "::1"
        self.folder = bed.folder / self.name  # the same path in every host and outside
        self.pid = 0  # of its pid 1
        self.faults = Faults(self)
        self._init: Optional[subprocess.Popen[str]] = None

    # ---- Commands

    def command(self, *command: Argument, cwd: Optional[Argument] = None) -> List[str]:
        """What runs the command in this host, from outside of it."""
        words = [str(each) for each in command]
        if not self.bed.has_namespaces:
            return ["env", "-C", str(cwd), *words] if cwd else words
        return [*self.bed.enter(self.pid), "env", "-C", str(cwd or ROOT), *words]

    def in_container(self, *command: Argument) -> List[str]:
        """A command for start() and run() that runs the command in a container of this host: with process, mount, host-name
        and System V namespaces, a /tmp and a /dev/shm of its own, and the host's network."""
        kept = " && ".join(["mount -t tmpfs tmpfs /dev/shm", 'mkdir /run/of_bed', 'mount --bind "$0" /run/of_bed',
                            "mount -t tmpfs tmpfs /tmp", 'mkdir -p "$0"', 'mount --move /run/of_bed "$0"', 'exec "$@"'])
        alone = "unshare --pid --fork --kill-child --mount --mount-proc --uts --ipc --".split()
        made = f"mount -t tmpfs tmpfs /run && {kept}"
        return [*alone, "sh", "-ec", made, str(self.bed.folder), *map(str, command)]

    def start(self, *command: Argument, env: Optional[Dict[str, str]] = None, cwd: Optional[Argument] = None,
              **options: Any) -> HostProcess:
        """With this process's environment but for Ronde's and Horovod's variables, and `env` besides. `options`: Popen's."""
        options.setdefault("text", True)
        options.setdefault("stdin", subprocess.DEVNULL)
        process = HostProcess(self.command(*command, cwd=cwd), env=plain_environment(env), **options)
        process.in_namespace, process.host = self.bed.has_namespaces, self.name
        self.bed.note(process)
        return process

    def run(self, *command: Argument, limit_s: float = _LIMIT_S, input: Optional[str] = None,  # noqa: A002
            **options: Any) -> "subprocess.CompletedProcess[str]":
        """Runs it to its end, and fails if that does not come within the limit. Its output is kept, both kinds apart."""
        if input is not None:
            options["stdin"] = subprocess.PIPE
        process = self.start(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)
        try:
            out, err = process.communicate(input, timeout=limit_s)
        except subprocess.TimeoutExpired as error:
            process.kill()
            out, err = process.communicate()
            raise AssertionError(f"{self.name}: {command} did not end within {limit_s} s\n{out}\n{err}") from error
        return subprocess.CompletedProcess([str(each) for each in command], process.returncode, out, err)

    def check(self, *command: Argument, **options: Any) -> str:
        """As run(); its standard output, or AssertionError with all that it wrote if it fails."""
        done = self.run(*command, **options)
        assert done.returncode == 0, f"{self.name}: {done.args} ended with {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def run_in_switch(self, *command: Argument) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*self.bed.enter(self.bed.pid), *map(str, command)], text=True, capture_output=True,
                              timeout=_LIMIT_S, stdin=subprocess.DEVNULL)

    def in_switch(self, *command: Argument) -> None:
        """Runs a command where the switch is, at which this host's port is called `port`."""
        done = self.run_in_switch(*command)
        assert done.returncode == 0, f"{command} ended with {done.returncode}: {done.stderr}"

    def start_in_switch(self, *command: Argument) -> HostProcess:
        """Starts what runs where the switch is until it is killed; its standard input and output are pipes."""
        process = HostProcess([*self.bed.enter(self.bed.pid), *map(str, command)], env=plain_environment(), text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.bed.note(process)
        return process

    # ---- The host itself

    def begin(self) -> None:
        """Starts its pid 1. finish() must follow."""
        self.folder.mkdir()
        (self.folder / "boot_id").write_text(f"{uuid.uuid4()}\n")
        (self.folder / "machine-id").write_text(f"{uuid.uuid4().hex}\n")
        (self.folder / "hosts").write_text(self.bed.hosts_file(self))
        command = [*self.bed.enter(self.bed.pid), *unshare_command(Level.ROOT)]
        command += [str(HERE / "bed_host.sh"), self.name, str(self.folder), *self.bed.kept]
        with (self.folder / "init.log").open("w") as log:  # what its namespaces' program says of being killed, for one
            self._init = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log, text=True,
                                          env={**plain_environment(), "BED_SHM_SIZE": self.bed.shm_size})

    def finish(self) -> None:
        """Waits for its pid 1 and connects it with the switch."""
        assert self._init is not None and self._init.stdout is not None
        said = self._init.stdout.readline()
        if said != "ready\n":
            code = self._init.wait(_LIMIT_S)
            raise RuntimeError(f"{self.name} cannot be started, code {code}: {_text_of(self.folder / 'init.log')}")
        (unshare,) = _children_of(self._init.pid)
        (self.pid,) = _children_of(unshare)
        wire = f"ip link add {self.port} type veth peer name eth0 netns {_pid_in_parent(self.pid)}"
        self.in_switch("sh", "-ec", f"{wire}; ip link set {self.port} master br0 up")
        own = ["ip link set lo up", f"ip addr add {self.address}/24 dev eth0", "ip link set eth0 up",
               f"ip -6 addr add {self.address6}/64 dev eth0 nodad"]
        self.check("sh", "-ec", "; ".join(own))

    def processes(self) -> List[int]:
        """Those of this host that live, orphans too, but for its pid 1 and what that waits for."""
        if not self.pid:
            return []
        mine = os.readlink(f"/proc/{self.pid}/ns/pid")
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != self.pid:
                try:
                    is_mine = os.readlink(entry / "ns/pid") == mine
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if is_mine and state != "Z" and (entry / "cmdline").read_bytes() != b"sleep\0infinity\0":
                        found.append(int(entry.name))
                except OSError:
                    continue  # ended meanwhile
        return found

    def kill(self) -> None:
        """All its processes at once. The kernel closes their connections, unless the link is down before."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            self.pid = 0
            self.bed.wake_those_of(self)  # a pid namespace ends when its last process was waited for
        if self._init is not None:
            self._init.wait(_LIMIT_S)
            assert self._init.stdout is not None
            self._init.stdout.close()


class Bed:
    """`count` hosts, for as long as the ``with`` lasts."""

    def __init__(self, count: int, *, ssh: bool = False, level: Optional[Level] = None, keep: Sequence[Argument] = (),
                 shm_size: str = "256m", own_name_is_loopback: bool = False) -> None:
        """`ssh`: with a running sshd in each. `keep`: folders below /tmp or /dev/shm that the hosts see too; the bed's own,
        Ronde's and Python's are. `own_name_is_loopback`: in each /etc/hosts its own name is 127.0.1.1, as Debian has it."""
        self.level = level or best_level()
        self.has_namespaces = self.level is not Level.NONE
        if ssh and self.level is not Level.ROOT:
            raise RuntimeError(f"a bed of level {self.level.value} has no sshd")
        self._wants_ssh = ssh
        self.shm_size = shm_size
        self._own_name_is_loopback = own_name_is_loopback
        sweep()
        self.folder = Path(tempfile.mkdtemp(prefix=f"{_FOLDERS}{os.getpid()}-"))
        self.folder.chmod(0o755)  # Slurm's munge is another user
        self.kept = _hidden_by_a_host([self.folder, ROOT, sys.prefix, sys.base_prefix, *keep])
        self.pid = 0  # of the guardian
        self.hosts = [Host(self, number + 1) for number in range(count)]
        self.ssh = self.folder / "bin" / "ssh"
        self.ssh_config = self.folder / "ssh_config"
        self._guardian: Optional[subprocess.Popen[str]] = None
        self._processes: List[HostProcess] = []

    # ---- Making it

    def __enter__(self) -> "Bed":
        try:
            if self.has_namespaces:
                self._start_guardian()
                for host in self.hosts:
                    host.begin()
                for host in self.hosts:
                    host.finish()
                if self._wants_ssh:
                    self._start_ssh()
            else:
                for host in self.hosts:
                    host.folder.mkdir()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _start_guardian(self) -> None:
        own = os.pidfd_open(os.getpid())
        command = [*unshare_command(self.level), sys.executable, str(HERE / "bed_guardian.py"), str(own), str(self.folder)]
        try:
            self._guardian = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                              pass_fds=[own], start_new_session=True, env=plain_environment())
        finally:
            os.close(own)
        assert self._guardian.stdout is not None
        if self._guardian.stdout.readline() != "ready\n":
            raise RuntimeError(f"the bed's guardian cannot be started, code {self._guardian.wait(_LIMIT_S)}")
        (self.pid,) = _children_of(self._guardian.pid)
        made = "ip link set lo up; ip link add br0 type bridge; ip link set br0 up"
        subprocess.run([*self.enter(self.pid), "sh", "-ec", made], check=True, timeout=_LIMIT_S)

    def enter(self, pid: int) -> List[str]:
        """Begins a command that runs in the namespaces of this process."""
        assert pid, "this host is not there (any more)"
        user = ["--user", "--preserve-credentials"] if self.level is Level.USER else []
        return ["nsenter", "--target", str(pid), *user, "--net", "--pid", "--mount", "--uts", "--ipc", "--"]

    def hosts_file(self, of: Host) -> str:
        """/etc/hosts of that host. rh1 is an address of IPv4, rh1-6 one of IPv6."""
        lines = ["127.0.0.1 localhost", "::1 localhost ip6-localhost"]
        if self._own_name_is_loopback:
            lines.append(f"127.0.1.1 {of.name}")
        lines += [f"{each.address} {each.name}" for each in self.hosts if not (self._own_name_is_loopback and each is of)]
        lines += [f"{each.address6} {each.name}-6" for each in self.hosts]
        return "\n".join(lines) + "\n"

    # ---- ssh

    def _start_ssh(self) -> None:
        keys = [self.folder / "user_key", *(host.folder / "host_key" for host in self.hosts)]
        making = [subprocess.Popen(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(key)]) for key in keys]
        assert all(process.wait(_LIMIT_S) == 0 for process in making)
        (self.folder / "authorized_keys").write_text((self.folder / "user_key.pub").read_text())
        known = []
        for host in self.hosts:
            public = (host.folder / "host_key.pub").read_text().strip()
            known.append(f"{host.name},{host.name}-6,{host.address},{host.address6} {public}\n")
        (self.folder / "known_hosts").write_text("".join(known))
        self.ssh_config.write_text(
            f"Host *\n  IdentityFile {self.folder}/user_key\n  IdentitiesOnly yes\n  BatchMode yes\n"
            f"  UserKnownHostsFile {self.folder}/known_hosts\n  GlobalKnownHostsFile none\n"
            "  StrictHostKeyChecking yes\n  ConnectTimeout 5\n  LogLevel ERROR\n"
        )
        self.ssh.parent.mkdir()
        self.ssh.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {self.ssh_config} "$@"\n')
        self.ssh.chmod(0o755)
        for host in self.hosts:
            self._start_sshd(host)
        for host in self.hosts:
            wait_until(lambda host=host: "Server listening" in _text_of(host.folder / "sshd.log"),  # type: ignore[misc]
                       f"sshd of {host.name}")

    def _start_sshd(self, host: Host) -> None:
        config = host.folder / "sshd_config"
        config.write_text(
            f"Port 22\nListenAddress {host.address}\nListenAddress {host.address6}\nListenAddress 127.0.0.1\n"
            f"HostKey {host.folder}/host_key\nAuthorizedKeysFile {self.folder}/authorized_keys\nStrictModes no\n"
            "PasswordAuthentication no\nUsePAM no\nPidFile none\nMaxStartups 100\nMaxSessions 100\n"
        )
        with (host.folder / "sshd.log").open("w") as log:
            host.start(_SSHD, "-D", "-e", "-f", config, env={"PATH": "/usr/bin:/bin:/usr/sbin:/sbin"}, stdout=log, stderr=log)

    # ---- The end

    def note(self, process: HostProcess) -> None:
        """So that it is gone when the bed is."""
        self._processes = [each for each in self._processes if each.returncode is None]
        self._processes.append(process)

    def wake_those_of(self, host: Host) -> None:
        """Whoever waits for this host's processes; see HostProcess.wake()."""
        for process in self._processes:
            if process.host == host.name:
                process.wake()

    def close(self) -> None:
        """All that runs in the hosts, and their namespaces and files, are gone then."""
        if self._guardian is not None:
            assert self._guardian.stdin is not None and self._guardian.stdout is not None
            for process in self._processes:
                process.wake()
            self._guardian.stdin.close()
            try:
                self._guardian.wait(_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._guardian.kill()  # and with it, by unshare's --kill-child, the namespace's pid 1
                self._guardian.wait()
            self._guardian.stdout.close()
            self._guardian = None
        for process in self._processes:
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
            process.wait(_LIMIT_S)
            for pipe in (process.stdin, process.stdout, process.stderr):
                if pipe is not None:
                    pipe.close()
        self._processes = []
        for host in self.hosts:
            host.pid = 0
            host.kill()
        shutil.rmtree(self.folder, ignore_errors=True)


def plain_environment(more: Optional[Dict[str, str]] = None) -> Dict[str, str]:
    """This process's environment without Ronde's and Horovod's variables, and with these."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RONDE_", "HOROVOD_"))}
    return {**kept, **(more or {})}


def wait_until(condition: Callable[[], object], what: str, limit_s: float = _LIMIT_S) -> None:
    """Fails with `what` if it does not come about in time."""
    until = time.monotonic() + limit_s
    while not condition():
        assert time.monotonic() < until, f"{what}: not within {limit_s} s"
        time.sleep(0.005)


def sweep() -> None:
    """Removes folders of beds whose makers and guardians were killed."""
    for folder in Path(tempfile.gettempdir()).glob(_FOLDERS + "*"):
        pid = folder.name[len(_FOLDERS):].split("-")[0]
        if pid.isdigit() and not os.path.exists(f"/proc/{pid}"):
            shutil.rmtree(folder, ignore_errors=True)


def _hidden_by_a_host(paths: Sequence[Argument]) -> List[str]:
    """Those of the folders that a host's own /tmp and /dev/shm would hide, none inside another."""
    hidden = sorted({str(Path(path).resolve()) for path in paths})
    hidden = [path for path in hidden if path.startswith(("/tmp/", "/dev/shm/"))]
    return [path for path in hidden if not any(path.startswith(other + "/") for other in hidden)]


def _children_of(pid: int) -> List[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def _pid_in_parent(pid: int) -> str:
    """The pid that a namespace's pid 1 has in the namespace around it."""
    (line,) = [each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith("NSpid:")]
    return line.split()[-2]


def _text_of(path: Path) -> str:
    return path.read_text() if path.exists() else ""
