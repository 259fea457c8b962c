"""Calls as PyTorch's profiler shows them: ``ronde:all_reduce`` with the sizes of its tensors, from the call to the end of
its work, as Gloo's calls are shown. What happens within is in Ronde's own timeline."""

from __future__ import annotations

from typing import Any, Optional, Sequence

import torch
from torch.autograd import profiler

from ronde import _abi

_TITLES = {
    "allreduce": "all_reduce",
    "allreduce_coalesced": "all_reduce",
    "allreduce_sparse": "sparse_all_reduce",
    "reduce_scatter_coalesced": "reduce_scatter",
    "allgather": "all_gather",
    "allgather_coalesced": "all_gather",
    "alltoall": "all_to_all",
}


def begin(kind: str, tensors: Sequence[torch.Tensor], root: int) -> Optional[Any]:
    """For :func:`end`, on any thread; None while nothing is profiled. ``root``: of a recv, the sender."""
    if not profiler._is_profiler_enabled:
        return None
    if kind == "recv" and root == _abi.ANY_SOURCE:
        kind = "recvAnySource"
    return torch.autograd._record_function_with_args_enter(f"ronde:{_TITLES.get(kind, kind)}", *tensors)


def end(record: Any) -> None:
    """The call has ended. Once."""
    torch.autograd._record_function_with_args_exit(record)
