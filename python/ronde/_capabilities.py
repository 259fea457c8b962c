"""What this build of Ronde consists of, under the names that scripts written for Horovod ask for.

Ronde moves data by itself. None of the libraries asked for here is part of it: a script that goes on only with MPI, say,
is told the truth. But Gloo stands for Horovod's own way between processes without MPI, which programs ask for, and give up
without: that part Ronde has. Importing this loads nothing.
"""

from __future__ import annotations

from ronde import _process

__all__ = [
    "ccl_built",
    "cuda_built",
    "ddl_built",
    "gloo_built",
    "gloo_enabled",
    "is_homogeneous",
    "mpi_built",
    "mpi_enabled",
    "mpi_threads_supported",
    "nccl_built",
    "rocm_built",
]


def mpi_built() -> bool:
    """Whether data can travel by MPI: False. Raises nothing."""
    return False


def gloo_built() -> bool:
    """Whether data can travel without MPI: True, by Ronde's own engine, which does what Horovod has Gloo for. Raises
    nothing."""
    return True


def nccl_built() -> int:
    """The version of NCCL by which data can travel, such as 21003; 0: it cannot. Raises nothing."""
    return 0


def ddl_built() -> bool:
    """Whether data can travel by IBM's DDL: False. Raises nothing."""
    return False


def ccl_built() -> bool:
    """Whether data can travel by oneCCL: False. Raises nothing."""
    return False


def cuda_built() -> bool:
    """Whether data in the memory of an Nvidia GPU travels from there: False, it is copied through host memory. Raises
    nothing."""
    return False


def rocm_built() -> bool:
    """Whether data in the memory of an AMD GPU travels from there: False, it is copied through host memory. Raises
    nothing."""
    return False


def mpi_enabled() -> bool:
    """Whether ranks find each other by MPI in this job: False. Raises nothing."""
    return False


def gloo_enabled() -> bool:
    """Whether ranks find each other without MPI: True, see :func:`gloo_built`. Raises nothing."""
    return True


def mpi_threads_supported() -> bool:
    """Whether MPI may be called from several threads: False, there is none. Raises NotInitializedError (a ValueError)
    before ``init()``."""
    _process.size()
    return False


def is_homogeneous() -> bool:
    """Whether every host has as many ranks as this one. Raises NotInitializedError (a ValueError) before ``init()``."""
    return _process.size() == _process.local_size() * _process.cross_size()
