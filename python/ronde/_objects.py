"""Python objects sent from one rank to all, or gathered. Shared by all frameworks.

Objects travel pickled, between the processes of one job only: they have proved the job's key to each other before
anything is read. cloudpickle is used where it is installed, since it knows lambdas and local classes too.
"""

from __future__ import annotations

import ctypes
import pickle
from ctypes import addressof, c_int64, c_uint8
from typing import Any, Callable, List, Optional, Tuple, Union

from ronde import _abi, _names, _operation, _process
from ronde.exceptions import MismatchError
from ronde.process_sets import ProcessSet, global_process_set, group_of

__all__ = ["allgather_object", "broadcast_bytes", "broadcast_object"]


def _pickler_module() -> Any:
    try:
        import cloudpickle

        return cloudpickle
    except ImportError:
        return pickle


def _broadcast(memory: Any, dtype: int, root_rank: int, name: str, group: int) -> None:
    """Fills a ctypes array with the root's."""
    view = (addressof(memory), (len(memory),), dtype)
    full_name = _names.name_of("broadcast", name, group)
    _operation.submit(_abi.BROADCAST, full_name, [view], [view[0]], memory, root=root_rank, wait=True).release()


def _gather(memory: Any, dtype: int, element: Any, name: str, group: int) -> Any:
    """All ranks' elements of a ctypes array, as another one."""
    view = (addressof(memory), (len(memory),), dtype)
    full_name = _names.name_of("allgather", name, group)
    operation = _operation.submit(_abi.ALLGATHER, full_name, [view], None, memory, wait=True)
    output = operation.output()
    gathered = (element * output.shape[0])()
    ctypes.memmove(gathered, output.address, ctypes.sizeof(gathered))
    operation.release()
    return gathered


def _array(data: bytes) -> Any:
    return (c_uint8 * len(data)).from_buffer_copy(data)


def broadcast_bytes(
    make: Callable[[], bytes], root_rank: int, name: str, process_set: ProcessSet = global_process_set
) -> bytes:
    """What ``make`` returns on the root. If it raises there, the others are told: else they would take the root's next
    message under this name for this one. Its text then travels, under the complement of its length."""
    group = group_of(process_set)
    length = (c_int64 * 1)()
    if _process.rank() == root_rank:
        error, data = _made(make)
        length[0] = len(data) if error is None else ~len(data)
        _broadcast(length, _abi.INT64, root_rank, name + ".sz", group)
        _broadcast(_array(data), _abi.UINT8, root_rank, name, group)
        if error is not None:
            raise error
        return data
    _broadcast(length, _abi.INT64, root_rank, name + ".sz", group)
    said = length[0]
    received = (c_uint8 * (said if said >= 0 else ~said))()
    _broadcast(received, _abi.UINT8, root_rank, name, group)
    if said < 0:
        raise _not_sent(name, root_rank, bytes(received))
    return bytes(received)


def _made(make: Callable[[], bytes]) -> Tuple[Optional[Exception], bytes]:
    try:
        return None, make()
    except Exception as error:
        return error, f"{type(error).__name__}: {error}".encode(errors="replace")


def _not_sent(name: str, rank: int, why: Union[bytes, memoryview]) -> MismatchError:
    text = bytes(why).decode(errors="replace")
    return MismatchError(f"'{name}': rank {rank} could not send its object: {text}", 5, rank=rank, tensor=name)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns rank ``root_rank``'s object on every rank: a copy, on the root the object itself.

    Args:
        obj: on the root what is sent; its class must be importable on every rank. Not read elsewhere.
        root_rank: a rank of the job, the same on every rank.
        name: by which the ranks meet. Calls in several threads at once need one each.
        process_set: the ranks that take part, the root and this one among them.

    The object travels pickled, between processes that have proved the job's key to each other. Raises what pickle does for
    an object that cannot be, on the root, and CollectiveError on the others; ValueError if the call is wrong;
    CollectiveError if the work fails.
    """
    if name is None:
        name = "broadcast_object"
    is_root = _process.rank() == root_rank
    data = broadcast_bytes(lambda: _pickler_module().dumps(obj), root_rank, name, process_set)
    return obj if is_root else pickle.loads(data)


def allgather_object(obj: Any, name: Optional[str] = None, process_set: ProcessSet = global_process_set) -> List[Any]:
    """Returns the ranks' objects in a list, in rank order: copies, this rank's own too.

    Args:
        obj: this rank's; its class must be importable on every rank.
        name: by which the ranks meet. Calls in several threads at once need one each.
        process_set: the ranks that take part; this one must be among them.

    Objects travel pickled, between processes that have proved the job's key to each other. Raises what pickle does for an
    object that cannot be, on that rank, and CollectiveError on the others; ValueError if the call is wrong;
    CollectiveError if the work fails.
    """
    if name is None:
        name = "allgather_object"
    group = group_of(process_set)
    error, data = _made(lambda: _pickler_module().dumps(obj))
    own = len(data) if error is None else ~len(data)
    lengths = list(_gather((c_int64 * 1)(own), _abi.INT64, c_int64, name + ".sz", group))
    gathered = _gather(_array(data), _abi.UINT8, c_uint8, name, group)
    if error is not None:
        raise error
    everything = memoryview(gathered).cast("B")
    objects = []
    first = 0
    for index, length in enumerate(lengths):
        if length < 0:
            rank = index if process_set.ranks is None else process_set.ranks[index]
            raise _not_sent(name, rank, everything[first : first + ~length])
        objects.append(pickle.loads(everything[first : first + length]))
        first += length
    return objects
