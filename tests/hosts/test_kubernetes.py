"""Ranks with what the manifests of examples/kubernetes say, on the hosts of a bed in place of a cluster's nodes. What a
kubelet or an operator would do stands here: variables, names, the host file, ssh."""

from __future__ import annotations

import re
import secrets
import subprocess

import pytest
import yaml

from bed import ROOT, wait_until
from containers import VENV, bubble, plain

TRAINING = ROOT / "tests/hosts/programs/regression.py"
PYTHON = VENV / "python"


def manifest(name):
    return yaml.safe_load((ROOT / "examples/kubernetes" / name).read_text())


def weights(text):
    return re.findall(r"weights +(\w{12}), the same bits on all ranks", text)


def on_one_host(bed, ranks):
    return weights(bed.hosts[0].check(VENV / "ronde", "run", "-n", ranks, "--", PYTHON, TRAINING, env=plain()))


class Pod:
    """A pod of the JobSet, in a container of this host, with the variables that the manifest names; `names`: for its
    /etc/hosts, in place of the cluster's DNS."""

    def __init__(self, bed, host, made, index, key, names):
        (job,) = made["spec"]["replicatedJobs"]
        (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
        variables = {"JOBSET_NAME": made["metadata"]["name"], "JOB_COMPLETION_INDEX": str(index)}
        for each in container["env"]:
            source = each.get("valueFrom", {})
            if "fieldRef" in source:
                assert source["fieldRef"]["fieldPath"] == "metadata.annotations['batch.kubernetes.io/job-completion-index']"
            assert "secretKeyRef" not in source or source["secretKeyRef"] == {"name": "ronde-key", "key": "key"}
            value = each.get("value") or (key if "secretKeyRef" in source else str(index))
            variables[each["name"]] = value
        command = [{"python": PYTHON, "train.py": TRAINING}.get(word, word) for word in container["command"]]
        name = f"{made['metadata']['name']}-{job['name']}-0-{index}"
        words = [*bubble(bed, name=name), "--ro-bind", names, "/etc/hosts"]
        self.process = host.start(*words, *command, env=plain(**variables), stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def end(self):
        out, err = self.process.communicate(timeout=120)
        assert self.process.returncode == 0, err
        return out + err


@pytest.mark.hosts(2, "bubblewrap")
def test_a_jobsets_pods_train(bed):
    """Rank 0's comes last, and its name is known only then."""
    made, key = manifest("jobset.yaml"), secrets.token_hex(32)
    one, two = bed.hosts
    early, late = bed.folder / "early", bed.folder / "late"
    early.write_text("127.0.0.1 localhost\n")
    late.write_text(f"127.0.0.1 localhost\n{one.address} training-ranks-0-0 training-ranks-0-0.training\n")
    names = bed.folder / "names"
    names.write_text(early.read_text())
    second = Pod(bed, two, made, 1, key, names)
    wait_until(lambda: two.run("pgrep", "-f", TRAINING.name).returncode == 0, "the second pod to run")
    names.write_text(late.read_text())
    first = Pod(bed, one, made, 0, key, names)
    said = first.end()
    assert weights(said) == on_one_host(bed, 2) and "hosts 2\n" in said, said
    assert key not in said + second.end()


@pytest.mark.hosts(2, "ssh", "bubblewrap")
def test_an_mpi_jobs_launcher_starts_ranks_on_its_workers(bed):
    """By the operator's host file in both of its layouts."""
    spec = manifest("mpijob.yaml")["spec"]
    (launcher,) = spec["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]["containers"]
    assert spec["mpiReplicaSpecs"]["Worker"]["replicas"] == len(bed.hosts)
    expected = on_one_host(bed, 4)
    for layout in ("{} slots={}\n", "{}:{}\n"):  # Open MPI's, MPICH's and Intel MPI's
        hostfile = bed.folder / "hostfile"
        hostfile.write_text("".join(layout.format(host.name, spec["slotsPerWorker"]) for host in bed.hosts))
        words = {"ronde": VENV / "ronde", "python": PYTHON, "train.py": TRAINING, "/etc/mpi/hostfile": hostfile}
        command = [words.get(word, word) for word in launcher["command"]]
        done = bed.hosts[0].run(*command, env=plain(PATH=f"{bed.ssh.parent}:/usr/bin:/bin"), limit_s=120)
        assert done.returncode == 0, done.stderr
        assert weights(done.stdout) == expected and "hosts 2\n" in done.stdout, done.stdout
