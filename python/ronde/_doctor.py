"""Whether each framework of this Python works with Ronde: what ``ronde doctor`` asks (src/doctor/python_check.cc)."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Dict, Iterable

#: What each is tried by, in a process of its own that is a job of one rank: that it can be imported, by Ronde too, and
#: that a sum of its tensors is right.
TRIES = {
    "numpy": "import numpy as n, ronde.numpy as r; r.init(); assert r.allreduce(n.ones(3)).tolist() == [1, 1, 1]",
    "torch": "import torch as t, ronde.torch as r; r.init(); assert r.allreduce(t.ones(3)).tolist() == [1, 1, 1]",
    "tensorflow": "import tensorflow as t, ronde.tensorflow as r; r.init()\n"
                  "assert r.allreduce(t.ones(3)).numpy().tolist() == [1, 1, 1]",
    "keras": "import keras, ronde.keras as r; r.init(); r.DistributedOptimizer(keras.optimizers.SGD(0.1))",
    "jax": "import jax, ronde.jax as r; r.init()\n"
           "assert jax.jit(lambda x: r.allreduce(x, name='x'))(jax.numpy.ones(3)).tolist() == [1, 1, 1]",
}


#: How variables begin by which launchers say who a process is, and those of which that is the whole name.
_OF_LAUNCHERS = ("RONDE_", "HOROVOD_", "OMPI_", "PMI", "PALS_", "MPI_", "I_MPI_", "HYDRA_", "MV2_", "SLURM_", "TORCHELASTIC_")
_OF_TORCHRUN = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                "ROLE_WORLD_SIZE", "ROLE_NAME", "MASTER_ADDR", "MASTER_PORT"}


def _environment() -> Dict[str, str]:
    """Whatever has started this process (the doctor of several hosts is a rank of a job), the try is a job of one rank, and
    leaves the GPUs alone."""
    kept = {name: value for name, value in os.environ.items()
            if not name.startswith(_OF_LAUNCHERS) and name not in _OF_TORCHRUN}
    alone = {"RONDE_RANK": "0", "RONDE_SIZE": "1", "RONDE_PROBE": "0"}
    return {**kept, **alone, "CUDA_VISIBLE_DEVICES": "", "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "3"}


def _failure(framework: str, limit_s: float) -> str:
    """Empty if the try has succeeded; else one line that says why not."""
    try:
        ended = subprocess.run([sys.executable, "-c", TRIES[framework]], env=_environment(), stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=limit_s, check=False)
    except subprocess.TimeoutExpired:
        return f"did not answer within {limit_s:g} s"
    except OSError as error:
        return f"could not be tried: {error}"
    lines = [line for line in ended.stderr.splitlines() if line.strip() and not line.startswith(" ")]
    return "" if ended.returncode == 0 else lines[-1] if lines else f"ended with code {ended.returncode}"


def tried(packages: Iterable[str], limit_s: float) -> Dict[str, str]:
    """Of each of these that is a framework which Ronde serves: empty if it works, else why not.

    All are tried at once, in processes of their own, which are killed after ``limit_s`` seconds. Raises nothing.
    """
    frameworks = [name for name in packages if name in TRIES]
    with ThreadPoolExecutor(max(1, len(frameworks))) as threads:
        return dict(zip(frameworks, threads.map(lambda name: _failure(name, limit_s), frameworks)))
