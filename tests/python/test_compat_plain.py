"""What scripts pass besides tensors: numbers, lists, an empty list as a barrier; old spellings; HorovodBasics."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.ranks(1, 2, 3)
def test_numbers_and_lists(hvd, rank, world):
    total = world * (world - 1) // 2
    assert hvd.allreduce(rank, op=hvd.Sum).item() == total
    mean = hvd.allreduce(float(rank), average=True, name="loss")
    assert mean.shape == () and mean.item() == pytest.approx(total / world)
    assert hvd.allreduce([1.0, rank], op=hvd.Sum).tolist() == [world, total]
    assert hvd.synchronize(hvd.allreduce_async([[1, 2], [3, rank]], op=hvd.Max)).tolist() == [[1, 2], [3, world - 1]]
    assert hvd.allgather(rank).tolist() == list(range(world))
    assert hvd.allgather([rank] * (rank + 1)).shape == (world * (world + 1) // 2,)
    assert hvd.broadcast(rank + 5, root_rank=world - 1).item() == world + 4
    assert hvd.broadcast([rank, 0.5], root_rank=0).tolist() == [0, 0.5]


@pytest.mark.ranks(2, 3)
def test_an_empty_list_is_a_barrier(hvd, rank, world, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() if rank == 0 else None
    folder = hvd.broadcast_object(folder)
    (folder / f"before.{world}.{rank}").touch()
    assert hvd.allreduce([], name="barrier").numel() == 0
    assert all((folder / f"before.{world}.{other}").exists() for other in range(world))


@pytest.mark.ranks(2)
def test_old_spellings(hvd):
    with pytest.warns(DeprecationWarning, match="average="):
        assert hvd.allreduce(torch.ones(2), average=False).tolist() == [2, 2]
    with pytest.raises(ValueError, match="not both"):
        hvd.allreduce(torch.ones(2), average=True, op=hvd.Sum)
    with pytest.raises(ValueError, match="expected a torch.Tensor, got str"):
        hvd.allreduce("loss")
    with pytest.raises(ValueError, match="expected a torch.Tensor, got list"):
        hvd.allreduce_([1.0])


@pytest.mark.ranks(2, 3)
def test_process_sets_of_basics(hvd, rank, world):
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics(__file__, "mpi_lib_v2")
    everyone = {0: list(range(world))}
    assert basics._get_process_set_ids_and_ranks() == everyone
    last = basics._add_process_set_impl([world - 1])
    assert basics._get_process_set_ids_and_ranks() == {**everyone, last: [world - 1]}
    assert basics._process_set_size(last) == 1 and basics._process_set_rank(0) == rank
    assert basics._remove_process_set_impl(last) == last
    assert basics._remove_process_set_impl(last) == -3 and basics._get_process_set_ids_and_ranks() == everyone
    with pytest.raises(NotImplementedError, match="comm"):
        basics.init(comm="a communicator")


class Communicator:
    """What of mpi4py's is asked for: here its ranks are some of the job's, in an order of their own."""

    def __init__(self, ranks):
        self.ranks = ranks

    def allgather(self, mine):
        assert mine in self.ranks
        return self.ranks


@pytest.mark.ranks(2, 3)
def test_hooks_of_bindings(hvd, rank, world):
    from horovod.common import process_sets
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics(__file__, "mpi_lib_v2")
    process_sets._setup(basics)
    with pytest.raises(TypeError, match="_setup takes a HorovodBasics, not str"):
        process_sets._setup("mpi_lib_v2")
    assert process_sets._temp_process_set_object(0) is hvd.global_process_set
    group = basics._add_process_set_impl([world - 1])
    unnamed = process_sets._temp_process_set_object(group)
    mine, twin = hvd.ProcessSet([world - 1]), hvd.ProcessSet([world - 1])
    for wrong in ([mine, twin], [mine, hvd.ProcessSet([0])]):
        with pytest.raises(ValueError, match="no process set with these ranks has been added"):
            process_sets._init_process_sets(wrong)
        assert mine.process_set_id is None and unnamed.process_set_id == group, "nothing was changed"
    process_sets._init_process_sets([mine])
    process_sets._init_process_sets([mine])
    assert (mine.process_set_id, unnamed.process_set_id) == (group, None)
    assert process_sets._temp_process_set_object(group) is mine
    if rank == world - 1:
        assert hvd.allreduce(torch.ones(2), op=hvd.Sum, process_set=mine).tolist() == [1.0, 1.0]
        assert basics._comm_process_set_id(Communicator([rank])) == group
    elif world == 3:
        assert basics._comm_process_set_id(Communicator([1, 0])) == -3, "no set has these ranks"
    assert basics._comm_process_set_id(Communicator(list(reversed(range(world))))) == 0
    assert hvd.remove_process_set(mine) is True
    with pytest.raises(ValueError, match=f"no process set with the id {group}"):
        process_sets._temp_process_set_object(group)


@pytest.mark.ranks(2)
def test_a_number_goes_compressed(hvd, world):
    assert hvd.allreduce(0.5, op=hvd.Sum, compression=hvd.Compression.fp16).item() == 0.5 * world
