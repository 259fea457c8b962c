"""JSON schemas of MPIJob v2beta1 and JobSet v1alpha2, written from the fields of their custom resource definitions. The
template of a pod or of a job is any object here: kubernetes-validate knows those."""


def _object(required=(), **properties):
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _one_of(*values):
    return {"enum": list(values)}


def _list(items):
    return {"type": "array", "items": items}


_TEXT, _TRUTH, _ANY = {"type": "string"}, {"type": "boolean"}, {"type": "object"}
_COUNT = {"type": "integer", "minimum": 0}
_METADATA = {"type": "object", "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"}},
             "required": ["name"]}


def _resource(version, kind, spec):
    return _object(("apiVersion", "kind", "metadata", "spec"), apiVersion=_one_of(version), kind=_one_of(kind),
                   metadata=_METADATA, spec=spec)


_REPLICAS = _object(("template",), replicas=_COUNT, restartPolicy=_one_of("Always", "OnFailure", "Never", "ExitCode"),
                    template=_ANY)

MPIJOB = _resource("kubeflow.org/v2beta1", "MPIJob", _object(
    ("mpiReplicaSpecs",),
    slotsPerWorker=_COUNT,
    runLauncherAsWorker=_TRUTH,
    runPolicy=_object(cleanPodPolicy=_one_of("", "All", "Running", "None"), ttlSecondsAfterFinished=_COUNT,
                      activeDeadlineSeconds=_COUNT, backoffLimit=_COUNT, schedulingPolicy=_ANY, suspend=_TRUTH,
                      managedBy=_TEXT),
    mpiReplicaSpecs=_object(("Launcher", "Worker"), Launcher=_REPLICAS, Worker=_REPLICAS),
    sshAuthMountPath=_TEXT,
    launcherCreationPolicy=_one_of("AtStartup", "WaitForWorkersReady"),
    mpiImplementation=_one_of("OpenMPI", "Intel", "MPICH")))

_REPLICATED_JOB = _object(
    ("name", "template"),
    name=_TEXT, groupName=_TEXT, replicas=_COUNT,
    template=_object(("spec",), metadata=_ANY, spec=_ANY),
    dependsOn=_list(_object(("name", "status"), name=_TEXT, status=_one_of("Ready", "Complete"))))
_RULE = _object(
    ("name", "action"),
    name=_TEXT, onJobFailureReasons=_list(_TEXT), onJobFailureMessagePatterns=_list(_TEXT), targetReplicatedJobs=_list(_TEXT),
    action=_one_of("FailJobSet", "RestartJobSet", "RestartJobSetAndIgnoreMaxRestarts", "RestartJob",
                   "RestartJobAndIgnoreMaxRestarts"))

JOBSET = _resource("jobset.x-k8s.io/v1alpha2", "JobSet", _object(
    replicatedJobs=_list(_REPLICATED_JOB),
    network=_object(enableDNSHostnames=_TRUTH, subdomain=_TEXT, publishNotReadyAddresses=_TRUTH),
    successPolicy=_object(("operator",), operator=_one_of("All", "Any"), targetReplicatedJobs=_list(_TEXT)),
    failurePolicy=_object(maxRestarts=_COUNT, restartStrategy=_one_of("Recreate", "BlockingRecreate", "InPlaceRestart"),
                          rules=_list(_RULE)),
    startupPolicy=_object(("startupPolicyOrder",), startupPolicyOrder=_one_of("AnyOrder", "InOrder")),
    suspend=_TRUTH,
    coordinator=_object(("replicatedJob",), replicatedJob=_TEXT, jobIndex=_COUNT, podIndex=_COUNT),
    managedBy=_TEXT,
    ttlSecondsAfterFinished=_COUNT,
    volumeClaimPolicies=_list(_ANY)))
