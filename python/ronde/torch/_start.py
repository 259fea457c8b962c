"""From tensors to a request: checks them, copies what is not contiguous or not in host memory, finds places for the
results, submits.

Each function returns the result with ``wait=True``, else a :class:`Handle`: types that its callers state. Nothing here
knows of autograd or names.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Sequence, Tuple

import torch

from ronde import _abi, _names, _operation
from ronde._handle import Handle, Take, nothing
from ronde._names import Name
from ronde._native import extension
from ronde._reduce_ops import scale
from ronde.torch._handles import (
    all_made_by_ticket,
    into,
    made_at_root,
    made_by_ticket,
    made_with_splits,
    on,
    source_after,
)
from ronde.torch._staging import host_memory_for, staged, staged_together
from ronde.torch._tensors import (
    apart,
    check,
    copies_back,
    from_plain,
    is_ready,
    kept,
    new_like,
    view_of,
)

_Copies = List[Tuple[torch.Tensor, torch.Tensor]]


def _in_c() -> Optional[Callable[..., Any]]:
    capsule = getattr(torch.Tensor, "__dlpack_c_exchange_api__", None)  # from 2.10 on
    if extension is None or not extension.know_tensors(torch.Tensor, torch.nn.Parameter, capsule):
        return None
    made: Callable[..., Any] = extension.allreduce_tensor
    return made


allreduce_in_c: Optional[Callable[..., Any]] = _in_c()
"""``(tensor, name, op, prescale_factor, postscale_factor, process_set, wait)``: an all-reduce in place of one plain tensor, as
most are, by the extension module. Returns True when it is done, without ``wait`` its Handle; None, and nothing has
happened, if the call is another; it asks for the program's place, so the program calls who calls it. None: there is no such."""


def _result(operation: _operation.Operation, take: Take[Any], wait: bool) -> Any:
    return take(operation) if wait else Handle(operation, take)


def start_allreduce(
    tensors: Sequence[torch.Tensor],
    targets: Optional[Sequence[torch.Tensor]],
    full_name: Name,
    op: int,
    prescale: float,
    postscale: float,
    single: bool,
    wait: bool,
    copies: Optional[List[torch.Tensor]] = None,
) -> Any:
    """``targets``: where the results go, the tensors themselves; None: into new tensors. ``single``: the result is the
    one tensor, not a list. ``copies``: of the tensors in host memory, if they are made already."""
    if targets is None and not isinstance(tensors[0], torch.Tensor):
        tensors = [from_plain(tensor) for tensor in tensors]
    inputs = list(tensors) if copies is None else copies
    if not all(map(is_ready, inputs)):
        for tensor in tensors:
            check(tensor, full_name)
        inputs = staged_together(tensors, is_reduced=True)
    if targets is None:
        outputs = [new_like(tensor) for tensor in tensors]
        # What was copied to host memory is nobody else's: the result may take its place.
        buffers = [output if output.is_cpu else source for output, source in zip(outputs, inputs)]
    else:
        outputs = list(targets)
        inputs = apart(inputs)
        buffers = inputs  # of a tensor that is contiguous its own memory, else the copy
    copy_back = copies_back(zip(outputs, buffers), full_name)
    operation = _operation.submit(
        _abi.ALLREDUCE,
        full_name,
        [view_of(tensor) for tensor in inputs],
        [buffer.data_ptr() for buffer in buffers],
        kept(*inputs, *(() if buffers is inputs else buffers)),
        reduce_op=op,
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    return _result(operation, into(outputs, copy_back, single), wait)


def start_allgather(tensor: torch.Tensor, full_name: Name, wait: bool) -> Any:
    """All ranks' tensors along dimension 0, in memory that the ticket makes."""
    tensor = from_plain(tensor, rows=True)
    check(tensor, full_name)
    source = staged(tensor)
    operation = _operation.submit(_abi.ALLGATHER, full_name, [view_of(source)], None, kept(source), wait=wait)
    return _result(operation, on([tensor], made_by_ticket), wait)


def start_grouped_allgather(tensors: Sequence[torch.Tensor], full_name: Name, wait: bool) -> Any:
    """The same for several under one name; a list."""
    for tensor in tensors:
        check(tensor, full_name)
    sources = staged_together(tensors)
    views = [view_of(source) for source in sources]
    operation = _operation.submit(_abi.ALLGATHER, full_name, views, None, kept(*sources), wait=wait)
    return _result(operation, on(tensors, all_made_by_ticket(len(sources))), wait)


def start_alltoall(tensor: torch.Tensor, splits: Optional[Sequence[int]], full_name: Name, wait: bool) -> Any:
    """What each rank has for this one, in rank order, in memory that the ticket makes; with ``splits`` also how many
    rows came from each."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _operation.submit(_abi.ALLTOALL, full_name, [view_of(source)], None, kept(source), splits=splits, wait=wait)
    return _result(operation, on([tensor], made_by_ticket if splits is None else made_with_splits), wait)


def start_reducescatter(
    tensors: Sequence[torch.Tensor],
    full_name: Name,
    op: int,
    prescale: float,
    postscale: float,
    single: bool,
    wait: bool,
) -> Any:
    """This rank's rows of the reduced tensors, in memory that the ticket makes. ``single``: the one tensor, no list."""
    for tensor in tensors:
        check(tensor, full_name)
    sources = staged_together(tensors)
    operation = _operation.submit(
        _abi.REDUCESCATTER,
        full_name,
        [view_of(source) for source in sources],
        None,
        kept(*sources),
        reduce_op=op,
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    take = made_by_ticket if single else all_made_by_ticket(len(sources))
    return _result(operation, on(tensors, take), wait)


def start_broadcast(
    tensor: torch.Tensor, target: Optional[torch.Tensor], root_rank: int, full_name: Name, wait: bool
) -> Any:
    """``target``: where the root's values go, the tensor itself; None: into a new tensor."""
    if target is None:
        tensor = from_plain(tensor)
    check(tensor, full_name)
    source = staged(tensor)
    if target is None:
        output = new_like(tensor)
        buffer = host_memory_for(output)
    else:
        buffer, output = source, target
    copy_back = copies_back([(output, buffer)], full_name)
    operation = _operation.submit(
        _abi.BROADCAST, full_name, [view_of(source)], [buffer.data_ptr()], kept(source, buffer), root=root_rank, wait=wait
    )
    return _result(operation, into([output], copy_back, True), wait)


def start_reduce(
    tensor: torch.Tensor,
    target: Optional[torch.Tensor],
    root_rank: int,
    is_root: bool,
    full_name: Name,
    op: int,
    prescale: float,
    postscale: float,
    wait: bool,
) -> Any:
    """``target``: where the root's result goes, the tensor itself; None: into a new tensor, which is None elsewhere."""
    check(tensor, full_name)
    source = staged(tensor)
    output = new_like(source) if is_root and target is None else target
    buffer = source if target is not None or output is None else output
    copy_back = copies_back([(output, buffer)] if is_root and output is not None else [], full_name)
    operation = _operation.submit(
        _abi.REDUCE,
        full_name,
        [view_of(source)],
        [buffer.data_ptr()],
        kept(source, buffer),
        reduce_op=op,
        root=root_rank,
        prescale=scale(prescale, "prescale_factor"),
        postscale=scale(postscale, "postscale_factor"),
        wait=wait,
    )
    if output is None:
        return _result(operation, nothing, wait)
    return _result(operation, into([output], copy_back, True), wait)


def start_gather(tensor: torch.Tensor, root_rank: int, is_root: bool, full_name: Name, wait: bool) -> Any:
    """All ranks' tensors along dimension 0 in memory that the root's ticket makes; None elsewhere."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _operation.submit(_abi.GATHER, full_name, [view_of(source)], None, kept(source), root=root_rank, wait=wait)
    return _result(operation, made_at_root(is_root), wait)


def start_scatter(
    tensor: torch.Tensor, root_rank: int, splits: Optional[Sequence[int]], full_name: Name, wait: bool
) -> Any:
    """This rank's rows of the root's tensor, in memory that the ticket makes."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _operation.submit(
        _abi.SCATTER, full_name, [view_of(source)], None, kept(source), root=root_rank, splits=splits, wait=wait
    )
    return _result(operation, made_by_ticket, wait)


def start_send(tensor: torch.Tensor, dst: int, tag: int, full_name: Name, wait: bool) -> Any:
    """Its result is None."""
    check(tensor, full_name)
    source = staged(tensor)
    operation = _operation.submit(_abi.SEND, full_name, [view_of(source)], None, kept(source), root=dst, tag=tag, wait=wait)
    return _result(operation, nothing, wait)


def start_recv(tensor: torch.Tensor, src: int, tag: int, full_name: Name, wait: bool) -> Any:
    """Fills the tensor; the result is the rank that sent."""
    check(tensor, full_name)
    buffer = staged(tensor)
    copy_back = copies_back([(tensor, buffer)], full_name)
    operation = _operation.submit(_abi.RECV, full_name, [view_of(buffer)], None, kept(buffer), root=src, tag=tag, wait=wait)
    return _result(operation, source_after(copy_back), wait)
