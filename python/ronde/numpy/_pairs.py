"""Messages between two ranks: send and recv. Part of :mod:`ronde.numpy`.

They meet by rank and tag, not by name: the recvs of a tag take what a rank sends under it in the order of its sends. A
send is done when the receiver has the data, so two ranks that both wait in ``send`` wait for each other until the time
limit: one of them must ``recv`` first, or both use the asynchronous forms. Collectives under way neither hold them up
nor wait for them.
"""

from __future__ import annotations

from typing import Any, Optional

from ronde import _abi, _names, _operation
from ronde._handle import Handle, nothing
from ronde.numpy._arrays import is_plain, source, target, view_of
from ronde.numpy._calls import result
from ronde.numpy._results import source_after
from ronde.process_sets import ProcessSet, global_process_set, group_of


def _start_send(value: Any, dst: int, tag: int, name: Optional[str], process_set: ProcessSet, wait: bool) -> Any:
    full = _names.name_of_pair("send", name, group_of(process_set))
    array = source(value, full)
    operation = _operation.submit(_abi.SEND, full, [view_of(array)], None, array, root=dst, tag=tag, wait=wait)
    return result(operation, nothing, wait)


def _start_recv(
    value: Any, src: Optional[int], tag: int, name: Optional[str], process_set: ProcessSet, wait: bool
) -> Any:
    full = _names.name_of_pair("recv", name, group_of(process_set))
    given = target(value, full)
    array = given if is_plain(given) else given.copy(order="C")
    root = _abi.ANY_SOURCE if src is None else src
    operation = _operation.submit(_abi.RECV, full, [view_of(array)], None, array, root=root, tag=tag, wait=wait)
    return result(operation, source_after([] if array is given else [(given, array)]), wait)


def send(
    array: Any, dst: int, tag: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> None:
    """Sends an array to another rank and returns when that rank has it.

    Args:
        array: of any shape; the type and the number of elements are those of the receiver's.
        dst: a rank of the job other than this one, else ValueError.
        tag: any number of 32 bits.
        name: for reports on this rank only.
        process_set: whose ranks both are.

    Raises ValueError if the call is wrong; CollectiveError if the work fails: MismatchError (on both ranks) where the
    recv is of another type or number of elements, and what :func:`ronde.numpy.synchronize` lists.
    """
    _start_send(array, dst, tag, name, process_set, wait=True)


def send_async(
    array: Any, dst: int, tag: int = 0, name: Optional[str] = None, process_set: ProcessSet = global_process_set
) -> Handle[None]:
    """Begins :func:`send` and returns at once. The array must not be changed before ``synchronize(handle)``, which
    returns None. Raises as :func:`send`."""
    handle: Handle[None] = _start_send(array, dst, tag, name, process_set, wait=False)
    return handle


def recv(
    array: Any,
    src: Optional[int] = None,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> int:
    """Fills an array with what another rank sends, and returns that rank.

    Args:
        array: of the sent array's type and number of elements.
        src: a rank of the job other than this one; None: whichever sends first.
        tag: the sender's.
        name: for reports on this rank only.
        process_set: whose ranks both are.

    Raises as :func:`send`.
    """
    sender: int = _start_recv(array, src, tag, name, process_set, wait=True)
    return sender


def recv_async(
    array: Any,
    src: Optional[int] = None,
    tag: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Handle[int]:
    """Begins :func:`recv` and returns at once. The array must be neither read nor changed before
    ``synchronize(handle)``, which returns the rank that sent. Raises as :func:`send`."""
    handle: Handle[int] = _start_recv(array, src, tag, name, process_set, wait=False)
    return handle
