"""Sparse tensors through the all-reduce, and sparse gradients in the optimizer."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn


def entries(rank: int, dtype: torch.dtype = torch.float32, shape: tuple[int, ...] = (7, 3)) -> torch.Tensor:
    """Rank `rank`'s tensor: rank 0 has no entries, the others a row of their own, one that all have, and one twice."""
    rows = [] if rank == 0 else [rank % 7, 5, 5]
    values = torch.arange(1, len(rows) * 3 + 1).reshape(len(rows), 3).to(dtype)
    return torch.sparse_coo_tensor(torch.tensor([rows], dtype=torch.int64), values, shape)


def total(world: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return sum(entries(r, dtype).to_dense().double() for r in range(world))


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64], ids=str)
def test_sum_and_average(hvd, rank, world, dtype):
    mine = entries(rank, dtype)
    finish = hvd.sparse_allreduce_async(mine, name="entries", op=hvd.Sum)
    result = finish()
    assert result.is_sparse and result.is_coalesced() and result.dtype == dtype and result.shape == (7, 3)
    torch.testing.assert_close(result.to_dense().double(), total(world, dtype), rtol=1e-2, atol=0)
    with pytest.raises(ValueError, match="fetched already"):
        finish()
    average = hvd.sparse_allreduce_async(mine)().to_dense()
    expected = total(world, dtype) / world
    expected = expected if dtype.is_floating_point else expected.trunc()
    torch.testing.assert_close(average.double(), expected, rtol=1e-2, atol=0)
    assert mine._nnz() == (0 if rank == 0 else 3), "the input was changed"


@pytest.mark.ranks(2, 3)
def test_ranks_that_ask_for_different_things_are_all_told(hvd, rank, world):
    """Each had a result of its own, with success."""
    last = rank == world - 1
    for name, op, shape in (("op", hvd.Average if last else hvd.Sum, (7, 3)), ("shape", hvd.Sum, (8 if last else 7, 3))):
        for call in ("named", None):
            with pytest.raises(ValueError, match="another shape, another op"):
                hvd.sparse_allreduce_async(entries(rank, shape=shape), name=call and f"differ.{name}", op=op)()
    result = hvd.sparse_allreduce_async(entries(rank), op=hvd.Sum)()
    assert torch.equal(result.to_dense().double(), total(world))
    embedding = nn.Embedding(3, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=0.1), op=hvd.Average if last else hvd.Sum)
    embedding(torch.tensor([1])).sum().backward()
    with pytest.raises(ValueError, match="another shape, another op"):
        optimizer.step()


