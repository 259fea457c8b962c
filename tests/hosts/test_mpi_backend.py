"""RONDE_BACKEND=mpi with the MPIs of Debian, whose launchers start the ranks: what is right, and what is refused."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ronde
from bed import ROOT, wait_until
from launched import RONDE

PROGRAMS = Path(__file__).resolve().parent / "programs"
PYTHON = sys.executable
ENVIRONMENT = {
    "RONDE_BACKEND": "mpi", "RONDE_PROBE": "0", "RONDE_INIT_TIMEOUT_S": "30", "RONDE_TIMEOUT_S": "60", "OMP_NUM_THREADS": "1",
    "RONDE_LOG_LEVEL": "info", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
}
#: By launcher, what more it is told, and what its library says of itself.
MPIS = {"mpirun.openmpi": (["--oversubscribe"], "Open MPI v"), "mpiexec.hydra": ([], "MPICH Version")}
EACH = pytest.mark.parametrize("launcher", MPIS)
ONE_HOST = pytest.mark.hosts(1, "namespaces", "hydra", "open-mpi")


def started(bed, launcher, ranks, *command, **more):
    return bed.hosts[0].run(launcher, *MPIS[launcher][0], "-n", ranks, *command, env={**ENVIRONMENT, **more}, limit_s=180)


@ONE_HOST
@EACH
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_operation_is_right(bed, launcher, ranks):
    """Those that MPI does, and those that the backend within does; the same bits on all ranks."""
    done = started(bed, launcher, ranks, PYTHON, PROGRAMS / "operations.py")
    assert done.returncode == 0, done.stderr
    digests = re.findall("[0-9a-f]{64}", done.stdout)
    assert len(digests) >= 3 * ranks
    assert len(set(digests)) == 3, digests  # of sums, of rows and of sets: the same bits on all ranks, in every step
    assert f"backend mpi: {MPIS[launcher][1]}" in done.stderr


@ONE_HOST
@EACH
@pytest.mark.parametrize("ranks", [2, 3])
def test_every_type_has_the_values_that_it_has_without_mpi(bed, launcher, ranks):
    """The same program passes over shared memory."""
    for backend in ("mpi", "own"):
        done = started(bed, launcher, ranks, PYTHON, PROGRAMS / "mpi_types.py", RONDE_BACKEND=backend)
        assert done.returncode == 0, done.stderr
        assert done.stdout.count("types are right") == ranks


@ONE_HOST
@EACH
def test_jobs_of_one_process_use_it_in_turn(bed, launcher):
    done = started(bed, launcher, 2, PYTHON, PROGRAMS / "started.py", "again")
    assert done.returncode == 0, done.stderr


@ONE_HOST
@EACH
def test_replayed_steps_are_right(bed, launcher):
    """Buckets of several types, works that overlap, and a pattern that changes."""
    done = started(bed, launcher, 3, PYTHON, PROGRAMS / "mpi_steps.py")
    assert done.returncode == 0, done.stderr + done.stdout
    assert done.stdout.count("steps are right") == 3


@ONE_HOST
@EACH
def test_a_network_trains_as_without(bed, launcher):
    script = [PYTHON, ROOT / "examples" / "torch" / "fashion_mnist.py", "--epochs", 1]
    texts = []
    for backend in ("mpi", "own"):
        done = started(bed, launcher, 2, *script, RONDE_BACKEND=backend, RONDE_LOG_LEVEL="warning")
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    weights = [re.findall(r"weights +(\w{12}), the same bits on all ranks", text) for text in texts]
    assert all(len(each) == 1 for each in weights), texts
    # Sums of two numbers have the same bits in either order.
    assert weights[0] == weights[1], texts


@ONE_HOST
@EACH
def test_a_site_says_so(bed, launcher):
    """For ranks that MPI's launcher has started, where the job says nothing. A file with a mistake ends init."""
    site = bed.hosts[0].folder / "ronde.conf"
    site.write_text("# this cluster's\nRONDE_BACKEND=mpi\n")
    site.chmod(0o644)
    text = "import sys, ronde.numpy as r; from ronde import _process; r.init(); "
    show = [PYTHON, "-c", text + "sys.stdout.write(f'by {_process.backend()[0]} {r.size()}\\n')"]

    def printed(*command, **more):
        environment = {**ENVIRONMENT, "RONDE_SITE_FILE": str(site), "RONDE_LOG_LEVEL": "warning", "RONDE_MPI_LAUNCHER": launcher}
        del environment["RONDE_BACKEND"]
        environment.update(more)
        return bed.hosts[0].run(*command, env=environment, limit_s=180)

    by_mpi = [launcher, *MPIS[launcher][0], "-n", 2, *show]
    more = ["--mpi-args", "--oversubscribe"] if launcher == "mpirun.openmpi" else []
    for command, variables, backend, size in (
        (by_mpi, {}, "mpi", 2),
        (by_mpi, {"RONDE_BACKEND": "own"}, "shm", 2),
        ([RONDE, "run", "-n", 2, *more, "--", *show], {}, "mpi", 2),
        ([RONDE, "run", "-n", 2, "--backend", "own", "--", *show], {}, "shm", 2),
        (show, {}, "shm", 1),
    ):
        done = printed(*command, **variables)
        assert done.returncode == 0, (command, done.stderr)
        assert done.stdout.count(f"by {backend} {size}") == size, (command, done.stdout)
    site.write_text("RONDE_BACKEND=mpi\nRONDE_RANK=0\n")
    for command in (show, [RONDE, "run", "-n", 2, "--", *show]):
        done = printed(*command)
        assert done.returncode != 0 and f"{site}, line 2: a site cannot set 'RONDE_RANK'; it can set RONDE_BACKEND" in done.stderr


