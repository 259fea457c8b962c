"""Who a rank is, process sets, join and barrier, the timeline: of ``horovod.torch``, ``horovod.torch.mpi_ops`` and
``HorovodBasics`` alike."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Dict, List

import torch
from all_of_horovod_expect import raises
from all_of_horovod_names import Watched
from all_of_horovod_reference import check, numbers, tensor_of

TOPOLOGY = ["rank", "size", "local_rank", "local_size", "cross_rank", "cross_size"]
NUMBERS_OF_OPERATIONS = {"Average": 0, "Sum": 1, "Adasum": 2, "Min": 3, "Max": 4, "Product": 5}


def check_who(owner: Any) -> None:
    """The launcher's variables say it too. The job goes without MPI, and NCCL is not there."""
    assert owner.is_initialized() is True
    for question in TOPOLOGY:
        assert getattr(owner, question)() == int(os.environ[f"HOROVOD_{question.upper()}"]), question
    assert owner.is_homogeneous() is True
    assert owner.mpi_built() is owner.ccl_built() is True
    for question in ("ddl", "cuda", "rocm"):
        assert getattr(owner, f"{question}_built")() is False
    for question in ("mpi_enabled", "mpi_threads_supported"):
        assert getattr(owner, question)() is False
    assert owner.gloo_built() is True and owner.gloo_enabled() is True
    assert owner.nccl_built() == 0 and isinstance(owner.nccl_built(), int)
    for operation, number in NUMBERS_OF_OPERATIONS.items():
        assert getattr(owner, operation) == number


def check_without_a_job(owner: Any, folder: Path) -> None:
    """Each question is a ValueError that says what to do."""
    assert owner.is_initialized() is False
    questions = [*TOPOLOGY, "is_homogeneous", "mpi_threads_supported", "stop_timeline"]
    for question in questions:
        with raises(ValueError, "call init"):
            getattr(owner, question)()
    with raises(ValueError, "call init"):
        owner.start_timeline(str(folder / "never.json"))
    assert not (folder / "never.json").exists()


def check_life(owner: Any) -> None:
    """init() again does nothing; after shutdown() it joins anew."""
    before = owner.rank()
    owner.init()
    assert owner.rank() == before
    owner.shutdown()
    assert owner.is_initialized() is False
    owner.shutdown()
    owner.init(process_sets="dynamic")
    assert owner.is_initialized() is True and owner.rank() == before


def check_sets_of_init(hvd: Any) -> None:
    """They last until shutdown()."""
    hvd.shutdown()
    own = hvd.ProcessSet([0])
    assert own.process_set_id is None and own.included() is None and own.size() is None
    with raises(ValueError, "same ranks"):
        hvd.init(process_sets=[hvd.ProcessSet([0]), hvd.ProcessSet([0])])
    several = int(os.environ["HOROVOD_SIZE"]) > 1  # alone it would be the set of all ranks
    hvd.init(process_sets=[own] if several else None)
    assert hvd.global_process_set.ranks == list(range(hvd.size()))
    if several:
        assert own.included() == (hvd.rank() == 0) and own.size() == 1
        if own.included():
            check(hvd.allreduce(torch.ones(2), process_set=own), [1, 1], "in a set given to init")
    hvd.shutdown()
    assert own.process_set_id is None
    hvd.init()


def some_ranks(size: int) -> List[int]:
    """Of every job with more than one rank not all, and in a large one not neighbours."""
    return [1] if size == 2 else list(range(0, size, 2))


def watched_set(process_set: Any) -> Watched:
    """The process set, to be asked."""
    return Watched("horovod.common.process_sets:ProcessSet", process_set)


def check_process_sets(owner: Any, rank: int, size: int) -> None:
    """Made from ranks or from an object, used, and removed."""
    everybody = watched_set(owner.global_process_set)
    assert everybody.process_set_id == 0 and everybody.ranks == list(range(size)) and everybody.mpi_comm is None
    assert everybody.included() is True and everybody.size() == size and everybody.rank() == rank
    assert owner.remove_process_set(owner.global_process_set) is False
    unused = watched_set(owner.ProcessSet([0]))
    unused._invalidate()
    assert unused.process_set_id is None and unused.ranks == [0]
    with raises(ValueError, "same ranks"):
        owner.add_process_set(range(size))
    if size == 1:
        return
    ranks = some_ranks(size)
    for form in (ranks, owner.ProcessSet(list(reversed(ranks)))):
        made = owner.add_process_set(form)
        seen = watched_set(made)
        assert seen.ranks == ranks and seen.size() == len(ranks) and seen.included() == (rank in ranks)
        assert seen.rank() == (ranks.index(rank) if rank in ranks else None)
        assert str(ranks) in str(made) and seen.process_set_id > 0
        with raises(ValueError, "same ranks"):
            owner.add_process_set(ranks)
        assert owner.remove_process_set(made) is True
        assert owner.remove_process_set(made) is False and made.process_set_id is None


