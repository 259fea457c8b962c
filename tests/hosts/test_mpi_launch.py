"""`ronde run --backend mpi` with the launchers of Debian's MPIs, and with srun: lines, exit codes, and what is left."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bed import wait_until
from launched import RONDE, Strays
from slurm import Slurm
from test_mpi_backend import ENVIRONMENT, PROGRAMS

PYTHON = sys.executable
#: The backend comes from the option alone, and root needs no variables.
PLAIN = {name: value for name, value in ENVIRONMENT.items() if not name.startswith(("OMPI_", "RONDE_BACKEND"))}
MPIS = {"mpirun.openmpi": "Open MPI v", "mpiexec.hydra": "MPICH Version"}
EACH = pytest.mark.parametrize("launcher", MPIS)
ONE_HOST = pytest.mark.hosts(1, "namespaces", "hydra", "open-mpi")


def line_of(launcher, *options):
    return [RONDE, "run", "--backend", "mpi", "--mpi-launcher", launcher, *options, "--"]


def places(text):
    """What started.py says; the newline behind may come later, behind another rank's words."""
    return sorted(re.findall(r"\d/\d local \d/\d cross \d/\d on rh\d", text))


def started(bed, launcher, options, *command, env=None):
    return bed.hosts[0].run(*line_of(launcher, *options), *command, env={**PLAIN, **(env or {})}, limit_s=180)


@ONE_HOST
@EACH
def test_ranks_meet_by_the_launchers_own_mpi(bed, launcher):
    done = started(bed, launcher, ["-n", 3, "-v", "--env", "COLOUR=dark blue"], "sh", "-c",
                   'test "$COLOUR" = "dark blue" && exec "$@"', "sh", PYTHON, PROGRAMS / "operations.py")
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall("[0-9a-f]{64}", done.stdout))) == 3, done.stdout
    assert done.stderr.count(f"backend mpi: {MPIS[launcher]}") == 6  # three ranks, two lives
    assert re.search(f"^ronde: .*: {launcher} .*operations.py$", done.stderr, re.M), done.stderr


@ONE_HOST
def test_the_first_of_path_is_found_and_hosts_that_are_this_one_are_no_others(bed):
    """And the backend may come from the environment."""
    done = bed.hosts[0].run(RONDE, "run", "-H", "localhost:2", "-v", "--no-prefix", "--", PYTHON, PROGRAMS / "started.py",
                            env={**PLAIN, "RONDE_BACKEND": "mpi"}, limit_s=120)
    assert done.returncode == 0, done.stderr
    assert places(done.stdout) == [f"{rank}/2 local {rank}/2 cross 0/1 on rh1" for rank in (0, 1)]
    assert re.search("^ronde: .*: mpirun .*-np 2 --map-by slot:OVERSUBSCRIBE", done.stderr, re.M), done.stderr


@ONE_HOST
@EACH
def test_the_launchers_exit_code_and_what_it_says_are_passed_on(bed, launcher):
    done = started(bed, launcher, ["-n", 2, "--mpi-args", "-wdir '/'"], "sh", "-c", "pwd; exit 7")
    assert done.returncode == 7, done.stderr
    assert [line[-1] for line in done.stdout.splitlines()] == ["/", "/"], done.stdout
    assert re.search(rf"^ronde: {launcher} ended with code 7 after \d+\.\d s$", done.stderr, re.M), done.stderr


@ONE_HOST
def test_horovods_names(bed):
    """horovodrun, horovod.run and what programs ask for."""
    host = bed.hosts[0]
    done = host.run(RONDE.with_name("horovodrun"), "--mpi", "-np", 2, "--mpi-args=--mca pml ob1", "--verbose",
                    PYTHON, PROGRAMS / "mpi_questions.py", env=PLAIN, limit_s=120)
    assert done.returncode == 0, done.stderr
    assert len(re.findall("built enabled without-gloo threads", done.stdout)) == 2, done.stdout
    assert "mpirun" in done.stderr and "--mca pml ob1" in done.stderr, done.stderr
    function = ("import horovod, os; "
                "print(sorted(horovod.run(lambda: os.environ['OMPI_COMM_WORLD_RANK'], num_proc=2, use_mpi=True)))")
    assert host.check(PYTHON, "-c", function, env=PLAIN, limit_s=120).splitlines()[-1] == "['0', '1']"
    for backend, said in (("own", "built without-mpi gloo no-threads"), ("mpi", "built enabled without-gloo threads")):
        done = host.run(RONDE, "run", "--backend", backend, "-n", 2, "--", PYTHON, PROGRAMS / "mpi_questions.py", env=PLAIN,
                        limit_s=120)
        assert done.returncode == 0 and len(re.findall(said, done.stdout)) == 2, (done.stdout, done.stderr)


