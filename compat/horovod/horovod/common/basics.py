"""This process as a rank, for code that loads Horovod's library by itself."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Sequence, Union

from ronde import _abi, _capabilities, _process
from ronde import process_sets as _process_sets


#: What Horovod's library answers for an id that it does not know.
_UNKNOWN_SET = -3


class HorovodBasics:
    """Methods that say who this process is. The path of a library is accepted and not used: there is one library."""

    Average: int = _abi.AVERAGE
    Sum: int = _abi.SUM
    Adasum: int = _abi.ADASUM
    Min: int = _abi.MIN
    Max: int = _abi.MAX
    Product: int = _abi.PRODUCT

    is_initialized = staticmethod(_process.is_initialized)
    rank = staticmethod(_process.rank)
    size = staticmethod(_process.size)
    local_rank = staticmethod(_process.local_rank)
    local_size = staticmethod(_process.local_size)
    cross_rank = staticmethod(_process.cross_rank)
    cross_size = staticmethod(_process.cross_size)
    start_timeline = staticmethod(_process.start_timeline)
    stop_timeline = staticmethod(_process.stop_timeline)
    is_homogeneous = staticmethod(_capabilities.is_homogeneous)
    mpi_threads_supported = staticmethod(_capabilities.mpi_threads_supported)
    mpi_enabled = staticmethod(_capabilities.mpi_enabled)
    gloo_enabled = staticmethod(_capabilities.gloo_enabled)
    mpi_built = staticmethod(_capabilities.mpi_built)
    gloo_built = staticmethod(_capabilities.gloo_built)
    nccl_built = staticmethod(_capabilities.nccl_built)
    ddl_built = staticmethod(_capabilities.ddl_built)
    ccl_built = staticmethod(_capabilities.ccl_built)
    cuda_built = staticmethod(_capabilities.cuda_built)
    rocm_built = staticmethod(_capabilities.rocm_built)

    def __init__(self, pkg_path: str, *args: Any) -> None:
        del pkg_path, args

    def init(self, comm: Any = None, process_sets: Union[None, str, Sequence[_process_sets.ProcessSet]] = None) -> None:
        """As ``horovod.torch.init``, but that PyTorch is not loaded for it. NotImplementedError for a communicator."""
        if "ronde.torch" in sys.modules:
            sys.modules["ronde.torch"].init(comm, process_sets)
            return
        if comm is not None:
            raise NotImplementedError("init(comm=...) is not supported: use process sets for some of the ranks")
        if not _process.is_rank():
            _process.init()
            try:
                _process_sets.begin_job(process_sets)
            except BaseException:
                self.shutdown()
                raise

    def shutdown(self) -> None:
        """As ``horovod.torch.shutdown``."""
        try:
            _process.shutdown()
        finally:
            if not _process.is_initialized():
                _process_sets.end_job()

    # What Horovod's own tests, and a few programs, ask for.

    def _add_process_set_impl(self, ranks: Sequence[int]) -> int:
        added = _process_sets.add_process_set(list(ranks)).process_set_id
        assert added is not None
        return added

    def _remove_process_set_impl(self, process_set_id: int) -> int:
        for each in _process_sets.added():
            if each.process_set_id == process_set_id and _process_sets.remove_process_set(each):
                return process_set_id
        return _UNKNOWN_SET

    def _process_set_rank(self, process_set_id: int) -> int:
        return _process_sets.rank_in(process_set_id)

    def _process_set_size(self, process_set_id: int) -> int:
        return _process_sets.size_of(process_set_id)

    def _get_process_set_ids_and_ranks(self) -> Dict[int, List[int]]:
        return _process_sets.registered()

    def _comm_process_set_id(self, comm: Any) -> int:
        """The id of the set that has the ranks of an mpi4py communicator, of which all must call this; -3 if there is
        none. The library has no MPI: the communicator itself is asked, by its ``allgather``."""
        ranks = sorted(comm.allgather(self.rank()))
        found = (group for group, members in self._get_process_set_ids_and_ranks().items() if members == ranks)
        return next(found, _UNKNOWN_SET)
