"""Sparse tensors in all_reduce over the backend ronde, and DDP of embeddings with sparse gradients, against Gloo."""

from __future__ import annotations

from typing import Any, List

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distributed_group import default_group
from ronde.exceptions import RondeError

Op = dist.ReduceOp


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


def sparse(rank: int, dtype: torch.dtype, entries: int, dense: tuple[int, ...] = ()) -> torch.Tensor:
    """With places that other ranks have too, and one that comes twice."""
    seed = torch.Generator().manual_seed(7 + rank)
    indices = torch.randint(0, 6, (2, entries), generator=seed)
    if entries > 1:
        indices[:, -1] = indices[:, 0]
    values = (100 * torch.randn(entries, *dense, generator=seed)).to(dtype)
    return torch.sparse_coo_tensor(indices, values, (6, 8, *dense))


def reduced(tensor: torch.Tensor, **settings: Any) -> torch.Tensor:
    dist.all_reduce(tensor, **settings)
    return tensor


def assert_same(mine: torch.Tensor, expected: torch.Tensor) -> None:
    mine, expected = mine.coalesce(), expected.coalesce()
    assert mine.dtype == expected.dtype and mine.shape == expected.shape
    assert torch.equal(mine.indices(), expected.indices()) and torch.equal(mine.values(), expected.values())


@pytest.mark.ranks(1, 2, 3)
def test_sums_are_those_of_gloo(rank):
    gloo = dist.new_group(backend="gloo")
    for dtype in (torch.float32, torch.float64, torch.int64):
        for dense in ((), (5,), (2, 3)):
            for entries in (0, 1, 9 + rank, 9 * (rank == 1)):
                mine = reduced(sparse(rank, dtype, entries, dense))
                assert_same(mine, reduced(sparse(rank, dtype, entries, dense), group=gloo))


@pytest.mark.ranks(2, 3)
def test_ranks_that_ask_for_a_sum_and_a_mean_are_all_told(rank, world):
    with pytest.raises(ValueError, match="rank 0 asks for SUM of the sparse tensors and rank"):
        reduced(sparse(rank, torch.float32, 9), op=Op.AVG if rank == world - 1 else Op.SUM)
    reduced(sparse(rank, torch.float32, 9))


@pytest.mark.ranks(1, 2, 3)
def test_means_and_small_types(rank, world):
    expected = sum(sparse(each, torch.float64, 9).to_dense() for each in range(world)) / world
    mean = reduced(sparse(rank, torch.float64, 9), op=Op.AVG)
    torch.testing.assert_close(mean.to_dense(), expected)
    whole = reduced(torch.tensor([0, 2 + rank, -3 - rank]).to_sparse(), op=Op.AVG)
    assert whole.to_dense().tolist() == [0, int(2 + (world - 1) / 2), int(-3 - (world - 1) / 2)]
    half = torch.tensor([0.0, 256.0, 1.0 + rank], dtype=torch.bfloat16).to_sparse()
    assert reduced(half).to_dense().tolist() == [0, 256 * world, world + world * (world - 1) / 2]


@pytest.mark.ranks(2)
def test_a_work_has_a_future_and_the_target_changes_in_place():
    target = torch.eye(3).to_sparse()
    work = dist.all_reduce(target, async_op=True)
    [result] = work.get_future().wait()
    assert result is target or torch.equal(result.to_dense(), target.to_dense())
    assert torch.equal(target.to_dense(), 2 * torch.eye(3))


@pytest.mark.ranks(2, 3)
def test_errors_are_the_same_everywhere(rank, world):
    with pytest.raises(ValueError, match=rf"\(3, 3\) on rank 0 and \(4, 4\) on rank {world - 1}"):
        dist.all_reduce(torch.eye(3 + (rank == world - 1)).to_sparse())
    with pytest.raises(RondeError, match="the ranks disagree about the shape"):
        dist.all_reduce(torch.ones((3,) * (1 + (rank == 0))).to_sparse())
    with pytest.raises(ValueError, match="SUM and AVG only"):
        dist.all_reduce(torch.eye(3).to_sparse(), op=Op.MAX)
    with pytest.raises(ValueError, match="torch.bool"):
        dist.all_reduce(torch.eye(3).bool().to_sparse())
    assert torch.equal(reduced(torch.eye(3).to_sparse()).to_dense(), world * torch.eye(3)), "the group stays usable"


class Words(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.embedding = torch.nn.EmbeddingBag(500, 40, sparse=True)
        self.layers = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Linear(40, 5))

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        return self.layers(self.embedding(words))


def train(where: Any, rank: int) -> List[torch.Tensor]:
    model = DistributedDataParallel(Words(), process_group=where)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for step in range(6):
        optimizer.zero_grad()
        words = torch.randint(0, 500, (4, 7 + rank), generator=torch.Generator().manual_seed(10 * step + rank))
        model(words).square().mean().backward()
        assert model.module.embedding.weight.grad.is_sparse
        optimizer.step()
    return [parameter.detach() for parameter in model.parameters()]


@pytest.mark.ranks(2)
def test_ddp_of_embeddings_equals_ddp_over_gloo_to_the_last_bit(rank):
    for mine, expected in zip(train(dist.group.WORLD, rank), train(dist.new_group(backend="gloo"), rank), strict=True):
        assert torch.equal(mine, expected)


@pytest.mark.ranks(1, 3)
def test_ddp_of_embeddings_leaves_all_ranks_with_the_same_weights(rank, world):
    for mine in train(dist.group.WORLD, rank):
        everyones = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(everyones, mine)
        assert all(torch.equal(each, mine) for each in everyones)
