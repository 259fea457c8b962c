"""Jobs that something else than `ronde run` has started (docs/launchers.md): who the ranks are, by what they know where to
meet, and who is kept out."""

from __future__ import annotations

import re
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from bed import ROOT
from launched import RONDE
from slurm import Slurm

PROGRAM = Path(__file__).resolve().parent / "programs" / "started.py"
PYTHON = sys.executable
TWO_HOSTS = ["0/2 local 0/1 cross 0/2 on rh1", "1/2 local 0/1 cross 1/2 on rh2"]
#: What ranks need besides of this machine, and what says how they met.
PLAIN = {"RONDE_PROBE": "0", "RONDE_INIT_TIMEOUT_S": "20", "OMP_NUM_THREADS": "1", "RONDE_LOG_LEVEL": "info"}


@pytest.fixture
def slurm(bed):
    with Slurm(bed) as running:
        yield running


def said(text):
    """What the ranks have said of themselves, in their order."""
    return sorted(re.findall(r"\d/\d local \d/\d cross \d/\d on (?:rh\d|\S+)", text))  # lines may run into one another


# ---- Variables as torchrun's


class Ranks:
    """Processes with torchrun's variables, one on each of these hosts."""

    def __init__(self, bed, hosts, *, each=(), program=PROGRAM, arguments=(), **more):
        names = [host.name for host in hosts]
        self.processes = []
        for rank, host in enumerate(hosts):
            own = {"RANK": str(rank), "WORLD_SIZE": str(len(hosts)), "LOCAL_RANK": str(names[:rank].count(host.name)),
                   "LOCAL_WORLD_SIZE": str(names.count(host.name)), "MASTER_ADDR": hosts[0].name, "MASTER_PORT": "29511"}
            own = {**PLAIN, **own, **more, **(each[rank] if each else {})}
            self.processes.append(host.start(PYTHON, program, *arguments, env={k: v for k, v in own.items() if v},
                                             stdout=subprocess.PIPE, stderr=subprocess.PIPE))

    def ends(self, limit_s=180.0):
        """(code, output, errors) of each."""
        ends = []
        for process in self.processes:
            out, err = process.communicate(timeout=limit_s)
            ends.append((process.returncode, out, err))
        return ends

    def succeed(self):
        ends = self.ends()
        assert all(code == 0 for code, _, _ in ends), ends
        return said("".join(out for _, out, _ in ends)), "".join(err for _, _, err in ends)


@pytest.mark.hosts(2, "namespaces")
def test_by_torchruns_variables_with_a_key(bed):
    key = secrets.token_hex(32)
    lines, log = Ranks(bed, bed.hosts, RONDE_KEY=key, arguments=["again"]).succeed()
    assert lines == TWO_HOSTS
    assert "by RONDE_KEY that the ranks meet at tcp:10.77.0.1:" in log
    assert "is reached at 10.77.0.2" in log
    assert key not in log


@pytest.mark.hosts(2, "namespaces")
def test_places_of_ranks_on_hosts_that_have_several(bed):
    one, two = bed.hosts
    lines, _ = Ranks(bed, [one, one, two, one], RONDE_KEY=secrets.token_hex(32)).succeed()
    assert lines == ["0/4 local 0/3 cross 0/2 on rh1", "1/4 local 1/3 cross 0/1 on rh1", "2/4 local 0/1 cross 1/2 on rh2",
                     "3/4 local 2/3 cross 0/1 on rh1"]


@pytest.mark.hosts(2, "namespaces", own_name_is_loopback=True)
def test_a_master_address_that_its_own_host_takes_for_loopback(bed):
    lines, log = Ranks(bed, bed.hosts, RONDE_KEY=secrets.token_hex(32)).succeed()
    assert lines == TWO_HOSTS
    assert "tcp:10.77.0.1:" in log


@pytest.mark.hosts(2, "namespaces")
def test_over_ipv6_with_ports_of_a_range(bed):
    for host in bed.hosts:
        host.check("ip", "-4", "addr", "flush", "dev", "eth0")
    lines, log = Ranks(bed, bed.hosts, MASTER_ADDR="rh1-6", RONDE_KEY=secrets.token_hex(32),
                       RONDE_PORT_RANGE="31000-31003").succeed()
    assert lines == TWO_HOSTS
    assert "tcp:[fd77::1]:3100" in log and "reached at fd77::2" in log


