"""Results have the same bits on every rank whatever floating-point state the ranks' threads have."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group

#: Numbers that are denormal in float32, or whose sums, averages or products are.
NUMBERS = [1e-40, 3e-39, 1.2e-38, -1.1e-38, 1.5e-38, 1e-45, 1.0]


@pytest.fixture(autouse=True)
def restored():
    yield
    torch.set_flush_denormal(False)


def mine(rank, dtype=torch.float32):
    return torch.tensor(NUMBERS, dtype=dtype) * (rank + 1)


def all_ways(hvd, rank, world):
    """The results of each operation that does arithmetic, as bits."""
    inputs = mine(rank)  # made before the state is set: what a rank puts in is its own
    large = inputs.repeat(20000)
    sparse = torch.sparse_coo_tensor([[0, 1, 2, 3, 4, 5, 6]], inputs, (9,))
    many = torch.sparse_coo_tensor(torch.arange(len(large)).unsqueeze(0), large, (len(large),))
    torch.set_flush_denormal(rank == 0)
    results = []
    for tensor in (inputs, large):
        for op in (hvd.Average, hvd.Sum, hvd.Product, hvd.Min, hvd.Max, hvd.Adasum):
            if op != hvd.Adasum or world & (world - 1) == 0:
                results.append(hvd.allreduce(tensor, op=op))
        results.append(hvd.allreduce(tensor, op=hvd.Sum, prescale_factor=0.25, postscale_factor=0.5))
        results += hvd.grouped_allreduce([tensor, tensor], op=hvd.Average)
        rows = hvd.reducescatter(tensor.repeat(world), op=hvd.Average)
        results.append(hvd.allgather(rows))
    for tensor in (sparse, many):
        for op in (hvd.Average, hvd.Sum):
            results.append(hvd.sparse_allreduce_async(tensor, op=op)().values())
    with default_group(rank, world):
        for op in (dist.ReduceOp.SUM, dist.ReduceOp.AVG):
            dense, other = inputs.clone(), sparse.clone()
            dist.all_reduce(dense, op=op)
            dist.all_reduce(other, op=op)
            results += [dense, other.coalesce().values()]
    torch.set_flush_denormal(False)
    return [result.view(torch.int32) for result in results]


@pytest.mark.ranks(2, 3)
def test_a_rank_that_flushes_denormals(hvd, rank, world):
    for number, bits in enumerate(all_ways(hvd, rank, world)):
        everywhere = hvd.allgather(bits.unsqueeze(0))
        for other in range(1, world):
            assert torch.equal(everywhere[0], everywhere[other]), number


@pytest.mark.ranks(2)
def test_the_state_is_the_programs_own_after_a_call(hvd, rank):
    for flushes in (True, False):
        tensor = mine(rank)
        sparse = torch.sparse_coo_tensor([[0, 1, 2, 3, 4, 5, 6]], tensor, (9,))
        torch.set_flush_denormal(flushes)
        hvd.allreduce(tensor)
        hvd.sparse_allreduce_async(sparse)()
        product = torch.tensor([1e-20]) * torch.tensor([1e-20])
        assert (product.item() == 0.0) == flushes


@pytest.mark.ranks(2)
def test_denormals_are_kept(hvd, rank):
    torch.set_flush_denormal(True)
    found = hvd.allreduce(torch.tensor([3], dtype=torch.int32).view(torch.float32), op=hvd.Sum)
    assert found.view(torch.int32).item() == 6
