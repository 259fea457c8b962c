"""Python objects sent from one rank to all, or gathered, with Horovod's arguments for TensorFlow.

What is sent is no tensor of TensorFlow, so these work at once in eager mode, while a function is traced, and where graphs of
``tf.compat.v1`` are built.
"""

from __future__ import annotations

from typing import Any, Callable, List, Optional

from ronde import _objects
from ronde.process_sets import ProcessSet, global_process_set

__all__ = ["allgather_object", "broadcast_object", "broadcast_object_fn"]


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

    The object travels pickled, between processes that have proved the job's key to each other. Raises what pickle does for
    an object that cannot be, on the root, and CollectiveError on the others; else as :func:`ronde.tensorflow.allreduce`.
    """
    del session
    return _objects.broadcast_object(obj, root_rank, name, process_set)


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
    return _objects.allgather_object(obj, name, process_set)
