"""All-reduce of a sparse tensor (COO), as DDP asks for it where an embedding has sparse gradients.

Every rank gathers all ranks' entries and adds them up in rank order, so all get the same bits, Gloo's. The number of
entries may differ from rank to rank; how many each has travels beside them, with the shape.
"""

from __future__ import annotations

from typing import Callable, List

import torch
import torch.distributed as dist

from ronde._operation import Operation
from ronde.exceptions import InvalidArgumentError
from ronde.torch._float_state import default_float_state, scale_and_divide
from ronde.torch._handles import all_made_by_ticket
from ronde.torch._staging import staged_together

#: Types of which PyTorch adds sparse tensors up.
_TYPES = frozenset(
    (torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128)
    + (torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
)


def parts_of(tensor: torch.Tensor, op: dist.ReduceOp, kind: str) -> List[torch.Tensor]:
    """What is to be gathered: the values of its entries, their indices, and a row that says how many there are, whether their
    mean is asked for, and the shape."""
    if tensor.layout is not torch.sparse_coo or tensor.is_meta:
        raise InvalidArgumentError(
            f"{kind}: expected sparse tensors of layout torch.sparse_coo with values, got {tensor.layout} on "
            f"{tensor.device}; pass tensor.to_dense()",
            1,
        )
    if tensor.dtype not in _TYPES:
        raise InvalidArgumentError(f"{kind}: PyTorch does not add up sparse tensors of type {tensor.dtype}", 1)
    entries = tensor.detach().coalesce()
    values, indices = staged_together([entries.values(), entries.indices().t()])
    head = torch.tensor([[len(values), _is_mean(op), *tensor.shape]], dtype=torch.int64, device="cpu")
    return [values, indices, head]


def check_reduction(op: dist.ReduceOp, kind: str) -> None:
    """Raises InvalidArgumentError (a ValueError) for all but SUM and AVG."""
    if getattr(op, "op", op) not in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
        raise InvalidArgumentError(f"{kind}: of sparse tensors the backend ronde has SUM and AVG only, not {op}", 1)


def _is_mean(op: dist.ReduceOp) -> bool:
    return bool(getattr(op, "op", op) == dist.ReduceOp.AVG)


def summed_into(target: torch.Tensor, op: dist.ReduceOp, kind: str) -> Callable[[Operation], None]:
    """For the ticket of their all-gather: writes the sum, or mean, of all ranks' tensors into the target."""
    take = all_made_by_ticket(3)

    def finish(operation: Operation) -> None:
        values, indices, heads = take(operation)
        counts, means, shapes = heads[:, 0].tolist(), heads[:, 1].tolist(), heads[:, 2:].tolist()
        for rank, mean in enumerate(means):
            if mean != means[0]:
                names = ["SUM", "AVG"]
                raise InvalidArgumentError(
                    f"{kind}: rank 0 asks for {names[means[0]]} of the sparse tensors and rank {rank} for {names[mean]}", 1
                )
        for rank, shape in enumerate(shapes):
            if shape != shapes[0]:
                raise InvalidArgumentError(
                    f"{kind}: the sparse tensors have the shapes {tuple(shapes[0])} on rank 0 and {tuple(shape)} on "
                    f"rank {rank}",
                    1,
                )
        # What has 16 bits is added in 32, as everywhere.
        wide = values.float() if values.dtype in (torch.float16, torch.bfloat16) else values
        mean_of = len(counts) if _is_mean(op) else 1
        total = torch.sparse_coo_tensor(indices[:0].t(), wide[:0], target.shape)
        at = 0
        with default_float_state():
            for count in counts:
                mine = slice(at, at + count)
                total = total + torch.sparse_coo_tensor(
                    indices[mine].t(), wide[mine], target.shape, is_coalesced=True, check_invariants=False
                )
                at += count
            total = total.coalesce()
            total.values().copy_(scale_and_divide(total.values(), 1.0, mean_of))
        with torch.no_grad():  # not detach(), which shares neither indices nor values
            target.copy_(total.to(target.device, target.dtype))

    return finish
