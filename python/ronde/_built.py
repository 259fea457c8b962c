"""What this installation can do, in the words in which scripts written for Horovod ask. Ronde brings its own transports
and arithmetic: MPI, Gloo, NCCL, oneCCL, DDL, CUDA and ROCm are no part of it so far."""

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


def is_homogeneous() -> bool:
    """Whether every host has as many ranks as this one. Raises NotInitializedError (a ValueError) before ``init()``."""
    return _process.size() == _process.local_size() * _process.cross_size()


def mpi_threads_supported() -> bool:
    """False: there is no MPI. Raises NotInitializedError (a ValueError) before ``init()``."""
    _process.rank()
    return False


def mpi_enabled() -> bool:
    """Whether ranks agree through MPI: no."""
    return False


def gloo_enabled() -> bool:
    """Whether ranks agree through Gloo: no."""
    return False


def mpi_built() -> bool:
    """Whether MPI can be used: no."""
    return False


def gloo_built() -> bool:
    """Whether Gloo can be used: no."""
    return False


def nccl_built() -> int:
    """The version code of NCCL; 0: there is none."""
    return 0


def ddl_built() -> bool:
    """Whether DDL can be used: no."""
    return False


def ccl_built() -> bool:
    """Whether oneCCL can be used: no."""
    return False


def cuda_built() -> bool:
    """Whether tensors in the memory of NVIDIA's GPUs can be used: no."""
    return False


def rocm_built() -> bool:
    """Whether tensors in the memory of AMD's GPUs can be used: no."""
    return False