@ONE_HOST
@EACH
def test_few_ranks_add_in_their_order(bed, launcher):
    """As without MPI, which has an order of its own: what is trained has the same bits."""
    texts = []
    for backend in ("mpi", "own"):
        done = started(bed, launcher, 4, PYTHON, PROGRAMS / "regression.py", RONDE_BACKEND=backend, RONDE_LOG_LEVEL="warning")
        assert done.returncode == 0, done.stderr
        texts.append(re.findall(r"weights +(\w{12}), the same bits on all ranks", done.stdout))
    assert len(texts[0]) == 1 and texts[0] == texts[1], texts


@ONE_HOST
@EACH
def test_a_rank_that_is_killed_ends_the_job(bed, launcher):
    host = bed.hosts[0]
    job = host.start(launcher, *MPIS[launcher][0], "-n", 2, PYTHON, PROGRAMS / "mpi_steps.py", "for ever",
                     env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    lines = [job.stdout.readline() for _ in range(2)]
    pids = [int(number) for number in re.findall(r"pid (\d+)", "".join(lines))]
    if len(pids) != 2:
        job.kill()
        pytest.fail(f"expected the numbers of two processes, found {lines}, then {job.communicate(timeout=60)}")
    host.check("kill", "-KILL", pids[1])  # numbers of the host's own
    job.communicate(timeout=60)
    assert job.returncode != 0
    # Open MPI's launcher may end before those that it has killed.
    wait_until(lambda: all(host.run("kill", "-0", pid).returncode != 0 for pid in pids), "the ranks have ended", 30)


@ONE_HOST
@EACH
def test_another_mpis_library_is_told(bed, launcher):
    """Each process would be a job of its own."""
    other = {"mpirun.openmpi": "libmpich.so.12", "mpiexec.hydra": "libmpi.so.40"}[launcher]
    done = started(bed, launcher, 2, PYTHON, PROGRAMS / "started.py", RONDE_MPI_LIBRARY=other)
    assert done.returncode != 0
    assert re.search(r"says that this process is rank 0 of 1, and its launcher said rank [01] of 2", done.stderr), done.stderr


@ONE_HOST
def test_a_program_that_is_linked_with_open_mpi(bed):
    """Its linker copies Open MPI's handles into the program, and the library uses them there."""
    host, program = bed.hosts[0], bed.folder / "linked"
    library = Path(ronde.__file__).with_name("libronde.so")
    host.check("cc", f"-I{ROOT / 'include'}", PROGRAMS / "linked_with_open_mpi.c", "-o", program, "-l:libmpi.so.40", library,
               f"-Wl,-rpath,{library.parent}")
    assert " R_X86_64_COPY " in host.check("readelf", "-rW", program) or platform.machine() != "x86_64"
    done = started(bed, "mpirun.openmpi", 2, program)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == [f"{rank}: 3 by mpi, threads 1" for rank in (0, 1)]


@ONE_HOST
def test_ranks_of_ronde_run_are_no_ranks_of_mpi(bed):
    """A variable for the ranks alone does not make the launcher another."""
    done = bed.hosts[0].run(RONDE, "run", "-n", 2, "--env", "RONDE_BACKEND=mpi", "--", PYTHON, PROGRAMS / "started.py",
                            env={**ENVIRONMENT, "RONDE_BACKEND": "own"}, limit_s=120)
    assert done.returncode != 0
    assert "start the program with the mpirun of this MPI" in done.stderr


@ONE_HOST
def test_what_is_set_wrongly_is_said(bed):
    def first(**more):
        done = started(bed, "mpirun.openmpi", 1, PYTHON, PROGRAMS / "started.py", **more)
        assert done.returncode != 0
        return done.stderr

    assert "RONDE_BACKEND is 'mpl'; expected own, mpi (through the site's MPI), or oneccl" in first(RONDE_BACKEND="mpl")
    assert "RONDE_MPI_LIBRARY cannot be opened: /nowhere" in first(RONDE_MPI_LIBRARY="/nowhere/libmpi.so")
    assert "the library of MPI has no MPI_Init_thread: backend mpi needs MPI 3" in first(RONDE_MPI_LIBRARY="libc.so.6")


@pytest.mark.hosts(2, "ssh", "open-mpi")
def test_open_mpi_on_two_hosts(bed):
    passed = [word for name in ENVIRONMENT for word in ("-x", name)]
    parts = ["-mca", "plm_rsh_agent", bed.ssh, "-mca", "pml", "ob1", "-mca", "btl", "tcp,self,vader"]
    done = bed.hosts[0].run("mpirun.openmpi", *parts, "-H", "rh1:2,rh2:1", "-np", 3, *passed,
                            PYTHON, PROGRAMS / "operations.py", env=ENVIRONMENT, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert "backend mpi: Open MPI v" in done.stderr


@pytest.mark.hosts(2, "ssh", "hydra")
def test_mpich_on_two_hosts(bed):
    done = bed.hosts[0].run("mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", bed.ssh, "-hosts", "rh1,rh2", "-n", 3,
                            PYTHON, PROGRAMS / "operations.py", env=ENVIRONMENT, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert "backend mpi: MPICH Version" in done.stderr