@pytest.mark.hosts(2, "namespaces")
def test_a_key_of_a_file_that_only_the_user_reads(bed):
    file = bed.folder / "key"
    file.write_text(secrets.token_hex(32) + "\n")
    file.chmod(0o600)
    assert Ranks(bed, bed.hosts, RONDE_KEY_FILE=str(file)).succeed()[0] == TWO_HOSTS
    file.chmod(0o640)
    for code, _, err in Ranks(bed, bed.hosts, RONDE_KEY_FILE=str(file)).ends():
        assert code != 0
        assert f"RONDE_KEY_FILE: {file} belongs to another user or is open to others" in err


@pytest.mark.hosts(2, "namespaces")
def test_without_a_key_both_ways_out_are_said(bed):
    for code, _, err in Ranks(bed, bed.hosts).ends(20.0):
        assert code != 0
        assert "set RONDE_KEY (openssl rand -hex 32) or RONDE_KEY_FILE" in err and "RONDE_TRUST_NETWORK=1" in err


@pytest.mark.hosts(2, "namespaces")
def test_a_network_that_is_trusted(bed):
    lines, log = Ranks(bed, bed.hosts, RONDE_TRUST_NETWORK="1", RONDE_LOG_LEVEL="").succeed()
    assert lines == TWO_HOSTS
    assert log.count("this job's key is given to whoever asks for it at 10.77.0.1") == 1


@pytest.mark.hosts(2, "namespaces")
def test_a_rank_with_another_key_is_kept_out(bed):
    other = [{}, {"RONDE_KEY": secrets.token_hex(32)}]
    ends = Ranks(bed, bed.hosts, each=other, RONDE_KEY=secrets.token_hex(32), RONDE_INIT_TIMEOUT_S="3").ends(20.0)
    assert all(code != 0 for code, _, _ in ends)
    assert "missing: rank 1" in ends[0][2]
    assert "refuses this rank: it has another key" in ends[1][2]


@pytest.mark.hosts(2, "namespaces")
def test_strangers_at_the_desk_change_nothing(bed):
    """Of those that rank 0 waits for one comes late; meanwhile others send what they want."""
    one, two = bed.hosts
    script = ("import os, socket, sys, time\n"
              "until = time.monotonic() + 15\n"
              "found = set()\n"  # the desk and the store
              "while len(found) < 2 and time.monotonic() < until:\n"
              "    for port in range(31000, 31004):\n"
              "        try:\n"
              "            socket.create_connection(('10.77.0.1', port), 1).close()\n"
              "            found.add(port)\n"
              "        except OSError:\n"
              "            pass\n"
              "slow = [socket.create_connection(('10.77.0.1', port)) for port in found for _ in range(100)]\n"
              "for n in range(300):\n"
              "    for port in found:\n"
              "        with socket.create_connection(('10.77.0.1', port)) as each:\n"
              "            each.sendall(os.urandom(n))\n"
              "print('sent', flush=True)\n"
              "sys.stdin.readline()\n")
    key = secrets.token_hex(32)
    job = {"RONDE_KEY": key, "RONDE_PORT_RANGE": "31000-31003", "WORLD_SIZE": "2", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1",
           "MASTER_ADDR": "rh1", "MASTER_PORT": "29511", **PLAIN}
    zero = one.start(PYTHON, PROGRAM, env={**job, "RANK": "0"}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    stranger = two.start(PYTHON, "-c", script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert stranger.stdout.readline() == "sent\n", stranger.communicate()
    late = two.run(PYTHON, PROGRAM, env={**job, "RANK": "1"}, limit_s=180.0)
    assert late.returncode == 0, late.stderr
    out, err = zero.communicate(timeout=180)
    assert zero.returncode == 0, err
    assert said(out + late.stdout) == TWO_HOSTS
    stranger.communicate("go\n", timeout=10)


@pytest.mark.hosts(1)
def test_one_host_needs_no_key(bed):
    host = bed.hosts[0]
    ranks = Ranks(bed, [host] * 3, MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()), arguments=["again"])
    lines, log = ranks.succeed()
    assert [line.rpartition(" on ")[0] for line in lines] == [f"{each}/3 local {each}/3 cross 0/1" for each in range(3)]
    assert "by a file of this user's that the ranks meet at unix:/" in log


@pytest.mark.hosts(1)
def test_contradictions_are_refused(bed):
    torch = {"RANK": "0", "WORLD_SIZE": "4", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1"}
    cases = [
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "4", "RONDE_RANK": "1", "RONDE_SIZE": "2"},
         "RONDE_RANK=1 and RONDE_SIZE=2 contradict OMPI_COMM_WORLD_RANK=1 and OMPI_COMM_WORLD_SIZE=4 of Open MPI's mpirun"),
        ({"SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "4", **torch},
         "RANK=0 and WORLD_SIZE=4 contradict SLURM_PROCID=1 and SLURM_STEP_NUM_TASKS=4 of Slurm's srun"),
    ]
    for variables, sentence in cases:
        done = bed.hosts[0].run(PYTHON, PROGRAM, env={**PLAIN, **variables})
        assert done.returncode != 0 and sentence in done.stderr, done


@pytest.mark.hosts(2, "namespaces", own_name_is_loopback=True)
def test_by_hand_by_a_name_without_addresses(bed):
    """Each rank finds out its own; rank 0's host takes its name for loopback."""
    key = bed.folder / "key"
    key.write_text(secrets.token_hex(32))
    key.chmod(0o600)
    by_hand = [{"RONDE_RANK": str(rank), "RONDE_SIZE": "2", "RONDE_LOCAL_RANK": "0", "RONDE_LOCAL_SIZE": "1",
                "RONDE_CROSS_RANK": str(rank), "RONDE_CROSS_SIZE": "2", "RONDE_STORE": "tcp:rh1:29513",
                "RONDE_KEY_FILE": str(key), "RANK": "", "WORLD_SIZE": ""} for rank in (0, 1)]
    assert Ranks(bed, bed.hosts, each=by_hand).succeed()[0] == TWO_HOSTS


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.mark.hosts(2, "namespaces")
@pytest.mark.long
def test_torchrun_and_torch_distributed_on_two_hosts(bed):
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 2, "--master-addr", "rh1",
                "--master-port", 29514]
    key = {**PLAIN, "RONDE_KEY": secrets.token_hex(32)}
    agents = [host.start(*torchrun, "--node-rank", number, PROGRAM.with_name("torch_group.py"), env=key,
                         stdout=subprocess.PIPE, stderr=subprocess.PIPE) for number, host in enumerate(bed.hosts)]
    ends = [(*agent.communicate(timeout=180), agent.returncode) for agent in agents]
    assert all(code == 0 for _, _, code in ends), ends
    assert said("".join(out for out, _, _ in ends)) == [
        f"{2 * host + local}/4 local {local}/2 cross {host}/2 on rh{host + 1}" for host in (0, 1) for local in (0, 1)]


