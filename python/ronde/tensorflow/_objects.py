"""Python objects sent from one rank to all, or gathered. They travel pickled, between processes of one job only, which have
proved the job's key to each other before anything is read. cloudpickle is used where it is installed.

What is sent is no tensor of TensorFlow, so these work at once in eager mode, while a function is traced, and where graphs of
``tf.compat.v1`` are built.
"""

from __future__ import annotations

import ctypes
import pickle
from typing import Any, Callable, List, Optional, Tuple

from ronde import _abi, _operation, _process
from ronde._calls import in_group
from ronde.exceptions import MismatchError
from ronde.tensorflow.process_sets import ProcessSet, global_process_set, group_of

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn"]

_LENGTH_BYTES = 8


def _pickler_module() -> Any:
    try:
        import cloudpickle

        return cloudpickle
    except ImportError:
        return pickle


def _memory(content: bytes) -> Any:
    return (ctypes.c_uint8 * len(content)).from_buffer_copy(content)


def _broadcast(content: bytes, length: int, root_rank: int, name: str) -> bytes:
    memory = _memory(content.ljust(length, b"\0"))
    view = (ctypes.addressof(memory), (length,), _abi.UINT8)
    _operation.submit(_abi.BROADCAST, name, [view], None, memory, root=root_rank, wait=True).release()
    return bytes(memory)


def _gather(content: bytes, name: str) -> bytes:
    memory = _memory(content)
    view = (ctypes.addressof(memory), (len(content),), _abi.UINT8)
    operation = _operation.submit(_abi.ALLGATHER, name, [view], None, memory, wait=True)
    output = operation.output()
    gathered = ctypes.string_at(output.address, output.shape[0]) if output.shape[0] else b""
    operation.release()
    return gathered


def _made(make: Callable[[], bytes]) -> Tuple[Optional[Exception], bytes]:
    try:
        return None, make()
    except Exception as error:
        return error, f"{type(error).__name__}: {error}".encode(errors="replace")


def _not_sent(name: str, rank: int, why: bytes) -> MismatchError:
    text = why.decode(errors="replace")
    return MismatchError(f"'{name}': rank {rank} could not send its object: {text}", 5, rank=rank, tensor=name)


def _as_length(length: int) -> bytes:
    return length.to_bytes(_LENGTH_BYTES, "little", signed=True)


def _length_from(content: bytes) -> int:
    return int.from_bytes(content, "little", signed=True)


def broadcast_object(
    obj: Any = None,
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Returns rank ``root_rank``'s object on every rank: a copy, on the root the object itself.

    Args:
        obj: on the root what is sent; its class must be importable on every rank. Not read elsewhere.
        root_rank: a rank of the job, the same on every rank.
        session: accepted for compatibility: none is needed.
        name: by which the ranks meet. Calls in several threads at once need one each.
        process_set: the ranks that take part, the root and this one among them.

    Raises what pickle does for an object that cannot be, on the root, and CollectiveError on the others; else as
    :func:`ronde.tensorflow.allreduce`.
    """
    del session
    full_name = in_group(group_of(process_set), f"broadcast_object.{name or 'object'}")
    lengths = in_group(group_of(process_set), f"{full_name}.length")
    if _process.rank() == root_rank:
        # The complement of its length goes with the text of an error: the others must not wait for an object.
        error, data = _made(lambda: bytes(_pickler_module().dumps(obj)))
        length = len(data) if error is None else ~len(data)
        _broadcast(_as_length(length), _LENGTH_BYTES, root_rank, lengths)
        _broadcast(data, len(data), root_rank, full_name)
        if error is not None:
            raise error
        return obj
    length = _length_from(_broadcast(b"", _LENGTH_BYTES, root_rank, lengths))
    data = _broadcast(b"", length if length >= 0 else ~length, root_rank, full_name)
    if length < 0:
        raise _not_sent(full_name, root_rank, data)
    return pickle.loads(data)


def broadcast_object_fn(
    root_rank: int = 0,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> Callable[[Any], Any]:
    """A function of an object that does what :func:`broadcast_object` does with these arguments: ``root_rank``,
    ``session``, ``name`` and ``process_set``. Raises nothing itself."""
    return lambda obj: broadcast_object(obj, root_rank, session, name, process_set)


def allgather_object(
    obj: Any,
    session: Any = None,
    name: Optional[str] = None,
    process_set: ProcessSet = global_process_set,
) -> List[Any]:
    """Returns the ranks' objects in a list, in rank order: copies, this rank's own too.

    Args:
        obj: this rank's; its class must be importable on every rank.
        session: accepted for compatibility: none is needed.
        name: by which the ranks meet. Calls in several threads at once need one each.
        process_set: the ranks that take part; this one must be among them.

    Raises what pickle does for an object that cannot be, on that rank, and CollectiveError on the others; else as
    :func:`ronde.tensorflow.allreduce`.
    """
    del session
    full_name = in_group(group_of(process_set), f"allgather_object.{name or 'object'}")
    error, data = _made(lambda: bytes(_pickler_module().dumps(obj)))
    own = len(data) if error is None else ~len(data)
    lengths = _gather(_as_length(own), in_group(group_of(process_set), f"{full_name}.length"))
    everything = _gather(data, full_name)
    if error is not None:
        raise error
    objects = []
    first = 0
    for index in range(len(lengths) // _LENGTH_BYTES):
        length = _length_from(lengths[index * _LENGTH_BYTES : (index + 1) * _LENGTH_BYTES])
        end = first + (length if length >= 0 else ~length)
        if length < 0:
            rank = index if process_set.ranks is None else process_set.ranks[index]
            raise _not_sent(full_name, rank, everything[first:end])
        objects.append(pickle.loads(everything[first:end]))
        first = end
    return objects
