"""Ranks in containers (docs/containers.md): by namespaces of their own, and by the page's own lines."""

from __future__ import annotations

import re
import secrets
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import List

import pytest

from bed import ROOT, plain_environment
from containers import Engines, bubble, forbid_shared_memory, installed_wheel, plain, remove_control_groups
from engine_stand_ins import CONTROL_GROUP, LIMITS, PODMAN
from launched import RONDE, Launched, Strays
from small_images import make
from slurm import Slurm

PROGRAMS = Path(__file__).resolve().parent / "programs"
PYTHON = sys.executable
WHERE = PROGRAMS / "where.py"
ONE_HOST = pytest.mark.hosts(1, "bubblewrap")
LAUNCHERS = {"ronde": [RONDE, "run", "-n", 2, "--no-prefix", "--"], "mpiexec.hydra": ["mpiexec.hydra", "-n", 2],
             "mpirun.openmpi": ["mpirun.openmpi", "--oversubscribe", "-n", 2]}


@pytest.fixture(scope="module", autouse=True)
def _control_groups():
    yield
    remove_control_groups()


def said(text):
    """What where.py has said, by rank; lines may run into one another."""
    return sorted(re.findall(r"\d/\d local \d/\d by \w+ memories \d on [\w-]+ pid \d+ shm \d+", text))


def named(words, name="box-$RONDE_RANK$PMI_RANK$OMPI_COMM_WORLD_RANK"):
    """The same command in containers whose host names are those of their ranks."""
    line = shlex.join(map(str, words)).replace("--unshare-uts", f"--unshare-uts --hostname {name}")
    return ["sh", "-c", f'exec {line} "$@"', "sh"]


def warnings(text):
    return [line for line in text.splitlines() if "warning" in line]


# ---- Namespaces


@pytest.mark.hosts(1, "bubblewrap", "hydra", "open-mpi")
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_containers_of_a_host_share_memory_under_a_launcher_outside(bed, launcher):
    """They have no process, folder or host name in common, and less /dev/shm than a tensor takes."""
    done = bed.hosts[0].run(*LAUNCHERS[launcher], *named(bubble(bed)), PYTHON, WHERE, env=plain())
    assert done.returncode == 0, done.stderr
    assert said(done.stdout) == [f"{rank}/2 local {rank}/2 by shm memories 2 on box-{rank} pid 2 shm 65536" for rank in (0, 1)]
    assert not warnings(done.stderr)


@ONE_HOST
def test_user_namespaces(bed):
    """As rootless containers have them, without a bed's host, in which they could have no /proc."""
    possible = subprocess.run(["unshare", "--user", "--pid", "--fork", "--mount-proc", "true"], capture_output=True, text=True,
                              timeout=30, check=False)
    if possible.returncode != 0:
        pytest.skip(f"no user namespaces: {possible.stderr.strip()}")
    command = [*LAUNCHERS["ronde"], *bubble(bed, user=True), PYTHON, WHERE]
    done = subprocess.run([str(word) for word in command], env=plain_environment(plain()), capture_output=True, text=True,
                          timeout=90, check=False)
    assert done.returncode == 0, done.stderr
    assert [" by shm memories 2 " in line for line in said(done.stdout)] == [True, True], done.stdout


@ONE_HOST
def test_network_namespaces_that_see_the_launchers_folder(bed):
    done = bed.hosts[0].run(*LAUNCHERS["ronde"], *bubble(bed, network=False, folders=["/tmp"]), PYTHON, WHERE, env=plain())
    assert done.returncode == 0, done.stderr
    assert [" by shm memories 2 " in line for line in said(done.stdout)] == [True, True], done.stdout


@ONE_HOST
def test_ranks_that_nothing_connects_end_with_a_sentence(bed):
    done = bed.hosts[0].run(*LAUNCHERS["ronde"], *bubble(bed, network=False), PYTHON, WHERE, env=plain())
    assert done.returncode == 1
    assert "If this process runs in a container, that needs the folder, or the network namespace, of" in done.stderr


