"""examples/kubernetes: the manifests have fields that are there and of their types, and say what Ronde's ranks need.

No cluster can be had here. tests/hosts/test_kubernetes.py starts ranks with what they say.
"""

import copy
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml

from manifest_schemas import JOBSET, MPIJOB

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "kubernetes"
SCHEMAS = {"jobset.yaml": JOBSET, "mpijob.yaml": MPIJOB}
KUBERNETES = ("1.25", "1.37")


def manifest(name):
    return yaml.safe_load((FOLDER / name).read_text(encoding="utf-8"))


def jobs_and_pods(made):
    """What the operator makes of it, of Kubernetes' own kinds."""
    spec = made["spec"]
    if made["kind"] == "JobSet":
        return [{"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": each["name"]}, "spec": each["template"]["spec"]}
                for each in spec["replicatedJobs"]]
    return [{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower()}, "spec": each["template"]["spec"]}
            for name, each in spec["mpiReplicaSpecs"].items()]


def check(name, made):
    jsonschema.validate(made, SCHEMAS[name])
    for each in jobs_and_pods(made):
        for version in KUBERNETES:
            kubernetes_validate.validate(each, version, strict=True)


def test_each_manifest_has_a_schema():
    assert {path.name for path in FOLDER.iterdir()} == set(SCHEMAS)


@pytest.mark.parametrize("name", SCHEMAS)
def test_manifests_fit_their_schemas(name):
    check(name, manifest(name))


POD = ("spec", "replicatedJobs", 0, "template", "spec", "template", "spec")
#: By manifest, places at which a wrong value or field is put.
MISTAKES = [
    ("jobset.yaml", ("apiVersion",), "jobset.x-k8s.io/v1"),
    ("jobset.yaml", ("spec", "replicatedJob"), []),
    ("jobset.yaml", ("spec", "failurePolicy", "maxRestarts"), "none"),
    ("jobset.yaml", ("spec", "replicatedJobs", 0, "replicas"), "1"),
    ("jobset.yaml", ("spec", "replicatedJobs", 0, "template", "spec", "completionModes"), "Indexed"),
    ("jobset.yaml", (*POD, "containers", 0, "env", 1, "value"), 2),
    ("mpijob.yaml", ("spec", "mpiReplicaSpecs", "Master"), {}),
    ("mpijob.yaml", ("spec", "slotsPerWorkers"), 2),
    ("mpijob.yaml", ("spec", "runPolicy", "cleanPodPolicy"), "Never"),
    ("mpijob.yaml", ("spec", "mpiReplicaSpecs", "Worker", "template", "spec", "containers", 0, "command"), "sshd"),
]


@pytest.mark.parametrize("name, place, value", MISTAKES, ids=lambda each: each[-1] if isinstance(each, tuple) else "")
def test_a_mistake_is_found(name, place, value):
    made = copy.deepcopy(manifest(name))
    where = made
    for key in place[:-1]:
        where = where[key]
    where[place[-1]] = value
    with pytest.raises((jsonschema.ValidationError, kubernetes_validate.ValidationError)):
        check(name, made)


def test_a_jobset_says_how_many_ranks_there_are_and_where_rank_0_is():
    made = manifest("jobset.yaml")
    (job,) = made["spec"]["replicatedJobs"]
    (container,) = job["template"]["spec"]["template"]["spec"]["containers"]
    environment = {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}
    assert job["replicas"] == 1
    spec = job["template"]["spec"]
    assert environment["WORLD_SIZE"] == str(spec["completions"]) == str(spec["parallelism"])
    name = made["metadata"]["name"]
    assert environment["MASTER_ADDR"] == f"{name}-{job['name']}-0-0.{name}"
    annotation = "metadata.annotations['batch.kubernetes.io/job-completion-index']"
    assert environment["RANK"] == {"fieldRef": {"fieldPath": annotation}}