@ONE_HOST
def test_what_mpis_launcher_cannot_do_is_said(bed):
    def refused(*options, launcher="mpiexec.hydra"):
        done = started(bed, launcher, ["-n", 2, *options], "true")
        assert done.returncode == 2, done
        return done.stderr

    assert "--output-dir: 'mpiexec.hydra' has no option" in refused("--output-dir", "logs")
    assert "--carry: not with --backend mpi" in refused("--carry", "/tmp")
    assert "--map-by: not with --backend mpi" in refused("--map-by", "node")
    assert "--mpi-launcher: command not found" in refused(launcher="/nowhere/mpirun")
    assert "'/bin/cat' is none of them" in refused(launcher="/bin/cat")
    assert "--mpi-args: a quote is not closed" in refused("--mpi-args", "-x 'a")
    assert "--backend: " in refused("--backend", "mpl")


@ONE_HOST
@EACH
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_however_it_ends(bed, launcher, number):
    """Each rank has a child in a session of its own, which ignores what asks it to end."""
    host = bed.hosts[0]
    strays = Strays(bed)
    ranks = "(trap '' INT TERM; exec setsid sleep 1000) & echo up; exec sleep 1000"
    job = host.start(*line_of(launcher, "-n", 2, "--grace", 1), "sh", "-c", ranks, env=PLAIN,
                     stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert all(job.stdout.readline().rstrip().endswith("up") for _ in range(2))
    wait_until(lambda: host.run("pgrep", "-fc", "^sleep 1000").stdout.strip() == "4", "both ranks and their children")
    job.send_signal(number)
    _, err = job.communicate(timeout=60)
    if number != signal.SIGKILL:
        assert job.returncode == 128 + number, err
        assert re.search(rf"^ronde: stopped by signal {number.value} \({number.name}\) after \d+\.\d s$", err, re.M), err
    strays.wait_until_gone()


@pytest.mark.hosts(2, "ssh", "open-mpi")
def test_open_mpi_on_two_hosts(bed):
    words = f"-mca plm_rsh_agent {bed.ssh} -mca pml ob1 -mca btl tcp,self,vader"
    on_two_hosts(bed, "mpirun.openmpi", words)


@pytest.mark.hosts(2, "ssh", "hydra")
def test_mpich_on_two_hosts(bed):
    on_two_hosts(bed, "mpiexec.hydra", f"-launcher ssh -launcher-exec {bed.ssh}")


def on_two_hosts(bed, launcher, words):
    """Variables go along, those with spaces too."""
    done = started(bed, launcher, ["-H", "rh1:2,rh2:1", "--mpi-args", words, "--env", "COLOUR=dark blue", "--no-prefix"],
                   "sh", "-c", 'test "$COLOUR" = "dark blue" && exec "$@"', "sh", PYTHON, PROGRAMS / "started.py")
    assert done.returncode == 0, done.stderr
    assert places(done.stdout) == ["0/3 local 0/2 cross 0/2 on rh1", "1/3 local 1/2 cross 0/1 on rh1",
                                   "2/3 local 0/1 cross 1/2 on rh2"]
    assert f"backend mpi: {MPIS[launcher]}" in done.stderr


@pytest.mark.hosts(2, "slurm", "pmix", "open-mpi")
def test_srun_with_open_mpi(bed):
    """In a batch script: the job's hosts and ranks. The site says nothing of MPI, so PMIx is chosen, and who fails ends all."""
    with Slurm(bed) as slurm:
        batch, out = bed.folder / "batch.sh", bed.folder / "batch.out"
        run = f"{RONDE} run --backend mpi -v --no-prefix"
        batch.write_text(f"#!/bin/sh\n{run} -- {PYTHON} {PROGRAMS / 'started.py'}\n"
                         f"{run} -- sh -c 'test $SLURM_PROCID != 2 || exit 7; exec sleep 60' || echo failed\n")
        done = slurm.run("sbatch", "--wait", "-N2", "-n4", "--ntasks-per-node=2", "-o", out, batch, env=PLAIN)
        text = out.read_text()
        assert done.returncode == 0, text + slurm.logs()
        assert places(text) == [f"{2 * host + local}/4 local {local}/2 cross {host}/2 on rh{host + 1}"
                                for host in (0, 1) for local in (0, 1)], text
        assert f"backend mpi: {MPIS['mpirun.openmpi']}" in text, text
        assert "srun --ntasks=4" in text and "--mpi=pmix" in text and "failed" in text.splitlines(), text
