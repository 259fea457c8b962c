"""This process as a rank, for code that loads Horovod's library by itself."""

from __future__ import annotations

from typing import Any, Optional, Sequence

from ronde import _abi, _built, _process


class HorovodBasics:
    """Methods that say who this process is. The path of a library is accepted and not used: there is one library."""

    Average: int = _abi.AVERAGE
    Sum: int = _abi.SUM
    Adasum: int = _abi.ADASUM
    Min: int = _abi.MIN
    Max: int = _abi.MAX
    Product: int = _abi.PRODUCT

    is_initialized = staticmethod(_process.is_initialized)
    shutdown = staticmethod(_process.shutdown)
    rank = staticmethod(_process.rank)
    size = staticmethod(_process.size)
    local_rank = staticmethod(_process.local_rank)
    local_size = staticmethod(_process.local_size)
    cross_rank = staticmethod(_process.cross_rank)
    cross_size = staticmethod(_process.cross_size)
    is_homogeneous = staticmethod(_built.is_homogeneous)
    mpi_threads_supported = staticmethod(_built.mpi_threads_supported)
    mpi_enabled = staticmethod(_built.mpi_enabled)
    gloo_enabled = staticmethod(_built.gloo_enabled)
    mpi_built = staticmethod(_built.mpi_built)
    gloo_built = staticmethod(_built.gloo_built)
    nccl_built = staticmethod(_built.nccl_built)
    ddl_built = staticmethod(_built.ddl_built)
    ccl_built = staticmethod(_built.ccl_built)
    cuda_built = staticmethod(_built.cuda_built)
    rocm_built = staticmethod(_built.rocm_built)

    def __init__(self, pkg_path: str, *args: Any) -> None:
        del pkg_path, args

    def init(self, comm: Any = None, process_sets: Optional[Sequence[Any]] = None) -> None:
        """As ``horovod.torch.init``; process sets need PyTorch."""
        if comm is None and process_sets is None:
            _process.init()
            return
        import ronde.torch

        ronde.torch.init(comm, process_sets)
