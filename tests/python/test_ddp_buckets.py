"""DDP's buckets in shared memory: reduced without copies and with the same bits, given back, left alone where asked."""

from __future__ import annotations

import gc
import os
from typing import Any, List

import pytest
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from distributed_group import default_group
from made_buckets import made_buckets
from ronde import _shared_buffer, _process
from ronde.exceptions import RondeError
from ronde.torch.distributed import _ddp_buckets, _group

both_views = pytest.mark.parametrize("as_view", [False, True])


@pytest.fixture(autouse=True)
def group(hvd, rank, world):
    with default_group(rank, world):
        yield dist.group.WORLD


@pytest.fixture
def buckets(group):
    with made_buckets() as made:
        yield made


def parallel(width: int = 200, **settings: Any) -> DistributedDataParallel:
    torch.manual_seed(3)
    layers = [torch.nn.Linear(40, width), torch.nn.ReLU(), torch.nn.Linear(width, width), torch.nn.Linear(width, 3)]
    return DistributedDataParallel(torch.nn.Sequential(*layers), **settings)


def over_gloo(**settings: Any) -> DistributedDataParallel:
    return parallel(process_group=dist.new_group(backend="gloo"), **settings)


def train(model: Any, rank: int, steps: int) -> List[torch.Tensor]:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for step in range(steps):
        optimizer.zero_grad()
        images = torch.randn(5, 40, generator=torch.Generator().manual_seed(100 * step + rank))
        model(images).square().mean().backward()
        optimizer.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def assert_equal(mine: List[torch.Tensor], expected: List[torch.Tensor]) -> None:
    for one, other in zip(mine, expected, strict=True):
        assert torch.equal(one, other)


def assert_same_on_all_ranks(weights: List[torch.Tensor], world: int, group: Any = None) -> None:
    for mine in weights:
        everyones = [torch.empty_like(mine) for _ in range(world)]
        dist.all_gather(everyones, mine, group=group)
        assert all(torch.equal(each, mine) for each in everyones)


def direct_bytes() -> int:
    dist.barrier()
    return _process.counters()["direct_bytes"]


@pytest.mark.ranks(2)
@both_views
@pytest.mark.parametrize("how", [{}, {"find_unused_parameters": True}, {"static_graph": True}, {"bucket_cap_mb": 0.1}])
def test_nothing_is_copied_and_no_bit_differs_from_gloo(rank, as_view, how):
    before = direct_bytes()
    mine = train(parallel(gradient_as_bucket_view=as_view, **how), rank, 6)
    counted = sum(each.nbytes for each in mine if each.nbytes >= 65536 or "bucket_cap_mb" not in how)
    assert direct_bytes() - before >= 6 * counted
    assert_equal(mine, train(over_gloo(**how), rank, 6))


@pytest.mark.ranks(1, 2, 3)
def test_all_ranks_have_the_same_weights(rank, world):
    before = direct_bytes()
    weights = train(parallel(), rank, 6)
    assert (direct_bytes() > before) == (world > 1)
    assert_same_on_all_ranks(weights, world)


@pytest.mark.ranks(2, fresh=True)
def test_models_trained_one_after_another_all_need_no_messages_in_the_end(rank):
    """Their buckets go by the same names, so these change with every model, and as DDP orders its buckets anew."""
    for width in (200, 300, 250):
        model = parallel(width)
        train(model, rank, 150)
        dist.barrier()
        before = _process.counters()
        train(model, rank, 10)
        after = _process.counters()
        dist.barrier()  # what a rank does next may end what is replayed, for the others too
        assert after["control_messages"] == before["control_messages"], width
        assert after["replayed"] > before["replayed"], width


@pytest.mark.ranks(2)
def test_accumulation_and_hooks(rank):
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook, fp16_compress_hook

    results = []
    for make in (parallel, over_gloo):
        model = make(gradient_as_bucket_view=True)
        with model.no_sync():
            model(torch.ones(2, 40) * rank).sum().backward()
        model(torch.ones(2, 40)).sum().backward()
        results.append([parameter.grad.clone() for parameter in model.parameters()])
    assert_equal(*results)
    for hook in (allreduce_hook, fp16_compress_hook):
        weights = []
        for make in (parallel, over_gloo):
            model = make()
            model.register_comm_hook(None, hook)
            weights.append(train(model, rank, 4))
        assert_equal(*weights)


@pytest.mark.ranks(2)
@both_views
def test_memory_goes_with_the_model(rank, buckets, as_view):
    for width in (200, 300, 250):
        model = parallel(width, gradient_as_bucket_view=as_view)
        weights = train(model, rank, 4)
        buckets.assert_falls_to(sum(each.nbytes for each in weights))  # what the first step had is gone
        gradients = [parameter.grad for parameter in model.parameters()]
        values = [gradient.clone() for gradient in gradients]
        del model
        gc.collect()
        assert_equal(gradients, values)
        del gradients
        buckets.assert_falls_to(0)


@pytest.mark.ranks(2)
def test_gradients_outlive_the_group(rank, world):
    group = dist.new_group([0, 1])
    model = parallel(process_group=group, gradient_as_bucket_view=True)
    train(model, rank, 4)
    gradients = [parameter.grad for parameter in model.parameters()]
    values = [gradient.clone() for gradient in gradients]
    dist.destroy_process_group(group)
    train(parallel(), rank, 4)
    assert_equal(gradients, values)
    with pytest.raises(RuntimeError, match="was destroyed"):
        train(model, rank, 1)