@ONE_HOST
def test_where_memory_is_forbidden_ranks_use_tcp_and_one_line_says_so(bed):
    (host,) = bed.hosts
    container = bubble(bed, seccomp=forbid_shared_memory(bed.folder / "seccomp"))
    done = host.run(*LAUNCHERS["ronde"], *container, PYTHON, WHERE, env=plain())
    assert done.returncode == 0, done.stderr
    assert [" by messages memories 0 " in line for line in said(done.stdout)] == [True, True], done.stdout
    (line,) = warnings(done.stderr)
    assert "can share no memory: rank 0 on host rh1 cannot share memory: memfd_create: Operation not permitted" in line
    assert "they reach each other over TCP" in line
    forced = host.run(*LAUNCHERS["ronde"], *container, PYTHON, WHERE, env=plain(RONDE_TRANSPORT="shm"))
    assert forced.returncode == 1 and "memfd_create: Operation not permitted" in forced.stderr


class ByVariables:
    """A rank in a container of its own on each of these hosts, told who it is by torchrun's variables."""

    def __init__(self, bed, hosts, *command, containers=None, **more):
        key = secrets.token_hex(32)
        self.processes = []
        for rank, host in enumerate(hosts):
            own = plain(RANK=str(rank), WORLD_SIZE=str(len(hosts)), MASTER_ADDR=hosts[0].name, MASTER_PORT="29512",
                        RONDE_KEY=key, **more)
            words = containers or bubble(bed)
            self.processes.append(host.start(*words, *command, env=own, stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def succeed(self):
        """All output, and all that was written of errors."""
        ends = [(*process.communicate(timeout=180), process.returncode) for process in self.processes]
        assert all(code == 0 for _, _, code in ends), ends
        return "".join(out for out, _, _ in ends), "".join(err for _, err, _ in ends)


@ONE_HOST
def test_where_memory_is_forbidden_in_a_job_by_variables(bed):
    """Ranks find their hosts there; on one host that is loopback."""
    container = bubble(bed, seccomp=forbid_shared_memory(bed.folder / "seccomp"))
    out, err = ByVariables(bed, bed.hosts * 2, PYTHON, WHERE, containers=container).succeed()
    assert [" by messages memories 0 " in line for line in said(out)] == [True, True], out
    (line,) = warnings(err)
    assert "memfd_create: Operation not permitted" in line and "they reach each other over TCP" in line


@pytest.mark.hosts(2, "bubblewrap")
def test_containers_of_two_hosts(bed):
    """Those of a host share memory."""
    one, two = bed.hosts
    out, err = ByVariables(bed, [one, one, two, two], PYTHON, WHERE).succeed()
    assert [line.partition(" pid")[0] for line in said(out)] == [
        f"{2 * host + local}/4 local {local}/2 by messages memories 2 on rh{host + 1}" for host in (0, 1) for local in (0, 1)]
    assert not warnings(err)


@pytest.mark.hosts(2, "bubblewrap", "ssh")
def test_containers_of_two_hosts_under_ronde_run(bed):
    """They do not see the folder of their host's agent."""
    job = Launched(bed, "rh1:2,rh2:2", *bubble(bed), PYTHON, WHERE, options=["--no-prefix"], env=plain())
    assert job.end() == 0, job.err
    assert [line.partition(" pid")[0] for line in said(job.out)] == [
        f"{2 * host + local}/4 local {local}/2 by messages memories 2 on rh{host + 1}" for host in (0, 1) for local in (0, 1)]


@pytest.mark.hosts(2, "bubblewrap")
def test_bridged_containers_of_one_machine_use_tcp_and_one_line_says_so(bed):
    """A bed's hosts are that: network namespaces of one machine. RONDE_HOST_ID says that they are meant as one host."""
    out, err = ByVariables(bed, bed.hosts, PYTHON, WHERE, RONDE_HOST_ID="one").succeed()
    assert [" by messages " in line for line in said(out)] == [True, True], out
    (line,) = warnings(err)
    assert "can share no memory with it, as in containers with network namespaces of their own" in line


@ONE_HOST
def test_a_container_that_is_killed_is_a_rank_that_has_died(bed):
    (host,) = bed.hosts
    strays = Strays(bed)
    loop = "import ronde.numpy as r, numpy as n; r.init(); print('up', flush=True)\nwhile True: r.allreduce(n.ones(9))"
    job = host.start(*LAUNCHERS["ronde"], *named(bubble(bed)), PYTHON, "-c", loop, env=plain(), stdout=subprocess.PIPE,
                     stderr=subprocess.PIPE)
    assert [job.stdout.readline() for _ in range(2)] == ["up\n", "up\n"]
    host.check("sh", "-c", "kill -9 $(pgrep -o -f '^bwrap .*box-1')")
    _, err = job.communicate(timeout=60)
    assert job.returncode == 128 + signal.SIGKILL, err
    assert "rank 1 on rh1 was killed by signal 9" in err, err
    assert "PeerLostError" in err or "died" in err, err
    strays.wait_until_gone()


# ---- Training, and the page's lines


def weights(text):
    """Of all jobs in the text, whose ranks must have the same bits."""
    return re.findall(r"weights +(\w{12}), the same bits on all ranks", text)


@pytest.fixture
def work(bed):
    """A working folder as the page takes it, with a train.py that takes no second."""
    folder = bed.folder / "work"
    folder.mkdir()
    (folder / "train.py").symlink_to(PROGRAMS / "regression.py")
    (folder / "examples").symlink_to(ROOT / "examples")
    return folder


def without_containers(bed, ranks, *program):
    """The weights that so many ranks of one host have without containers."""
    (found,) = weights(bed.hosts[0].check(RONDE, "run", "-n", ranks, "--", PYTHON, *program, env=plain(), limit_s=180))
    return found


@pytest.mark.hosts(2, "bubblewrap")
def test_containers_train_to_the_bits_of_ranks_without(bed):
    one, two = bed.hosts
    program = PROGRAMS / "regression.py"
    for hosts in ([one, one], [one, two], [one, one, two, two]):
        out, _ = ByVariables(bed, hosts, PYTHON, program).succeed()
        assert weights(out) == [without_containers(bed, len(hosts), program)], out


@pytest.mark.hosts(2, "bubblewrap")
@pytest.mark.long
def test_containers_train_a_network_of_pytorch_to_the_bits_of_ranks_without(bed):
    one, two = bed.hosts
    make(bed.folder / "images")
    program = [PROGRAMS / "fashion_mnist_small.py", bed.folder / "images"]
    expected = without_containers(bed, 2, *program)
    for hosts in ([one, one], [one, two]):
        out, _ = ByVariables(bed, hosts, PYTHON, *program).succeed()
        assert weights(out) == [expected], out


def lines_of_page() -> List[str]:
    """The commands of the page, each with the export before it."""
    page = (ROOT / "docs/containers.md").read_text()
    found = []
    for block in re.findall(r"^```sh\n(.*?)^```$", page, re.MULTILINE | re.DOTALL):
        exports = ""
        for line in block.splitlines():
            if line.startswith("export "):
                exports = line + "\n"
            else:
                found.append(exports + line)
    return found


def needs_what_is_not_here(line):
    """A registry of images, or a cluster."""
    return re.match(r"(apptainer|podman|docker) build |kubectl ", line)


LINES = [line for line in lines_of_page() if not needs_what_is_not_here(line)]
OF_SLURM = [line for line in LINES if "srun " in line]
OF_MPI = [line for line in LINES if re.search("^mpi(run|exec)", line, re.MULTILINE)]
OF_ONE_HOST = [line for line in LINES if line not in OF_SLURM + OF_MPI]


def test_the_page_has_lines_of_each_kind():
    assert len(OF_SLURM) == 4 and len(OF_MPI) == 4 and len(OF_ONE_HOST) == 4, LINES


@pytest.fixture
def page(bed, work):
    """Runs a line of the page on the first host and gives the weights of its job, whose ranks are on all of the bed's hosts."""
    environment = Engines(bed).environment
    agent = bed.folder / "agent"  # Open MPI's has no environment on other hosts
    settings = " ".join(f"{name}={value}" for name, value in environment.items())
    agent.write_text(f'#!/bin/sh\nhost=$1; shift; exec {bed.ssh} "$host" "export {settings} OMP_NUM_THREADS=1; $*"\n')
    agent.chmod(0o755)
    environment = plain(**environment, OMPI_MCA_plm_rsh_agent=str(agent), HYDRA_LAUNCHER_EXEC=str(bed.ssh))

    def run(line, **more):
        line = re.sub(r"\bnode(\d)", r"rh\1", line)
        done = bed.hosts[0].run("bash", "-c", line, env={**environment, **more}, cwd=work, limit_s=120)
        assert done.returncode == 0, f"{line}\n{done.stdout}\n{done.stderr}"
        assert re.findall(r"hosts (\d)", done.stdout) == [str(len(bed.hosts))], done.stdout
        (found,) = weights(done.stdout)
        return found

    return run


def test_the_recipes_of_images_do_the_same():
    """ronde.def has the steps of the Containerfile."""
    recipe = (ROOT / "examples/containers/Containerfile").read_text()
    for name, value in re.findall(r"^ARG (\w+)=(\S+)$", recipe, re.MULTILINE):
        recipe = recipe.replace(f"${{{name}}}", value)
    definition = (ROOT / "examples/containers/ronde.def").read_text()
    (post,) = re.findall(r"^%post\n(.*?)^%", definition, re.MULTILINE | re.DOTALL)
    steps = [line.strip() for line in post.splitlines() if line.strip() and not line.strip().startswith("#")]
    assert len(steps) == recipe.count("\nRUN ") and all(step in recipe for step in steps), steps
    (image,) = re.findall(r"^From: (.*)$", definition, re.MULTILINE)
    assert recipe.count(image) >= 1
    (path,) = re.findall(r"export (PATH=.*)$", definition, re.MULTILINE)
    assert f"ENV {path}\n" in recipe


@pytest.mark.hosts(1, "podman")
@pytest.mark.long
def test_podman_builds_an_image_that_trains(bed, work):
    """From an image made here, which has this machine's programs by a volume, in place of one of a registry; without Debian's
    and PyPI's packages, but for a NumPy that is here."""
    (host,) = bed.hosts
    base, dist, here = bed.folder / "base", bed.folder / "dist", bed.folder / "here"
    for folder in (dist, here, *(base / name for name in ("etc", "usr", "tmp", "opt"))):
        folder.mkdir(parents=True)
    for name in ("bin", "lib", "lib64", "sbin"):
        (base / name).symlink_to(f"usr/{name}")
    (base / "etc/pip.conf").write_text(f"[global]\nno-index = true\nfind-links = {here}\n")
    installed_wheel("ronde", dist)
    installed_wheel("numpy", here)
    host.check("tar", "-C", base, "-cf", bed.folder / "base.tar", ".")
    path = f"ENV PATH={sys.base_prefix}/bin:/usr/bin:/bin"
    host.check(*PODMAN, "import", "--change", path, bed.folder / "base.tar", "localhost/base")
    volumes = [f"--volume={folder}:{folder}:ro" for folder in sorted({"/usr", sys.base_prefix, str(here)})]
    (line,) = [each for each in lines_of_page() if each.startswith("podman build")]
    options = shlex.split(line)[2:-1]
    host.check(*PODMAN, "build", "--isolation", "chroot", "--layers=false", *LIMITS, *volumes, "--build-arg",
               "BASE=localhost/base", "--build-arg", "PACKAGES=", "--build-arg", "FRAMEWORK=", *options, dist, cwd=ROOT,
               limit_s=240)
    out = host.check(*PODMAN, "run", "--cgroup-parent", CONTROL_GROUP, *LIMITS, "--log-driver", "none", *volumes, "--volume",
                     f"{ROOT}:{ROOT}:ro", "--env", "RONDE_PROBE=0", "ronde", "ronde", "run", "-n", "2", "--", "python",
                     PROGRAMS / "regression.py", limit_s=120)
    assert weights(out) == [without_containers(bed, 2, work / "train.py")], out


@pytest.mark.hosts(1, "bubblewrap", "podman")
@pytest.mark.long
@pytest.mark.parametrize("line", OF_ONE_HOST)
def test_lines_for_one_host(bed, work, page, line):
    assert page(line) == without_containers(bed, 2, work / "train.py")


@pytest.mark.hosts(2, "bubblewrap", "podman", "slurm", "pmix")
@pytest.mark.long
def test_lines_for_slurm(bed, work, page):
    expected = without_containers(bed, 4, work / "train.py")
    with Slurm(bed) as slurm:
        for line in OF_SLURM:
            assert page(line, SLURM_CONF=str(slurm.config)) == expected, line


@pytest.mark.hosts(2, "bubblewrap", "podman", "ssh", "hydra", "open-mpi")
@pytest.mark.long
@pytest.mark.parametrize("line", OF_MPI)
def test_lines_for_mpirun_outside(bed, work, page, line):
    assert page(line) == without_containers(bed, 4, work / "train.py")
