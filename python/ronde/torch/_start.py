"""From tensors to a request: checks them, makes contiguous what is not, finds places for the results, submits.

Each function returns the result with ``wait=True``, else a :class:`Handle`. Nothing here knows of autograd or names.
"""

from __future__ import annotations

from typing import Any, List, Optional, Sequence, Tuple

import torch

from ronde import _abi, _operation
from ronde.exceptions import InvalidArgumentError, RondeError
from ronde.torch import _names
from ronde.torch._handles import Handle, finish
from ronde.torch._tensors import check, staged, view_of

_Copies = List[Tuple[torch.Tensor, torch.Tensor]]


def _submit(op: int, full_name: str, *arguments: Any, wait: bool, **settings: Any) -> _operation.Operation:
    """`_operation.submit`, after which the number of an unnamed operation is free if nobody will wait for it."""
    try:
        operation = _operation.submit(op, full_name, *arguments, wait=wait, **settings)
    except RondeError:
        _names.waited_for(full_name)
        raise
    if wait:
        _names.waited_for(full_name)
    return operation


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
    if wait:
        return finish(operation, outputs, copy_back, single)
    return Handle(operation, outputs, copy_back, single)


def start_allgather(tensor: torch.Tensor, full_name: str, wait: bool) -> Any:
    """All ranks' tensors along dimension 0, in memory that the ticket makes."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _submit(_abi.ALLGATHER, full_name, [view_of(source)], None, source, wait=wait)
    if wait:
        return finish(operation, None, [], True)
    return Handle(operation, None, [], True)


def start_broadcast(
    tensor: torch.Tensor, target: Optional[torch.Tensor], root_rank: int, full_name: str, wait: bool
) -> Any:
    """``target``: where the root's values go, the tensor itself; None: into a new tensor."""
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
    if wait:
        return finish(operation, [output], copy_back, True)
    return Handle(operation, [output], copy_back, True)
