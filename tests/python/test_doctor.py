"""What ``ronde doctor`` says of this Python's frameworks."""

import json
import os
import subprocess
import sysconfig
from pathlib import Path

from ronde import _doctor

RONDE = str(Path(sysconfig.get_path("scripts")) / "ronde")


def findings(**environment):
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    ended = subprocess.run([RONDE, "doctor", "--json"], stdout=subprocess.PIPE, text=True, timeout=120, check=False,
                           env={**os.environ, "PATH": path, **environment})
    return {found["subject"]: found for found in json.loads(ended.stdout)["hosts"][0]["findings"]}


def test_each_framework_is_tried():
    # As where a rank runs it, which any launcher may have started: what is tried is a job of its own.
    found = findings(RONDE_SIZE="7", RONDE_RANK="3", RANK="3", WORLD_SIZE="7", LOCAL_RANK="0", MASTER_ADDR="nowhere",
                     OMPI_COMM_WORLD_RANK="2", OMPI_COMM_WORLD_SIZE="5", PMI_RANK="1", PMI_SIZE="4", SLURM_PROCID="1",
                     SLURM_NTASKS="4", SLURM_STEP_NUM_TASKS="4")
    assert found["frameworks"]["grade"] == "ok"
    assert {"torch", "tensorflow", "keras", "jax", "numpy"} <= set(found["frameworks"]["text"].split(" work ")[0].split(", "))
    assert "tensorflow 2" in found["packages"]["text"], "also where it is called tensorflow-cpu"


def test_those_that_are_broken_are_named(tmp_path):
    (tmp_path / "torch.py").write_text("raise ImportError('libgomp.so.1: cannot open')\n", encoding="utf-8")
    (tmp_path / "jax.py").write_text("import os; os._exit(3)\n", encoding="utf-8")
    found = findings(PYTHONPATH=str(tmp_path))
    assert found["torch"]["grade"] == "warning"
    assert "ImportError: libgomp.so.1: cannot open" in found["torch"]["text"]
    assert "ended with code 3" in found["jax"]["text"]
    assert "numpy" in found["frameworks"]["text"]


def test_one_that_hangs_is_given_up(tmp_path, monkeypatch):
    (tmp_path / "torch.py").write_text("import time; time.sleep(1000)\n", encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert _doctor.tried(["torch", "horovod"], 0.5) == {"torch": "did not answer within 0.5 s"}