class Communicator:
    """What of an mpi4py communicator is asked for."""

    def __init__(self, ranks: List[int]) -> None:
        self.ranks = ranks

    def allgather(self, mine: int) -> List[int]:
        """Every rank's; here known before."""
        assert mine in self.ranks
        return self.ranks


def check_hooks(basics: Any, sets: Any, rank: int, size: int) -> None:
    """What bindings of Horovod and its tests call of ``HorovodBasics`` and ``horovod.common.process_sets``."""
    sets._setup(basics)
    assert basics._get_process_set_ids_and_ranks() == {0: list(range(size))}
    assert basics._process_set_rank(0) == rank and basics._process_set_size(0) == size
    assert basics._comm_process_set_id(Communicator(list(range(size)))) == 0
    assert sets._temp_process_set_object(0) is sets.global_process_set
    mine = sets.ProcessSet(some_ranks(size))
    if size == 1:  # there can be none but that of all ranks
        with raises(ValueError, "same ranks"):
            basics._add_process_set_impl(mine.ranks)
        with raises(ValueError, "no process set with these ranks"):
            sets._init_process_sets([mine])
        assert basics._remove_process_set_impl(1) == -3
        return
    group = basics._add_process_set_impl(mine.ranks)
    assert basics._get_process_set_ids_and_ranks() == {0: list(range(size)), group: mine.ranks}
    assert basics._process_set_size(group) == len(mine.ranks)
    sets._init_process_sets([mine])
    assert mine.process_set_id == group and sets._temp_process_set_object(group) is mine
    if rank in mine.ranks:
        assert basics._process_set_rank(group) == mine.ranks.index(rank)
    assert basics._remove_process_set_impl(group) == group
    assert basics._remove_process_set_impl(group) == -3


def check_waiting(ops: Any, rank: int, size: int, where: Any) -> None:
    """A barrier, of all and of some; ranks that join while others go on: the last of them is told."""
    ops.barrier()
    ops.barrier(process_set=where)
    for step in range(rank + 1):
        going_on = [each for each in range(size) if each >= step]
        expected = sum(numbers(each) for each in going_on)
        check(ops.allreduce(tensor_of(numbers(rank)), op=ops.Sum, name="all.join"), expected, "an uneven step")
    assert ops.join() == size - 1
    assert ops.join(device=-1) in range(size)


def check_timeline(owner: Any, ops: Any, file: Path, rank: int) -> None:
    """One is written at a time, with what was done meanwhile; ``file`` is this rank's own."""
    with raises(ValueError, "timeline"):
        owner.stop_timeline()
    owner.start_timeline(str(file), mark_cycles=True)
    with raises(ValueError, "already"):
        owner.start_timeline(str(file))
    ops.allreduce(torch.ones(3), name=f"all.{file.stem}")
    owner.stop_timeline()
    written = file if rank == 0 else file.with_name(f"{file.name}.{rank}")
    events: List[Dict[str, Any]] = json.loads(written.read_text(encoding="utf-8"))
    assert f"allreduce.all.{file.stem}" in [event.get("args", {}).get("name") for event in events]
    assert {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "CYCLE_START"} <= {event.get("name") for event in events}


def check_errors(hvd: Any, exceptions: Any, rank: int, size: int) -> None:
    """Ranks that disagree are told so all alike, and go on."""
    assert hvd.HorovodInternalError is exceptions.HorovodInternalError
    assert issubclass(hvd.HorovodInternalError, RuntimeError)
    if size > 1:
        with raises(hvd.HorovodInternalError, "all.shape"):
            hvd.allreduce(torch.ones(1 + min(rank, 1)), name="all.shape")
    first = hvd.allreduce_async(torch.ones(2), name="all.twice", op=hvd.Sum)
    with raises(ValueError, "all.twice"):
        hvd.allreduce_async(torch.ones(2), name="all.twice")
    check(hvd.synchronize(first), [size, size], "the first of two with one name")
    assert hvd.synchronize(first) is None
    interrupt = exceptions.HostsUpdatedInterrupt(skip_sync=True)
    assert isinstance(interrupt, RuntimeError) and interrupt.skip_sync is True
    mismatch = exceptions.HorovodVersionMismatchError("torch", "1.0", "2.0")
    assert isinstance(mismatch, ImportError)
    assert (mismatch.name, mismatch.version, mismatch.installed_version) == ("torch", "1.0", "2.0")
    assert str(mismatch) == exceptions.get_version_mismatch_message("torch", "1.0", "2.0")
