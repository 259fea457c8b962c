"""What Ronde can move data by, under the names that scripts written for Horovod ask for.

Ronde moves data by itself, or by the MPI or the oneCCL that the site has (``RONDE_BACKEND``), which every build of it can
open. The other libraries asked for here are no part of it: a script that goes on only with NCCL, say, is told the truth. But Gloo
stands for Horovod's own way between processes without MPI, which programs ask for, and give up without: that part Ronde
has. Importing this loads nothing.
"""

from __future__ import annotations

import os

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
    """Whether data can travel by MPI: True, see :func:`mpi_enabled`. Whether there is an MPI here is not looked at. Raises
    nothing."""
    return True


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
    """Whether data can travel by oneCCL: True (``RONDE_BACKEND=oneccl``). Whether there is a oneCCL here is not looked at.
    Raises nothing."""
    return True


def cuda_built() -> bool:
    """Whether data in the memory of an Nvidia GPU travels from there: False, it is copied through host memory. Raises
    nothing."""
    return False


def rocm_built() -> bool:
    """Whether data in the memory of an AMD GPU travels from there: False, it is copied through host memory. Raises
    nothing."""
    return False


def mpi_enabled() -> bool:
    """Whether this job's data travels by MPI: the job was started with ``RONDE_BACKEND=mpi`` or ``--backend mpi``. Before
    ``init()``: whether the variable says so; what a site says counts from then on. Raises nothing."""
    if _process.is_initialized():
        return _process.backend()[0] == "mpi"
    return os.environ.get("RONDE_BACKEND") == "mpi"


def gloo_enabled() -> bool:
    """Whether this job's data travels without MPI: not :func:`mpi_enabled`. Raises nothing."""
    return not mpi_enabled()


def mpi_threads_supported() -> bool:
    """Whether this job's data travels by MPI, which any thread may call (``MPI_THREAD_MULTIPLE``). Raises
    NotInitializedError (a ValueError) before ``init()``."""
    return _process.backend()[1]


def is_homogeneous() -> bool:
    """Whether every host has as many ranks as this one. Raises NotInitializedError (a ValueError) before ``init()``."""
    return _process.size() == _process.local_size() * _process.cross_size()