@pytest.mark.ranks(2)
def test_pytorch_has_nothing_to_warn_of(hvd, rank, world):
    """Newer ones do, once, of sparse tensors that nobody has said whether to check."""
    mine = entries(rank)
    unused = nn.Embedding(3, 2, sparse=True)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(unused.parameters(), lr=0.1))
    torch.set_warn_always(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            result = hvd.sparse_allreduce_async(mine, op=hvd.Sum)()
            for step in range(2):
                if rank == 0 or step == 0:  # then rank 1 has none and sends an empty one
                    unused(torch.tensor([1])).sum().backward()
                optimizer.step()
                optimizer.zero_grad()
    finally:
        torch.set_warn_always(False)
    assert torch.equal(result.to_dense().double(), total(world))


@pytest.mark.ranks(2)
def test_it_is_two_allgathers_under_the_documented_names(hvd, rank, world):
    """Indices come behind a row below 0, which says what the rank asks for."""
    mine = entries(rank).coalesce()
    if rank == 0:
        with pytest.raises(ValueError, match="another shape, another op"):
            hvd.sparse_allreduce_async(mine, "table", hvd.Sum)()
    else:
        indices = hvd.allgather(torch.cat([torch.tensor([[-1]]), mine.indices().t()]), name="table.indices")
        values = hvd.allgather(mine.values(), name="table.values")
        assert indices[0] < -1 and indices[1:].tolist() == [[-1], [1], [5]] and values.shape == (2, 3)


@pytest.mark.ranks(2, 3)
def test_without_sparse_dimensions(hvd, rank, world):
    """An entry has no index. Some ranks have none; those that ask for different things are told."""

    def mine(entries: int) -> torch.Tensor:
        values = torch.full((entries, 4), rank + 1.0)
        return torch.sparse_coo_tensor(torch.zeros((0, entries), dtype=torch.long), values, (4,))

    for none_on in (None, 0, world - 1):
        result = hvd.sparse_allreduce_async(mine(int(rank != none_on)), op=hvd.Sum)()
        expected = sum(each + 1.0 for each in range(world) if each != none_on)
        assert result.sparse_dim() == 0 and result.to_dense().tolist() == [expected] * 4
    with pytest.raises(ValueError, match="another shape, another op"):
        hvd.sparse_allreduce_async(mine(1), op=hvd.Sum if rank == 0 else hvd.Average)()
    with pytest.raises(ValueError, match="the shape of|other sparse dimensions"):
        one = mine(1) if rank == 0 else torch.sparse_coo_tensor(torch.tensor([[1]]), torch.ones(1), (4,))
        hvd.sparse_allreduce_async(one.double(), op=hvd.Sum)()


@pytest.mark.ranks(2, 3)
def test_more_sparse_dimensions_and_scalars_as_values(hvd, rank, world):
    mine = torch.sparse_coo_tensor(torch.tensor([[0, rank], [rank, 1]]), torch.tensor([1.0, 2.0]), (world + 1, world + 1))
    expected = sum(
        torch.sparse_coo_tensor(torch.tensor([[0, r], [r, 1]]), torch.tensor([1.0, 2.0]), (world + 1, world + 1)).to_dense()
        for r in range(world)
    )
    assert torch.equal(hvd.sparse_allreduce_async(mine, op=hvd.Sum)().to_dense(), expected)


@pytest.mark.ranks(2)
def test_allreduce_takes_sparse_tensors(hvd, rank, world):
    result = hvd.allreduce(entries(rank), op=hvd.Sum, prescale_factor=0.5, postscale_factor=4.0)
    assert torch.equal(result.to_dense().double(), 2 * total(world))
    packed = hvd.allreduce(entries(rank), compression=hvd.Compression.bf16)
    assert packed.dtype == torch.float32 and torch.equal(packed.to_dense().double(), total(world) / world)


@pytest.mark.ranks(2)
def test_several_under_way(hvd, rank, world):
    under_way = [hvd.sparse_allreduce_async(entries(rank) * (i + 1), op=hvd.Sum) for i in range(3)]
    for i in (2, 0, 1):
        assert torch.equal(under_way[i]().to_dense().double(), (i + 1) * total(world))


@pytest.mark.ranks(2)
def test_what_is_refused(hvd, rank, world):
    with pytest.raises(ValueError, match="Average or Sum"):
        hvd.sparse_allreduce_async(entries(rank), op=hvd.Min)
    for wrong in (torch.ones(2), torch.eye(2).to_sparse_csr(), [1.0]):
        with pytest.raises(ValueError, match="torch.sparse_coo"):
            hvd.sparse_allreduce_async(wrong)
    for call in (hvd.allreduce_, hvd.allreduce_async, hvd.allreduce_async_, hvd.allgather):
        with pytest.raises(ValueError, match="sparse_allreduce_async"):
            call(entries(rank))
    mine = torch.sparse_coo_tensor(torch.zeros((1, 1), dtype=torch.int64), torch.ones(1, 2 + rank), (3, 2 + rank))
    with pytest.raises(hvd.HorovodInternalError):
        hvd.sparse_allreduce_async(mine)()
    assert hvd.allreduce(torch.ones(1)) == 1


# ---- In the optimizer ----------------------------------------------------------------------------------------------


class Bags(nn.Module):
    """Two tables with sparse gradients and a dense layer. A call may leave the second table out."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(4)
        self.first = nn.Embedding(11, 3, sparse=True)
        self.second = nn.EmbeddingBag(9, 3, sparse=True, mode="sum")
        self.out = nn.Linear(3, 1)

    def forward(self, words: torch.Tensor, with_second: bool) -> torch.Tensor:
        x = self.first(words).sum(1)
        return self.out(x + self.second(words % 9) if with_second else x)


def words(step: int, rank: int) -> torch.Tensor:
    return torch.randint(0, 11, (4, 5), generator=torch.Generator().manual_seed(100 * step + rank))


def uses_second(step: int, rank: int) -> bool:
    """Not on rank 0 in the first step, on nobody in the second, on rank 0 only in the third, then on all."""
    return [rank != 0, False, rank == 0, True, True][step]


def train_alone(world: int, make) -> nn.Module:
    model = Bags().double()
    optimizers = make(model)
    for step in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        for r in range(world):
            (model(words(step, r), uses_second(step, r)).square().mean() / world).backward()
        if world > 1 and model.second.weight.grad is None:  # counts as a gradient without entries
            model.second.weight.grad = torch.zeros_like(model.second.weight).to_sparse(1)
        for optimizer in optimizers:
            optimizer.step()
    return model


SPARSE_OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "sparse adam": lambda p: torch.optim.SparseAdam(p, lr=0.1),
}


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", SPARSE_OPTIMIZERS)
def test_tables_that_ranks_do_not_use_in_every_step(hvd, rank, world, kind):
    def plain(model):
        tables = [*model.first.parameters(), *model.second.parameters()]
        return SPARSE_OPTIMIZERS[kind](tables), torch.optim.SGD(model.out.parameters(), lr=0.1)

    model = Bags().double()
    names = list(model.named_parameters())
    optimizers = [hvd.DistributedOptimizer(optimizer, names) for optimizer in plain(model)]
    for step in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad()
        model(words(step, rank), uses_second(step, rank)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        if world > 1:
            assert model.first.weight.grad.is_sparse and model.second.weight.grad.is_sparse
    expected = train_alone(world, plain)
    for (name, a), b in zip(names, expected.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-12, msg=lambda text, name=name: f"{name}: {text}")
        rows = hvd.allgather(a.detach().reshape(1, -1))
        assert all(torch.equal(rows[0], row) for row in rows), name


@pytest.mark.ranks(2)
def test_sparse_reductions_start_during_backward_once_known(hvd, rank, world):
    model = Bags()
    tables = [*model.first.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tables, lr=0.1), compression=hvd.Compression.fp16)
    for step in range(3):
        optimizer.zero_grad()
        model(words(step, rank), True).sum().backward()
        assert (optimizer._reducer._under_way > 0) == (step > 0)
        with pytest.raises(AssertionError, match="zero_grad"):
            optimizer.zero_grad()
        optimizer.step()
        assert model.first.weight.grad.is_sparse and model.first.weight.grad.dtype == torch.float32


@pytest.mark.ranks(2)
def test_a_gradient_that_is_dense_on_one_rank_is_dense_on_all(hvd, rank, world):
    model = nn.Embedding(4, 2, sparse=True)
    hvd.broadcast_parameters(model.state_dict(), 0)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        optimizer.zero_grad()
        if rank == 0:
            model(torch.tensor([1])).sum().backward()
        else:
            (model(torch.tensor([1])).sum() + model.weight.sum()).backward()
        optimizer.synchronize()
        assert model.weight.grad.to_dense().tolist() == [[0.5] * 2, [1.5] * 2, [0.5] * 2, [0.5] * 2]
        with optimizer.skip_synchronize():
            optimizer.step()


@pytest.mark.ranks(2)
def test_accumulated_sparse_gradients(hvd, rank, world):
    model = nn.Embedding(4, 1, sparse=True)
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(model.parameters(), lr=0.1), backward_passes_per_step=2, gradient_predivide_factor=2.0
    )
    for how in ({}, {"set_to_none": False}, {}):
        optimizer.zero_grad(**how)
        for word in (0, 1 + rank):
            model(torch.tensor([word])).sum().backward()
        optimizer.synchronize()
        assert model.weight.grad.to_dense().flatten().tolist() == [1.0, 0.5, 0.5, 0.0]


@pytest.mark.ranks(2)
def test_sparse_gradients_in_groups(hvd, rank, world):
    model = Bags()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), groups=1)
    with pytest.raises(NotImplementedError, match="leave it out of groups"):
        model(words(0, rank), True).sum().backward()
    del optimizer
    for options_of in (
        lambda model: {"groups": 2, "sparse_as_dense": True},
        lambda model: {"groups": [list(model.out.parameters())]},
    ):
        model = Bags()
        optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1), **options_of(model))
        model(words(0, rank), True).sum().backward()
        optimizer.step()
        for parameter in model.parameters():
            rows = hvd.allgather(parameter.detach().reshape(1, -1))
            assert torch.equal(rows[0], rows[1])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"compression": "fp16"}], ids=str)
@pytest.mark.parametrize("kind", SPARSE_OPTIMIZERS)
def test_what_travels_dense_is_sparse_again_for_the_optimizer(hvd, rank, world, kind, options):
    """SparseAdam takes nothing else."""

    def plain(model):
        tables = [*model.first.parameters(), *model.second.parameters()]
        return SPARSE_OPTIMIZERS[kind](tables), torch.optim.SGD(model.out.parameters(), lr=0.1)

    if "compression" in options:
        options = {"compression": getattr(hvd.Compression, options["compression"])}
    model = Bags().double()
    names = list(model.named_parameters())
    optimizers = [hvd.DistributedOptimizer(each, names, sparse_as_dense=True, **options) for each in plain(model)]
    for step in range(5):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=step != 3)
        model(words(step, rank), uses_second(step, rank)).square().mean().backward()
        for optimizer in optimizers:
            optimizer.step()
        if world > 1:
            assert model.first.weight.grad.is_sparse and model.second.weight.grad.is_sparse
            assert not model.out.weight.grad.is_sparse
    expected = train_alone(world, plain)
    exact = {"rtol": 1e-9, "atol": 1e-12} if "compression" not in options else {"rtol": 0.05, "atol": 0.05}
    for (name, a), b in zip(names, expected.parameters()):
        torch.testing.assert_close(a, b, **exact, msg=lambda text, name=name: f"{name}: {text}")
        rows = hvd.allgather(a.detach().reshape(1, -1))
        assert all(torch.equal(rows[0], row) for row in rows), name


@pytest.mark.ranks(2)
def test_a_table_that_nobody_has_used_yet_travels_dense_for_the_time_being(hvd, rank, world):
    model = Bags()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.second.parameters(), lr=0.1), sparse_as_dense=True)
    for step in range(4):
        optimizer.zero_grad()
        model(words(step, rank), with_second=step > 1 and rank == 1).sum().backward()
        optimizer.step()
        assert model.second.weight.grad.is_sparse == (step > 1)
    rows = hvd.allgather(model.second.weight.detach().reshape(1, -1))
    assert torch.equal(rows[0], rows[1])


@pytest.mark.ranks(2)
def test_nothing_is_agreed_in_later_steps_of_a_model_that_is_used_whole(hvd, rank, world):
    from ronde import _process

    model = nn.Linear(3, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    counts = []
    for _ in range(3):
        before = _process.counters()["requests"]
        model(torch.ones(1, 3)).sum().backward()
        optimizer.step()
        counts.append(_process.counters()["requests"] - before)
    assert counts == [4, 3, 3]  # the gradients and the summary of the step; at first the layouts too


@pytest.mark.ranks(3)
def test_within_a_process_set(hvd, rank, world):
    ends = hvd.add_process_set([0, 2])
    model = Bags()
    tables = [*model.first.parameters(), *model.second.parameters()]
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(tables, lr=0.1), process_set=ends)
    if ends.included():
        expected = (entries(0) + entries(2)).to_dense()
        finish = hvd.sparse_allreduce_async(entries(rank), op=hvd.Sum, process_set=ends)
        assert torch.equal(finish().to_dense(), expected)
        assert torch.equal(hvd.allreduce(entries(rank), process_set=ends).to_dense(), expected / 2)
    for step in range(3):
        optimizer.zero_grad()
        model(words(step, rank), uses_second(step, rank)).sum().backward()
        optimizer.step()
    tables_of_ranks = hvd.allgather(model.first.weight.detach().reshape(1, -1))
    assert torch.equal(tables_of_ranks[0], tables_of_ranks[2])
    assert not torch.equal(tables_of_ranks[0], tables_of_ranks[1])
    hvd.remove_process_set(ends)


@pytest.mark.ranks(2)
def test_after_a_failure_to_agree(hvd, rank, world, monkeypatch):
    from ronde.torch import _layouts

    def fail(*_):
        raise hvd.HorovodInternalError("on all ranks")

    model = Bags()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    model(words(0, rank), True).sum().backward()
    with monkeypatch.context() as patch:
        patch.setattr(_layouts, "agree", fail)
        with pytest.raises(hvd.HorovodInternalError):
            optimizer.step()
    hvd.barrier()  # what was under way has come from all ranks
    for step in range(2):
        optimizer.zero_grad()
        model(words(step, rank), True).sum().backward()
        optimizer.step()
    for parameter in model.parameters():
        rows = hvd.allgather(parameter.detach().reshape(1, -1))
        assert torch.equal(rows[0], rows[1])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("options", [{}, {"groups": 1}, {"compression": "fp16"}], ids=["place", "group", "fp16"])
@pytest.mark.parametrize("passes", [1, 2])
def test_rows_whose_gradients_are_zero_travel_dense(hvd, rank, world, options, passes):
    """SparseAdam goes on moving such a row by its momentum, and leaves alone what no rank has used."""
    if "compression" in options:
        options = {"compression": hvd.Compression.fp16}

    def train(optimizer, weight, ranks):
        for step in range(4):
            optimizer.zero_grad()
            for one in range(passes):
                for each in ranks:
                    used = torch.tensor([0, 1, 2 + (each + one) % 2 if step > 1 else 0])
                    factors = torch.tensor([1.0, float(step == 0), 0.0])  # of row 1, later, and of rows 2 and 3 it is 0
                    looked_up = nn.functional.embedding(used, weight, sparse=True)
                    (looked_up.sum(1) * factors).sum().div(len(ranks)).backward()
            optimizer.step()
        return weight.detach()

    start = torch.arange(12.0).reshape(6, 2) / 8
    alone = nn.Parameter(start.clone())
    expected = train(torch.optim.SparseAdam([alone], lr=0.1), alone, range(world))
    weight = nn.Parameter(start.clone())
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SparseAdam([weight], lr=0.1),
        [("rows", weight)],
        sparse_as_dense=True,
        backward_passes_per_step=passes,
        **options,
    )
    assert torch.allclose(train(optimizer, weight, [rank]), expected)
    assert torch.equal(expected[4:], start[4:])
    assert not torch.equal(expected[1], start[1])


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("who", ["all", "one"])
def test_a_sparse_gradient_that_is_dense_in_some_steps(hvd, rank, world, who):
    """As with an embedding whose weight is the output layer's too, from some epoch on: the sum is dense there."""

    def train(optimizer, weight, ranks):
        layouts = []
        for step in range(5):
            optimizer.zero_grad()
            for each in ranks:
                loss = nn.functional.embedding(torch.tensor([each % 6, 2]), weight, sparse=True).sum()
                if step in (2, 3) and (who == "all" or each == 0):
                    loss = loss + (weight * (step + each)).sum()
                loss.div(len(ranks)).backward()
            optimizer.step()
            layouts.append(weight.grad.layout)
        return weight.detach(), layouts

    start = torch.arange(12.0).reshape(6, 2) / 8
    alone = nn.Parameter(start.clone())
    expected, layouts = train(torch.optim.SGD([alone], lr=0.5), alone, range(world))
    weight = nn.Parameter(start.clone())
    wrapped = hvd.DistributedOptimizer(torch.optim.SGD([weight], lr=0.5), [("both", weight)], sparse_as_dense=True)
    got, seen = train(wrapped, weight, [rank])
    assert torch.allclose(got, expected)
    assert seen == layouts


@pytest.mark.ranks(3)
def test_after_another_init_a_gradient_that_is_sparse_here_may_be_dense_there(hvd, rank, world):
    """The last rank does not use the embedding at all, and learns the layout from the others."""
    embedding = torch.nn.Embedding(4, 2, sparse=True)
    embedding.weight.data.fill_(1.0)
    expected = embedding.weight.detach().clone()
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD([embedding.weight], lr=0.1))
    for step in range(4):
        if step == 2:
            hvd.shutdown()
            hvd.init()
        optimizer.zero_grad()
        gradient = torch.zeros(4, 2)
        for r in range(2):
            gradient[r] += 1 / world
        if step >= 2:
            gradient += 2 * expected / world
        if rank < 2:
            loss = embedding(torch.tensor([rank])).sum()
            if step >= 2 and rank == 1:
                loss = loss + embedding.weight.pow(2).sum()
            loss.backward()
        optimizer.step()
        expected -= 0.1 * gradient
        torch.testing.assert_close(embedding.weight.detach(), expected)


