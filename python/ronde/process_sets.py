"""Process sets: groups of ranks within which operations can be done, each with a queue and names of its own.

    even = hvd.add_process_set([0, 2])              # every rank calls this, members or not
    if even.included():
        hvd.allreduce(tensor, process_set=even)
    hvd.remove_process_set(even)

Shared by all frameworks. Ranks add and remove the same sets in the same order; ranks that differ are told so, all alike.
"""

from __future__ import annotations

import ctypes
import weakref
from typing import Dict, List, Optional, Protocol, Sequence, Union

from ronde import _abi, _process
from ronde._lib import check, library
from ronde.exceptions import InvalidArgumentError

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


class ProcessSet:
    """A group of ranks of the job. Made from ranks, it can be used once it is registered: by ``init(process_sets=...)``
    or ``add_process_set``."""

    process_set_id: Optional[int] = None
    """By which the engine knows it; None while it is not registered (before ``init``, after its removal, after
    ``shutdown``). Counts from 1. Stands for the same ranks over all ``init`` of the process: a set that is added again has
    its id again, and no other set gets it."""
    ranks: Optional[List[int]] = None
    """Ascending; None where they are not known yet."""
    mpi_comm: None = None
    """There is none."""

    def __init__(self, ranks_or_comm: Sequence[int] = ()) -> None:
        """Of ``ranks_or_comm``: ranks of the job, in any order. Raises NotImplementedError for an MPI communicator:
        give its ranks."""
        if not isinstance(ranks_or_comm, (list, tuple, range, set, frozenset)):
            raise NotImplementedError(
                "a process set is made from a list of ranks; MPI communicators are not supported. Give the ranks that "
                "the communicator has in the job"
            )
        self.ranks = sorted(int(rank) for rank in ranks_or_comm)

    def size(self) -> Optional[int]:
        """How many ranks it has; None while it is not registered. Raises nothing."""
        if self.process_set_id is None or self.ranks is None:
            return None
        return len(self.ranks)

    def rank(self) -> Optional[int]:
        """This process's place among its ranks; None while it is not registered, or if this process is not in it.
        Raises nothing."""
        if self.process_set_id is None or self.ranks is None or not self.included():
            return None
        return self.ranks.index(_process.rank())

    def included(self) -> Optional[bool]:
        """Whether this process belongs to it; None while its ranks are not known, or before ``init``. Raises nothing.
        """
        if self.ranks is None or not _process.is_initialized():
            return None
        return _process.rank() in self.ranks

    def _invalidate(self) -> None:
        self.process_set_id = None

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"

    __repr__ = __str__


class _GlobalProcessSet(ProcessSet):
    """All ranks. It is always registered."""

    process_set_id = 0

    def __init__(self) -> None:
        self.ranks = None

    def size(self) -> Optional[int]:
        return _process.size() if _process.is_initialized() else None

    def rank(self) -> Optional[int]:
        return _process.rank() if _process.is_initialized() else None

    def included(self) -> Optional[bool]:
        return True if _process.is_initialized() else None

    def _invalidate(self) -> None:
        self.ranks = None


global_process_set = _GlobalProcessSet()
"""All ranks of the job: what operations take where no ``process_set`` is given. Always registered, with the id 0."""

#: Those registered, by id.
_sets: Dict[int, ProcessSet] = {}


class Follower(Protocol):
    """What ends with the job."""

    def end_with_job(self) -> None:
        """The job has ended; raises nothing."""


_followers: "weakref.WeakSet[Follower]" = weakref.WeakSet()


def add_process_set(process_set: Union[ProcessSet, Sequence[int]]) -> ProcessSet:
    """Registers a process set and returns it. Collective over all ranks of the job.

    Args:
        process_set: a set that is not registered, or ranks, of which one is made.

    Raises ValueError on every rank alike if there is one of the same ranks, if ranks are not of the job, or if the
    ranks of the job ask for different sets; NotImplementedError for an MPI communicator.
    """
    new = process_set if isinstance(process_set, ProcessSet) else ProcessSet(process_set)
    if new.process_set_id is not None:
        raise InvalidArgumentError(f"{new} has been added already", 1)
    ranks = new.ranks or []
    for other in [_as_known(global_process_set), *_sets.values()]:
        if other.ranks == ranks:
            raise InvalidArgumentError(f"a process set with the same ranks exists: {other}", 1)
    new.process_set_id = make_group(ranks)
    _sets[new.process_set_id] = new
    return new