@pytest.mark.hosts(1)
def test_torchrun_on_one_host(bed):
    done = bed.hosts[0].run(PYTHON, "-m", "torch.distributed.run", "--nproc-per-node", 2, "--master-port", free_port(),
                            PROGRAM, env=PLAIN, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert [line.rpartition(" on ")[0] for line in said(done.stdout)] == ["0/2 local 0/2 cross 0/1", "1/2 local 1/2 cross 0/1"]


# ---- Slurm


@pytest.mark.hosts(2, "slurm", "pmix")
def test_srun_with_pmix_on_two_hosts(slurm):
    srun_on_two_hosts(slurm, "pmix", "PMIx")


@pytest.mark.hosts(2, "slurm")
@pytest.mark.parametrize("mpi, way", [("none", "munge"), ("pmi2", "PMI")])
def test_srun_on_two_hosts(slurm, mpi, way):
    srun_on_two_hosts(slurm, mpi, way)


def srun_on_two_hosts(slurm, mpi, way):
    done = slurm.run("srun", "-N2", "-n2", f"--mpi={mpi}", PYTHON, PROGRAM, "again", env=PLAIN)
    assert done.returncode == 0, done.stderr + slurm.logs()
    assert said(done.stdout) == TWO_HOSTS
    assert f"by {way} that the ranks meet at tcp:10.77.0.1:" in done.stderr


@pytest.mark.hosts(2, "slurm")
@pytest.mark.long
def test_slurm_in_its_other_shapes(slurm):
    """Unequal ranks a host, one host alone, a key, and a batch script, whose own process is no rank of anything."""
    done = slurm.run("srun", "-N2", "-n3", "--mpi=none", PYTHON, PROGRAM, env=PLAIN)
    assert said(done.stdout) == ["0/3 local 0/2 cross 0/2 on rh1", "1/3 local 1/2 cross 0/1 on rh1",
                                 "2/3 local 0/1 cross 1/2 on rh2"], done.stderr
    done = slurm.run("srun", "-N1", "-w", "rh1", "-n2", "--mpi=none", PYTHON, PROGRAM, env=PLAIN)
    assert said(done.stdout) == ["0/2 local 0/2 cross 0/1 on rh1", "1/2 local 1/2 cross 0/1 on rh1"], done.stderr
    assert "by a file of this user's" in done.stderr
    done = slurm.run("srun", "-N2", "-n2", "--mpi=none", PYTHON, PROGRAM, env={**PLAIN, "RONDE_KEY": secrets.token_hex(32)})
    assert said(done.stdout) == TWO_HOSTS, done.stderr
    assert "by RONDE_KEY that" in done.stderr
    batch = slurm.bed.folder / "batch.sh"
    batch.write_text(f"#!/bin/sh\n{PYTHON} {PROGRAM}\n")
    out = slurm.bed.folder / "batch.out"
    done = slurm.run("sbatch", "--wait", "-N2", "-n2", "-o", out, batch, env={**PLAIN, "RONDE_LOG_LEVEL": "warning"})
    assert done.returncode == 0, done.stderr + out.read_text()
    assert out.read_text().splitlines() == ["0/1 local 0/1 cross 0/1 on rh1"]


@pytest.mark.hosts(2, "slurm")
def test_ronde_run_takes_what_slurm_has_given(slurm):
    """In a batch script: the job's hosts and ranks, reached by srun; fewer of them; more than there are; a failure."""
    batch = slurm.bed.folder / "batch.sh"
    run = f"{RONDE} run --no-prefix"
    ranks = f"{PYTHON} {PROGRAM}"
    batch.write_text(f"#!/bin/sh\n{run} --map-by node -v -- {ranks}\n{run} -n 2 -- {ranks}\n"
                     f"{run} -n 5 -- {ranks}\necho code $?\n"
                     f"{run} -- sh -c 'test $RONDE_RANK != 2 || exit 7; exec sleep 60'\necho code $?\n")
    out = slurm.bed.folder / "batch.out"
    done = slurm.run("sbatch", "--wait", "-N2", "-n4", "--ntasks-per-node=2", "-o", out, batch, env=PLAIN, limit_s=180)
    text = out.read_text()
    assert done.returncode == 0, done.stderr + text + slurm.logs()
    assert said(text) == sorted([
        "0/4 local 0/2 cross 0/2 on rh1", "1/4 local 0/2 cross 1/2 on rh2", "2/4 local 1/2 cross 0/2 on rh1",
        "3/4 local 1/2 cross 1/2 on rh2", "0/2 local 0/2 cross 0/1 on rh1", "1/2 local 1/2 cross 0/1 on rh1"]), text
    assert "ronde: ranks 0, 2 on rh1, at 10.77.0.1" in text and "ranks 1, 3 on rh2, at 10.77.0.2" in text, text
    assert "of Slurm has too little room" in text and "code 2" in text.splitlines(), text
    assert "rank 2 on rh2 ended with code 7" in text and "code 7" in text.splitlines(), text


@pytest.mark.hosts(2, "slurm")
def test_srun_where_one_rank_does_not_see_munge(slurm):
    """As in a container that lacks its socket: the sentence of that rank names munge, and the ways out."""
    blind = f"exec unshare --mount sh -ec 'mount -t tmpfs tmpfs /run/munge; exec {PYTHON} {PROGRAM}'"
    script = f"if [ $SLURM_PROCID = 1 ]; then {blind}; fi; exec {PYTHON} {PROGRAM}"
    done = slurm.run("srun", "-N2", "-n2", "--mpi=none", "sh", "-c", script, env={**PLAIN, "RONDE_INIT_TIMEOUT_S": "4"})
    assert done.returncode != 0
    assert "munge cannot make a credential" in done.stderr and "set RONDE_KEY" in done.stderr, done.stderr


@pytest.mark.hosts(2, "slurm")
def test_who_gets_the_key_from_munge(slurm):
    """Another user of the cluster does not, nor this one for another job; and what this user's gets nobody else reads."""
    go = slurm.bed.folder / "go"
    script = f"if [ $SLURM_PROCID = 1 ]; then while [ ! -e {go} ]; do sleep 0.05; done; fi; exec {PYTHON} {PROGRAM}"
    one, two = slurm.bed.hosts
    variables = {**PLAIN, "RONDE_PORT_RANGE": "31000-31003", "SLURM_CONF": str(slurm.config)}
    job = one.start("srun", "-N2", "-n2", "--mpi=none", "sh", "-c", script, env=variables, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE)

    def ask(name, nonce="0" * 64, user="root", reader="root"):
        done = two.run(PYTHON, PROGRAM.with_name("asks_desk.py"), name, nonce, user, reader)
        assert done.returncode == 0, done.stderr
        return done.stdout

    number = slurm.run("squeue", "-h", "-o", "%i").stdout.strip() or "1"
    mine = ask(f"slurm/{number}/0")
    assert re.search("tell\nslurm/.*\n0{64}\ntcp:10.77.0.1:[0-9]+ [0-9a-f]{64}$", mine), mine
    assert "Unauthorized credential" in ask(f"slurm/{number}/0", reader="nobody")
    assert ask(f"slurm/{number}/0", user="nobody") == "refused\n"
    assert ask(f"slurm/{number}/1") == "refused\n"
    assert ask(f"slurm/{number}/0", nonce="short") == "refused\n"
    go.write_text("")
    out, err = job.communicate(timeout=180)
    assert job.returncode == 0 and said(out) == TWO_HOSTS, err


@pytest.mark.hosts(2, "slurm")
@pytest.mark.long
def test_a_network_trains_to_the_same_weights_on_all_ranks_whoever_starts_it(slurm):
    """By srun without and with PMI, by torchrun and by variables; and to those of four ranks of one host."""
    script = [ROOT / "examples" / "torch" / "fashion_mnist.py", "--epochs", 1]
    plain = {**PLAIN, "RONDE_LOG_LEVEL": "warning", "RONDE_INIT_TIMEOUT_S": "120", "RONDE_KEY": secrets.token_hex(32)}
    hosts = slurm.bed.hosts
    texts = [hosts[0].check(RONDE, "run", "-n", 4, "--", PYTHON, *script, limit_s=240)]
    for mpi in ("none", "pmi2"):
        done = slurm.run("srun", "-N2", "-n4", f"--mpi={mpi}", PYTHON, *script, env={**plain, "RONDE_KEY": ""}, limit_s=240)
        assert done.returncode == 0, done.stderr
        texts.append(done.stdout)
    torchrun = [PYTHON, "-m", "torch.distributed.run", "--nnodes", 2, "--nproc-per-node", 2, "--master-addr", "rh1",
                "--master-port", 29515, "--node-rank"]
    agents = [host.start(*torchrun, number, *script, env=plain, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
              for number, host in enumerate(hosts)]
    ends = [(*agent.communicate(timeout=240), agent.returncode) for agent in agents]
    assert all(code == 0 for _, _, code in ends), ends
    texts.append(ends[0][0])
    ranks = Ranks(slurm.bed, [hosts[0], hosts[0], hosts[1], hosts[1]], program=script[0], arguments=script[1:], **plain)
    texts.append(ranks.ends(240)[0][1])
    weights = [re.findall(r"weights +(\w{12}), the same bits on all ranks", text) for text in texts]
    assert len(weights) == 5 and all(len(each) == 1 and each == weights[0] for each in weights), (weights, texts)


# ---- MPI's launchers


@pytest.mark.hosts(2, "ssh", "hydra")
def test_hydra_on_two_hosts(bed):
    done = bed.hosts[0].run("mpiexec.hydra", "-launcher", "ssh", "-launcher-exec", bed.ssh, "-hosts", "rh1,rh2", "-n", 3,
                            PYTHON, PROGRAM, "again", env=PLAIN, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert said(done.stdout) == ["0/3 local 0/2 cross 0/2 on rh1", "1/3 local 0/1 cross 1/2 on rh2",
                                 "2/3 local 1/2 cross 0/1 on rh1"]
    assert "by PMI that the ranks meet at tcp:10.77.0.1:" in done.stderr


@pytest.mark.hosts(2, "ssh", "open-mpi")
def test_open_mpis_mpirun_on_two_hosts(bed):
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    passed = [word for name in PLAIN for word in ("-x", name)]
    done = bed.hosts[0].run("mpirun.openmpi", "-mca", "plm_rsh_agent", bed.ssh, "-H", "rh1:2,rh2:1", "-np", 3, *passed,
                            PYTHON, PROGRAM, "again", env={**PLAIN, **root}, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert said(done.stdout) == ["0/3 local 0/2 cross 0/2 on rh1", "1/3 local 1/2 cross 0/1 on rh1",
                                 "2/3 local 0/1 cross 1/2 on rh2"]
    assert "by PMIx that the ranks meet at tcp:10.77.0.1:" in done.stderr


@pytest.mark.hosts(1, "namespaces", "hydra", "open-mpi")
def test_mpi_launchers_on_one_host(bed):
    for name in ("mpiexec.hydra", "mpirun.openmpi"):
        root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", **PLAIN}
        more = ["--oversubscribe"] if "openmpi" in name else []
        done = bed.hosts[0].run(name, *more, "-n", 2, PYTHON, PROGRAM, env=root, limit_s=180)
        assert done.returncode == 0, done.stderr
        assert said(done.stdout) == ["0/2 local 0/2 cross 0/1 on rh1", "1/2 local 1/2 cross 0/1 on rh1"]
        assert "that the ranks meet at unix:/" in done.stderr
