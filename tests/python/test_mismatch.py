"""Ranks that ask for different things under one name: the same text on every rank, and the job goes on."""

from __future__ import annotations

import pytest
import torch


def disagree(hvd, call) -> str:
    """Runs the call; checks that all ranks raise the same; returns the text."""
    with pytest.raises(hvd.HorovodInternalError) as caught:
        call()
    assert isinstance(caught.value, ValueError)
    assert caught.value.tensor and caught.value.tensor in str(caught.value)
    texts = hvd.allgather_object(str(caught.value))
    assert len(set(texts)) == 1, texts
    return texts[0]


@pytest.mark.ranks(2, 3)
def test_shape(hvd, rank, world):
    for _ in range(5):
        text = disagree(hvd, lambda: hvd.allreduce(torch.ones(3 if rank == 0 else 4), name="grown", op=hvd.Sum))
        assert "allreduce.grown" in text and "[3]" in text and "[4]" in text
        assert hvd.allreduce(torch.ones(3), name="grown", op=hvd.Sum)[0] == world


def line_of(function) -> str:
    """Of a function of one line, as it stands in texts."""
    return f"tests/python/test_mismatch.py:{function.__code__.co_firstlineno}"


@pytest.mark.ranks(2, 3)
def test_call_sites(hvd, rank, world):
    """Each rank's own, also where the ranks have long agreed and one then asks for something else."""
    first = lambda tensor: hvd.allreduce(tensor, name="sited")  # noqa: E731
    other = lambda tensor: hvd.allreduce_async_(tensor, name="sited")  # noqa: E731
    for step in range(30):
        assert first(torch.ones(3))[0] == 1
        if step % 10 == 9:
            text = disagree(hvd, lambda: first(torch.ones(3)) if rank == 0 else hvd.synchronize(other(torch.ones(5))))
            assert f"rank 0 asked for allreduce (average) of float32 [3] at {line_of(first)}" in text
            assert f"float32 [5] at {line_of(other)}" in text


@pytest.mark.ranks(2)
def test_call_sites_of_an_optimizer(hvd, rank, world):
    """The line of the program that made the hooks run."""
    model = torch.nn.Linear(3 if rank == 0 else 4, 2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), 0.1), model.named_parameters())
    loss = model(torch.ones(1, model.in_features)).sum()

    def train() -> None:
        loss.backward()
        optimizer.step()

    text = disagree(hvd, train)
    assert f"test_mismatch.py:{train.__code__.co_firstlineno + 1}" in text, text


@pytest.mark.ranks(2, 3)
def test_type(hvd, rank, world):
    dtype = torch.float64 if rank == 1 else torch.float32
    text = disagree(hvd, lambda: hvd.allreduce(torch.ones(3, dtype=dtype), name="typed"))
    assert "float32" in text and "float64" in text


@pytest.mark.ranks(2, 3)
def test_operation(hvd, rank, world):
    text = disagree(hvd, lambda: hvd.allreduce(torch.ones(3), name="reduced", op=hvd.Max if rank == 1 else hvd.Sum))
    assert "max" in text and "sum" in text


@pytest.mark.ranks(2, 3)
def test_scale(hvd, rank, world):
    disagree(hvd, lambda: hvd.allreduce(torch.ones(3), name="scaled", prescale_factor=2.0 + rank))
    disagree(hvd, lambda: hvd.allreduce(torch.ones(3), name="scaled", postscale_factor=2.0 + rank))


@pytest.mark.ranks(2, 3)
def test_root(hvd, rank, world):
    text = disagree(hvd, lambda: hvd.broadcast(torch.ones(3), min(rank, 1), name="rooted"))
    assert "broadcast.rooted" in text and "root" in text


@pytest.mark.ranks(2, 3)
def test_gathered_rows(hvd, rank, world):
    disagree(hvd, lambda: hvd.allgather(torch.ones(2, 3 + min(rank, 1)), name="rows"))


@pytest.mark.ranks(2, 3)
def test_group(hvd, rank, world):
    tensors = [torch.ones(2)] * (2 + min(rank, 1))
    disagree(hvd, lambda: hvd.grouped_allreduce(tensors, name="group"))
    assert hvd.grouped_allreduce([torch.ones(2)], name="group", op=hvd.Sum)[0][0] == world


@pytest.mark.ranks(2)
def test_others_under_way_are_not_harmed(hvd, rank, world):
    good = [hvd.allreduce_async(torch.ones(1000), name=f"good.{i}", op=hvd.Sum) for i in range(10)]
    bad = hvd.allreduce_async(torch.ones(1 + rank), name="bad")
    good += [hvd.allreduce_async(torch.ones(1000), name=f"more.{i}", op=hvd.Sum) for i in range(10)]
    with pytest.raises(hvd.HorovodInternalError, match="allreduce.bad"):
        hvd.synchronize(bad)
    assert all(bool((hvd.synchronize(handle) == world).all()) for handle in good)
