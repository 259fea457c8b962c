"""A Ray cluster and a SparkContext, each once for the session, made when a test first asks for it."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Iterator

import pytest

from left_behind import Traces, folder_of_executors

HERE = Path(__file__).resolve().parent

os.environ.setdefault("RONDE_PROBE", "0")  # jobs of tests leave no measured table in the user's cache
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")  # whatever this host's name leads to


@pytest.fixture(scope="session", autouse=True)
def own_folder() -> Iterator[str]:
    """Where schedulers and jobs have their files; its path is short, since Ray's sockets have longer ones."""
    folder = tempfile.mkdtemp(prefix="s-", dir="/tmp")
    os.environ.update(TMPDIR=folder, XDG_RUNTIME_DIR=folder)
    tempfile.tempdir = None
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_cluster(own_folder: str) -> Iterator[Any]:
    """Two nodes of two CPUs, the second with GPUs; what the second has of ranks belongs to another host."""
    import ray
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 2})
    try:
        # As if srun had started this node, whose variables a rank must not take for its own.
        srun = {"SLURM_PROCID": "1", "SLURM_STEP_NUM_TASKS": "3", "SLURM_STEP_ID": "0", "SLURM_JOB_ID": "7"}
        # Ray takes a node's word for its GPUs: these are not there.
        cluster.add_node(num_cpus=2, num_gpus=2, env_vars={"RONDE_HOST_ID": "the other", **srun})
        # Its workers do not look where the tests do.
        ray.init(address=cluster.address, log_to_driver=False, runtime_env={"working_dir": str(HERE)})
        yield cluster
    finally:
        ray.shutdown()
        cluster.shutdown()


@pytest.fixture(scope="session")
def spark_context(own_folder: str) -> Iterator[Any]:
    """Two executors with one slot for tasks each."""
    from pyspark import SparkConf, SparkContext

    has_java = shutil.which("java") or "JAVA_HOME" in os.environ
    assert has_java, "Spark needs a Java: `tools/test_packages schedulers` installs one"
    conf = SparkConf().setMaster("local-cluster[2,1,1024]").setAppName("ronde")
    for name, value in {"spark.ui.enabled": "false", "spark.log.level": "OFF", "spark.ui.showConsoleProgress": "false"}.items():
        conf.set(name, value)
    conf.set("spark.executor.syncLogLevel.enabled", "true")
    # A stage that begins before both executors are there looks again after this time, else after 15 s.
    conf.set("spark.scheduler.barrier.maxConcurrentTasksCheck.interval", "1s")
    conf.set("spark.scheduler.barrier.maxConcurrentTasksCheck.maxFailures", "600")
    with written_to(Path(own_folder) / "driver.log"):  # where tests look into it
        context = SparkContext(conf=conf)
    executors = folder_of_executors(context)
    try:
        for module in ("training.py", "failing.py", "left_behind.py"):
            context.addPyFile(str(HERE / module))  # its executors do not look where the tests do
        yield context
    finally:
        context.stop()
        shutil.rmtree(executors, ignore_errors=True)


@contextlib.contextmanager
def written_to(file: Path) -> Iterator[None]:
    """What processes that are started meanwhile write to their standard error goes to a file."""
    before = os.dup(2)
    try:
        with file.open("ab") as log:
            os.dup2(log.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    """Of one job."""
    return Traces(tmp_path)
