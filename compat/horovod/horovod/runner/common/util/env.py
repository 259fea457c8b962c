"""Environment variables on their way to other processes."""

from __future__ import annotations

import os
import re
from typing import Tuple

from horovod.runner.common.util import secret

LOG_LEVEL_STR = ["FATAL", "ERROR", "WARNING", "INFO", "DEBUG", "TRACE"]

#: Names that do not go to other hosts.
IGNORE_REGEXES = {"BASH_FUNC_.*", "OLDPWD", ".*CUDA_VISIBLE_DEVICES", secret.HOROVOD_SECRET_KEY}

#: What starts processes in a job of Kubeflow's.
KUBEFLOW_MPI_EXEC = "/etc/mpi/kubexec.sh"

#: Who sets them, by the beginning of their names.
_RANK_AND_SIZE = ("HOROVOD_", "RONDE_", "OMPI_COMM_WORLD_", "PMI_")


def is_exportable(v: str) -> bool:
    """Whether a variable of this name may go to other hosts."""
    return not any(re.match(pattern, v) for pattern in IGNORE_REGEXES)


def get_env_rank_and_size() -> Tuple[int, int]:
    """This process's rank and the job's size, as a launcher has put them into the environment; 0 and 1 without one.
    RuntimeError if only one of them is there."""
    for start in _RANK_AND_SIZE:
        rank, size = os.environ.get(start + "RANK"), os.environ.get(start + "SIZE")
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            raise RuntimeError(f"only one of {start}RANK and {start}SIZE is in the environment; expected both or none")
    return 0, 1


def is_kubeflow_mpi() -> bool:
    """Whether this is part of a job that Kubeflow's MPI operator has started."""
    return os.environ.get("OMPI_MCA_plm_rsh_agent") == KUBEFLOW_MPI_EXEC
