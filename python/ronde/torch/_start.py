"""From tensors to a request: checks them, makes contiguous what is not, finds places for the results, submits.

Each function returns the result with ``wait=True``, else a :class:`Handle`. Nothing here knows of autograd or names.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ronde import _abi, _operation
from ronde.exceptions import InvalidArgumentError, RondeError
from ronde.torch import _names
from ronde.torch._handles import Handle, Take, all_made_by_ticket, into, made_by_ticket, made_with_splits
from ronde.torch._tensors import check, from_plain, staged, view_of

_Copies = List[Tuple[torch.Tensor, torch.Tensor]]


def _submit(op: int, full_name: str, *arguments: Any, wait: bool, **settings: Any) -> _operation.Operation:
    """`_operation.submit`, after which the number of an unnamed operation is free if nobody will wait for it."""
    try:
        operation = _operation.submit(
            op, full_name, *arguments, group=_names.group_of(full_name), wait=wait, **settings
        )
    except RondeError:
        _names.waited_for(full_name)
        raise
    if wait:
        _names.waited_for(full_name)
    return operation


def _result(operation: _operation.Operation, take: Take, wait: bool) -> Any:
    return take(operation) if wait else Handle(operation, take)


def scale(factor: float, which: str) -> float:
    # The C interface takes 0 for "not given".
    if factor == 0:
        raise InvalidArgumentError(f"{which} is 0: the result would be zeros whatever the ranks have", 1)
    return float(factor)


def start_allreduce(
    tensors: Sequence[torch.Tensor],
    targets: Optional[Sequence[torch.Tensor]],
    full_name: str,
    op: int,
    prescale: float,
    postscale: float,
    single: bool,
    wait: bool,
) -> Any:
    """``targets``: where the results go, the tensors themselves; None: into new tensors. ``single``: the result is the
    one tensor, not a list."""
    if targets is None and not isinstance(tensors[0], torch.Tensor):
        tensors = [from_plain(tensor) for tensor in tensors]
    for tensor in tensors:
        check(tensor, full_name)
    inputs = [staged(tensor) for tensor in tensors]
    copy_back: _Copies = []
    if targets is None:
        buffers = [torch.empty(tensor.shape, dtype=tensor.dtype) for tensor in tensors]
        outputs = buffers
    else:
        outputs = list(targets)
        buffers = inputs  # of a tensor that is contiguous its own memory, else the copy
        copy_back = [(target, buffer) for target, buffer in zip(outputs, buffers) if target is not buffer]
    operation = _submit(
        _abi.ALLREDUCE,
        full_name,
        [view_of(tensor) for tensor in inputs],
        [buffer.data_ptr() for buffer in buffers],
        (inputs, buffers),
        reduce_op=op,
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    return _result(operation, into(outputs, copy_back, single), wait)


def start_allgather(tensor: torch.Tensor, full_name: str, wait: bool) -> Any:
    """All ranks' tensors along dimension 0, in memory that the ticket makes."""
    tensor = from_plain(tensor, rows=True)
    check(tensor, full_name)
    source = staged(tensor)
    operation = _submit(_abi.ALLGATHER, full_name, [view_of(source)], None, source, wait=wait)
    return _result(operation, made_by_ticket, wait)


def start_grouped_allgather(tensors: Sequence[torch.Tensor], full_name: str, wait: bool) -> Any:
    """The same for several under one name; a list."""
    for tensor in tensors:
        check(tensor, full_name)
    sources = [staged(tensor) for tensor in tensors]
    operation = _submit(_abi.ALLGATHER, full_name, [view_of(source) for source in sources], None, sources, wait=wait)
    return _result(operation, all_made_by_ticket(len(sources)), wait)


def start_alltoall(tensor: torch.Tensor, splits: Optional[Sequence[int]], full_name: str, wait: bool) -> Any:
    """What each rank has for this one, in rank order, in memory that the ticket makes; with ``splits`` also how many
    rows came from each."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _submit(_abi.ALLTOALL, full_name, [view_of(source)], None, source, splits=splits, wait=wait)
    return _result(operation, made_by_ticket if splits is None else made_with_splits, wait)


def start_reducescatter(
    tensors: Sequence[torch.Tensor],
    full_name: str,
    op: int,
    prescale: float,
    postscale: float,
    single: bool,
    wait: bool,
) -> Any:
    """This rank's rows of the reduced tensors, in memory that the ticket makes. ``single``: the one tensor, no list."""
    for tensor in tensors:
        check(tensor, full_name)
    sources = [staged(tensor) for tensor in tensors]
    operation = _submit(
        _abi.REDUCESCATTER,
        full_name,
        [view_of(source) for source in sources],
        None,
        sources,
        reduce_op=op,
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    return _result(operation, made_by_ticket if single else all_made_by_ticket(len(sources)), wait)


def start_broadcast(
    tensor: torch.Tensor, target: Optional[torch.Tensor], root_rank: int, full_name: str, wait: bool
) -> Any:
    """``target``: where the root's values go, the tensor itself; None: into a new tensor."""
    if target is None:
        tensor = from_plain(tensor)
    check(tensor, full_name)
    source = staged(tensor)
    if target is None:
        buffer = torch.empty(tensor.shape, dtype=tensor.dtype)
        output = buffer
    else:
        buffer, output = source, target
    copy_back: _Copies = [] if output is buffer else [(output, buffer)]
    operation = _submit(
        _abi.BROADCAST, full_name, [view_of(source)], [buffer.data_ptr()], (source, buffer), root=root_rank, wait=wait
    )
    return _result(operation, into([output], copy_back, True), wait)
