"""All-reduce of sparse tensors (COO): each rank gathers all ranks' entries and adds up those of the same place. Part of
:mod:`ronde.torch.mpi_ops`."""

from __future__ import annotations

from typing import Any, Callable, List, Optional

import torch

from ronde import _calls, _names, process_sets
from ronde._calls import Name
from ronde._handle import Handle, synchronize_all
from ronde._reduce_ops import Average, Sum, reduce_op
from ronde.exceptions import InvalidArgumentError
from ronde.torch._float_state import default_float_state, scale_and_divide
from ronde.torch._start import start_allgather
from ronde.torch.compression import AnyCompressor, Compression
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

#: Waits, and returns the reduced tensor.
Finish = Callable[[], torch.Tensor]


def sparse_allreduce_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: Optional[int] = None,
    process_set: ProcessSet = global_process_set,
) -> Finish:
    """Begins the all-reduce of a sparse tensor and returns a function: call it once, it waits and returns the result.

    Args:
        tensor: of layout ``torch.sparse_coo``, of the same shape, type and number of sparse dimensions on every rank;
            the number of its entries may differ, and be 0.
        name: by which the ranks meet, in two all-gathers, ``<name>.indices`` and ``<name>.values``; None: they meet by
            the order of unnamed calls. Ranks that ask for different shapes or ops are all told so (ValueError).
        op: Average (the default) or Sum.
        process_set: the ranks that take part; this one must be among them.

    The result is coalesced: the same bits on every rank. Not differentiable. Raises ValueError if the call is wrong;
    the function raises CollectiveError if the work fails (see :func:`ronde.torch.synchronize`).
    """
    group = group_of(process_set)
    base: Name = name if name is not None else _names.name_of("sparse_allreduce", None, group)
    try:
        return start_sparse_allreduce(tensor, base, reduce_op(op, None), group)
    except BaseException as error:
        _names.refuse(base, error)
        raise


def start_sparse_allreduce(
    tensor: torch.Tensor,
    base: Name,
    op: int,
    group: int,
    compression: AnyCompressor = Compression.none,
    factor: float = 1.0,
) -> SparseReduction:
    """The same in the process set with this id. ``base``: the name, or an unnamed call's; ``factor``: what the result is
    multiplied by; ``compression``: of the values."""
    shown = base if isinstance(base, str) else "sparse_allreduce"
    if not isinstance(tensor, torch.Tensor) or tensor.layout is not torch.sparse_coo:
        found = tensor.layout if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise InvalidArgumentError(f"'{shown}': expected a tensor of layout torch.sparse_coo, got {found}", 1)
    if op not in (Average, Sum):
        raise InvalidArgumentError(f"'{shown}' is sparse: its op must be Average or Sum", 1, tensor=shown)
    n_ranks = process_sets.size_of(group)
    entries = tensor.detach().coalesce()
    asked = _names.hash_of(f"{op} {factor} {tuple(tensor.shape)} {tensor.sparse_dim()} {_end_before(base)}")
    own_indices, own_values = _headed(entries.indices().t(), asked), entries.values()
    values, context = compression.compress(own_values)
    names = [_names.name_of("allgather", f"{base}.{part}", group) for part in ("indices", "values")]
    gathered_indices = start_allgather(own_indices, names[0], wait=False)
    gathered_values = start_allgather(values, names[1], wait=False)
    _calls.say_told(base)

    return SparseReduction(
        tensor, shown, [gathered_indices, gathered_values], compression, context, factor, n_ranks if op == Average else 1, asked
    )


def _end_before(base: Name) -> int:
    """Which end a call without a name is behind, where ranks may see it at different places among their calls; 0: none. The
    gathers have names, so nobody else compares it."""
    tag = _calls.tag_of(base) if _calls.tag_of is not None and isinstance(base, _calls.Unnamed) else 0
    return tag if tag > 1 else 0


def _headed(indices: torch.Tensor, asked: int) -> torch.Tensor:
    """Behind a row that stands for what this rank asks for: a number below 0, which no index is. An entry without sparse
    dimensions, and so without an index, has 0."""
    if indices.shape[1] == 0:
        indices = indices.new_zeros((indices.shape[0], 1))
    head = indices.new_zeros((1, indices.shape[1]))
    head[:, :1] = -1 - asked
    return torch.cat([head, indices])


class SparseReduction:
    """One under way: called once, it waits and returns the result."""

    def __init__(
        self,
        tensor: torch.Tensor,
        shown: str,
        gathered: List[Handle[torch.Tensor]],
        compression: AnyCompressor,
        context: Any,
        factor: float,
        divisor: int,
        asked: int,
    ) -> None:
        self._tensor, self._shown, self._gathered = tensor, shown, gathered
        self._compression, self._context = compression, context
        self._factor, self._divisor, self._asked = factor, divisor, asked

    def ask_to_cancel(self) -> None:
        """Begins what :meth:`cancel` does, and waits for nothing."""
        for handle in self._gathered:
            handle.ask_to_cancel()

    def cancel(self) -> bool:
        """Unless all ranks have submitted it, it ends on all of them with an error. Returns when it has ended, whether it has
        ended so."""
        have_failed = [handle.cancel() for handle in self._gathered]
        return all(have_failed)

    def __call__(self) -> Any:
        indices, values = synchronize_all(self._gathered)
        if indices is None:
            raise InvalidArgumentError(f"'{self._shown}': the result was fetched already", 1, tensor=self._shown)
        indices = self._checked(indices)
        values = self._compression.decompress(values, self._context)
        # What has 16 bits is added in 32, as everywhere.
        wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
        shape = self._tensor.shape
        with default_float_state():
            total = torch.sparse_coo_tensor(
                indices.t(), wide, shape, device=values.device, check_invariants=True
            ).coalesce()
            scaled = scale_and_divide(total.values(), self._factor, self._divisor)
        reduced = scaled.to(values.dtype)
        return torch.sparse_coo_tensor(
            total.indices(), reduced, shape, device=values.device, is_coalesced=True, check_invariants=False
        )

    def _checked(self, gathered: torch.Tensor) -> torch.Tensor:
        """Of all ranks, without the rows that they begin with. Raises, on all ranks, if these differ."""
        is_head = gathered[:, 0] < 0
        for rank, asked in enumerate((-1 - gathered[is_head, 0]).tolist()):
            if asked != self._asked:
                raise InvalidArgumentError(
                    f"'{self._shown}' is sparse, of shape {tuple(self._tensor.shape)} here, and rank {rank} of the process set "
                    "has another shape, another op, another factor or other sparse dimensions, or calls it at another place: "
                    "they must be the same on all ranks",
                    1,
                    tensor=self._shown,
                )
        return gathered[~is_head][:, : self._tensor.sparse_dim()]