@pytest.mark.ranks(2)
def test_expanded_values_of_one_element_are_not_lost(hvd, rank, world):
    """PyTorch's own to_dense() makes zeros of them."""
    embedding = torch.nn.Embedding(4, 1, sparse=True)
    torch.nn.init.ones_(embedding.weight)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(embedding.parameters(), lr=0.1), sparse_as_dense=True)
    for step in range(3):
        optimizer.zero_grad()
        embedding(torch.tensor([0])).sum().backward()
        optimizer.step()
        expected = torch.tensor([[1 - 0.1 * (step + 1)], [1], [1], [1]])
        torch.testing.assert_close(embedding.weight.detach(), expected)


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("after", ["another init", "a state that one rank loads"])
def test_what_travels_dense_again_is_sparse_again(hvd, rank, world, after):
    table = nn.Parameter(torch.ones(world + 3, 2))  # a row of each rank, two that nobody uses, one that all do
    optimizer = hvd.DistributedOptimizer(torch.optim.SparseAdam([table]), [("again.table", table)], sparse_as_dense=True)
    for step in range(4):
        if step == 2:
            if after == "another init":
                hvd.shutdown()
                hvd.init()
            elif rank == 0:
                optimizer.load_state_dict(optimizer.state_dict())
        optimizer.zero_grad()
        nn.functional.embedding(torch.tensor([rank, world + 2]), table, sparse=True).sum().backward()
        optimizer.step()
        rows = table.grad.coalesce().indices()[0].tolist()
        assert rows == [*range(world), world + 2]