@pytest.mark.ranks(2)
def test_a_group_that_ends_before_its_model_begins(rank):
    group = dist.new_group([0, 1])
    models = [parallel(process_group=group) for _ in range(2)]
    train(models[0], rank, 1)
    dist.destroy_process_group(group)
    for model in models:  # one would order its buckets anew
        with pytest.raises(RuntimeError, match="was destroyed"):
            train(model, rank, 1)


@pytest.mark.ranks(3)
def test_in_groups_of_some_ranks(rank, buckets):
    for members in ([0, 2], [1, 2]):
        group = dist.new_group(members)
        if rank in members:
            model = parallel(process_group=group)
            weights = train(model, members.index(rank), 5)
            assert buckets.n_bytes() >= sum(each.nbytes for each in weights)
            assert_same_on_all_ranks(weights, 2, group)


@pytest.mark.ranks(2)
def test_pytorch_s_word_for_ordinary_memory(rank, buckets, monkeypatch):
    before = direct_bytes()
    monkeypatch.setenv("DDP_DISABLE_COMM_MEM", "1")
    weights = train(parallel(), rank, 5)
    assert direct_bytes() == before and buckets.count() == 0
    monkeypatch.delenv("DDP_DISABLE_COMM_MEM")
    model = parallel()
    assert_equal(weights, train(model, rank, 5))
    assert buckets.count() > 0


@pytest.mark.ranks(2)
def test_where_one_rank_has_no_room(rank, monkeypatch, caplog):
    def refuse(*_: Any) -> Any:
        raise RondeError("no room", 5)

    if rank == 0:
        monkeypatch.setattr(_group._shared_buffer, "allocate", refuse)
    before = direct_bytes()
    weights = train(parallel(), rank, 5)
    assert direct_bytes() == before
    told = [record.getMessage() for record in caplog.records if "buckets stay in private memory" in record.getMessage()]
    assert len(told) == (1 if rank == 0 else 0), "once, though DDP asks twice"
    monkeypatch.undo()
    assert_equal(weights, train(over_gloo(), rank, 5))


@pytest.mark.ranks(2)
def test_only_ddp_over_ronde_is_concerned(rank, buckets):
    assert dist.Reducer is _ddp_buckets.Reducer
    gloo = over_gloo()
    train(gloo, rank, 3)
    assert type(gloo.reducer) is _ddp_buckets._PyTorchs and buckets.count() == 0
    model = parallel()
    assert buckets.count() > 0
    train(model, rank, 3)
    during = buckets.count()
    assert not _shared_buffer.holds(torch.empty(100_000).data_ptr()) and buckets.count() == during
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()


@pytest.mark.ranks(2)
@pytest.mark.parametrize("elements, is_shared", [(16384 - 1, False), (16384, True)])
def test_from_64_kib_on(buckets, elements, is_shared):
    model = DistributedDataParallel(torch.nn.Linear(elements, 1, bias=False))
    assert (buckets.count() > 0) == is_shared
    train_step = model(torch.ones(1, elements)).sum()
    train_step.backward()


@pytest.mark.ranks(2)
def test_an_interrupt_while_buckets_are_made(rank, monkeypatch):
    """Comes out afterwards, and the model is as good as ever."""
    model = parallel()
    train(model, rank, 1)

    def interrupt(*_: Any) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(_group._shared_buffer, "allocate", interrupt)
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(2, 40))
    assert not torch.utils._python_dispatch._get_current_dispatch_mode_stack()
    monkeypatch.undo()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.ones(2, 40) * rank).sum().backward()
        optimizer.step()
    assert_same_on_all_ranks([parameter.detach() for parameter in model.parameters()], 2)


@pytest.mark.ranks(2)
def test_in_another_group(rank):
    """PyTorch's way of going on with fewer or more ranks."""
    model = parallel(process_group=dist.new_group([0, 1]))
    train(model, rank, 3)
    before = direct_bytes()
    model._update_process_group(dist.group.WORLD)
    assert_same_on_all_ranks(train(model, rank, 5), 2)
    assert direct_bytes() > before


@pytest.mark.ranks(2)
def test_compiled(rank):
    weights = [train(torch.compile(make(), backend="eager"), rank, 4) for make in (parallel, over_gloo)]
    assert_equal(*weights)


@pytest.mark.ranks(2, fresh=True)
@both_views
def test_forked_children(rank, as_view):
    """Have no gradients rather than such as end them when they are touched; gradients elsewhere are left to them."""
    model = parallel(gradient_as_bucket_view=as_view)
    train(model, rank, 4)
    process = os.fork()
    if process == 0:
        code = 1
        try:
            has = [parameter.grad is not None for parameter in model.parameters()]
            values = [parameter.grad.sum() for parameter in model.parameters() if parameter.grad is not None]
            code = 0 if has == [not as_view] * len(has) and len(values) == sum(has) else 2
        finally:
            os._exit(code)
    assert os.waitpid(process, 0)[1] == 0
    weights = [parameter.detach() for parameter in model.parameters()]
    assert_equal(weights, train(over_gloo(), rank, 4))
