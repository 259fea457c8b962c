"""Prefix reductions over the ranks, in their order (``MPI_Scan`` and ``MPI_Exscan`` of the MPI standard). None of them is
differentiable."""

from __future__ import annotations

from typing import Any, Optional

import torch

from ronde import _abi, _names, _operation
from ronde._handle import Handle
from ronde._reduce_ops import reduce_op, scale
from ronde.torch._handles import into
from ronde.torch._staging import host_memory_for, staged
from ronde.torch._tensors import check, copies_back, from_plain, kept, new_like, view_of
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

__all__ = [
    "exscan",
    "exscan_",
    "exscan_async",
    "exscan_async_",
    "scan",
    "scan_",
    "scan_async",
    "scan_async_",
]


def scan(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Returns the reduction of the tensors of all ranks up to and including this one, as a new tensor.

    A rank's result has the bits that an all-reduce of these ranks would give.

    Args:
        tensor: the same shape and type on every rank.
        name: by which the ranks meet; None: they meet by the order of unnamed calls.
        op: as of :func:`ronde.torch.allreduce`, but neither ``Average`` nor ``Adasum``.
        process_set: the ranks that take part, this one among them; their order is that of their numbers in it.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.

    Raises as :func:`ronde.torch.allreduce`.
    """
    result: torch.Tensor = _scan(_abi.SCAN, tensor, False, name, op, process_set, prescale_factor, postscale_factor, True)
    return result


def scan_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`scan`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[torch.Tensor] = _scan(
        _abi.SCAN, tensor, False, name, op, process_set, prescale_factor, postscale_factor, False
    )
    return handle


def scan_(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """:func:`scan` in place; returns the tensor. Raises as :func:`ronde.torch.allreduce`."""
    result: torch.Tensor = _scan(_abi.SCAN, tensor, True, name, op, process_set, prescale_factor, postscale_factor, True)
    return result


def scan_async_(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`scan_`; ``synchronize(handle)`` returns the tensor. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[torch.Tensor] = _scan(
        _abi.SCAN, tensor, True, name, op, process_set, prescale_factor, postscale_factor, False
    )
    return handle


def exscan(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """Returns the reduction of the tensors of the ranks before this one, as a new tensor. The first rank gets the neutral
    value of the reduction: 0 for ``Sum``, ``BitOr`` and ``BitXor``, 1 for ``Product``, all bits for ``BitAnd``, and for ``Max``
    and ``Min`` the infinity that changes nothing, or the type's extreme value where it has none.
    Arguments as of :func:`scan`. Raises as :func:`ronde.torch.allreduce`."""
    result: torch.Tensor = _scan(_abi.EXSCAN, tensor, False, name, op, process_set, prescale_factor, postscale_factor, True)
    return result


def exscan_async(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`exscan`; ``synchronize(handle)`` returns the result. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[torch.Tensor] = _scan(
        _abi.EXSCAN, tensor, False, name, op, process_set, prescale_factor, postscale_factor, False
    )
    return handle


def exscan_(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> torch.Tensor:
    """:func:`exscan` in place; returns the tensor. Raises as :func:`ronde.torch.allreduce`."""
    result: torch.Tensor = _scan(_abi.EXSCAN, tensor, True, name, op, process_set, prescale_factor, postscale_factor, True)
    return result


def exscan_async_(
    tensor: torch.Tensor,
    name: Optional[str] = None,
    op: int = _abi.SUM,
    process_set: ProcessSet = global_process_set,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
) -> Handle[torch.Tensor]:
    """Begins :func:`exscan_`; ``synchronize(handle)`` returns the tensor. Raises as :func:`ronde.torch.allreduce`."""
    handle: Handle[torch.Tensor] = _scan(
        _abi.EXSCAN, tensor, True, name, op, process_set, prescale_factor, postscale_factor, False
    )
    return handle


def _scan(
    which: int,
    tensor: torch.Tensor,
    in_place: bool,
    name: Optional[str],
    op: int,
    process_set: ProcessSet,
    prescale: float,
    postscale: float,
    wait: bool,
) -> Any:
    group = group_of(process_set)
    full_name = _names.name_of("scan" if which == _abi.SCAN else "exscan", name, group)
    try:
        if not in_place:
            tensor = from_plain(tensor)
        check(tensor, full_name)
        source = staged(tensor)
        output = tensor if in_place else new_like(tensor)
        buffer = source if in_place else host_memory_for(output)
        copy_back = copies_back([(output, buffer)], full_name)
        operation = _operation.submit(
            which,
            full_name,
            [view_of(source)],
            [buffer.data_ptr()],
            kept(source, buffer),
            reduce_op=reduce_op(op, None),
            prescale=scale(prescale, "prescale_factor"),
            postscale=scale(postscale, "postscale_factor"),
            wait=wait,
        )
        take = into([output], copy_back, True)
        return take(operation) if wait else Handle(operation, take)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise
