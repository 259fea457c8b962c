"""Messages between two ranks: send and recv.

They meet by rank and tag, not by name: the recvs of a tag take what a rank sends under it in the order of its sends. A
send is done when the receiver has the data, so two ranks that both wait in ``send`` wait for each other until the time
limit: one of them must ``recv`` first, or both use the asynchronous forms. Collectives under way neither hold them up
nor wait for them. None is differentiable.
"""

from __future__ import annotations

from typing import Optional

import torch

from ronde import _abi, _names
from ronde._handle import Handle
from ronde.torch._start import start_recv, start_send
from ronde.torch.process_sets import ProcessSet, global_process_set, group_of

__all__ = ["recv", "recv_async", "send", "send_async"]


def send(
    tensor: torch.Tensor,
    dst: int,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> None:
    """Sends a tensor to another rank and returns when that rank has it.

    Args:
        tensor: of any shape; the type and the number of elements are those of the receiver's.
        dst: a rank of the job other than this one, else ValueError.
        tag: any number of 32 bits.
        name: for reports on this rank only.
        process_set: whose ranks both are.

    Raises ValueError if the call is wrong; CollectiveError if the work fails: MismatchError (on both ranks) where the
    recv is of another type or number of elements, and what :func:`ronde.torch.synchronize` lists.
    """
    group = group_of(process_set)
    start_send(tensor, dst, tag, _names.name_of_pair("send", name, group), wait=True)


def send_async(
    tensor: torch.Tensor,
    dst: int,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[None]:
    """Begins :func:`send` and returns at once. The tensor must not be changed before ``synchronize(handle)``, which
    returns None. Raises as :func:`send`."""
    group = group_of(process_set)
    handle: Handle[None] = start_send(tensor, dst, tag, _names.name_of_pair("send", name, group), wait=False)
    return handle


def recv(
    tensor: torch.Tensor,
    src: Optional[int] = None,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Fills a tensor with what another rank sends, and returns that rank.

    Args:
        tensor: of the sent tensor's type and number of elements.
        src: a rank of the job other than this one; None: whichever sends first.
        tag: the sender's.
        name: for reports on this rank only.
        process_set: whose ranks both are.

    Raises as :func:`send`.
    """
    group = group_of(process_set)
    source = _abi.ANY_SOURCE if src is None else src
    result: int = start_recv(tensor, source, tag, _names.name_of_pair("recv", name, group), wait=True)
    return result


def recv_async(
    tensor: torch.Tensor,
    src: Optional[int] = None,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[int]:
    """Begins :func:`recv` and returns at once. The tensor must be neither read nor changed before
    ``synchronize(handle)``, which returns the rank that sent. Raises as :func:`send`."""
    group = group_of(process_set)
    source = _abi.ANY_SOURCE if src is None else src
    handle: Handle[int] = start_recv(tensor, source, tag, _names.name_of_pair("recv", name, group), wait=False)
    return handle