def remove_process_set(process_set: ProcessSet) -> bool:
    """Removes ``process_set`` and returns True; False if it is the set of all ranks or not registered. Collective over all
    ranks of the job. Operations under way in it that not all its ranks have called fail. Raises ValueError on every rank
    alike if they remove different sets."""
    group = process_set.process_set_id
    if group is None or group == 0 or _sets.get(group) is not process_set:
        return False
    destroy_group(group)
    _sets.pop(group, None)
    process_set._invalidate()
    return True


def adopt_process_sets(process_sets: Sequence[ProcessSet]) -> None:
    """Makes these objects the ones by which registered sets are known: each takes the id of the set that has its ranks,
    and the object that had it before is as after a removal. Asks no other rank. ValueError, and nothing is changed, if
    no added set has the ranks of one, or if two have the same."""
    known = {tuple(each.ranks or []): group for group, each in _sets.items()}
    groups = []
    for each in process_sets:
        group = known.pop(tuple(each.ranks or []), None)
        if group is None:
            raise InvalidArgumentError(
                f"{each}: no process set with these ranks has been added, or another object in the list has it", 1
            )
        groups.append(group)
    for group, each in zip(groups, process_sets):
        _sets[group]._invalidate()
        _sets[group] = each
        each.process_set_id = group


def object_of(group: int) -> ProcessSet:
    """The process set with this id. ValueError if there is none."""
    if group == 0:
        return global_process_set
    if group not in _sets:
        raise InvalidArgumentError(f"there is no process set with the id {group}; there are {registered()}", 1)
    return _sets[group]


def make_group(ranks: Sequence[int]) -> int:
    """A group of these ranks in the engine, also if there is one of the same; its id. Collective over all ranks."""
    array = (ctypes.c_int32 * max(len(ranks), 1))(*ranks)
    group = ctypes.c_int32()
    call = library().ronde_group_create

    def create() -> None:
        check(call(None, array, len(ranks), ctypes.byref(group)))

    _process.interruptibly("ronde-add-process-set", create)
    return group.value


def destroy_group(group: int) -> None:
    """Ends a group of :func:`make_group`. Collective over all ranks."""
    call = library().ronde_group_destroy

    def destroy() -> None:
        check(call(None, group))

    _process.interruptibly("ronde-remove-process-set", destroy)


def group_of(process_set: ProcessSet) -> int:
    """The id by which the engine knows it. ValueError if it is not registered."""
    group = process_set.process_set_id
    if group is None:
        raise InvalidArgumentError(
            f"{process_set} is not registered: call add_process_set(...) on every rank, or give it to "
            "init(process_sets=[...]); shutdown and remove_process_set end a set",
            _abi.INVALID_ARGUMENT,
        )
    return group


def size_of(group: int) -> int:
    """How many ranks the set with this id has."""
    return _process.size() if group == 0 else len(_sets[group].ranks or [])


def rank_in(group: int) -> int:
    """This process's place in the set with this id, to which it belongs."""
    return _process.rank() if group == 0 else (_sets[group].ranks or []).index(_process.rank())


def added() -> List[ProcessSet]:
    """Those registered, in the order in which they were."""
    return list(_sets.values())


def registered() -> Dict[int, List[int]]:
    """The ranks of every set, by id, that of all ranks too."""
    known = {0: list(range(_process.size()))}
    known.update((group, list(each.ranks or [])) for group, each in sorted(_sets.items()))
    return known


def begin_job(process_sets: Union[None, str, Sequence[Union[ProcessSet, Sequence[int]]]] = None) -> None:
    """After init: registers the sets given to it. ``"dynamic"`` needs nothing: sets can be added at any time."""
    end_job()
    _as_known(global_process_set)
    if process_sets is None or process_sets == "dynamic":
        return
    if isinstance(process_sets, str):
        raise InvalidArgumentError(f'process_sets is a list of process sets or "dynamic", not {process_sets!r}', 1)
    for each in process_sets:
        add_process_set(each)


def follow_job(follower: Follower) -> None:
    """``follower.end_with_job()`` is called after the job's end, if it lives then."""
    _followers.add(follower)


def end_job() -> None:
    """After shutdown: none is registered any more."""
    for follower in list(_followers):
        follower.end_with_job()
    _followers.clear()
    for each in _sets.values():
        each._invalidate()
    _sets.clear()
    global_process_set._invalidate()


def _as_known(everybody: ProcessSet) -> ProcessSet:
    everybody.ranks = list(range(_process.size()))
    return everybody
