"""Tensors that results are copied into: refused where that cannot be, before anything is communicated."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist

from distributed_group import default_group
from ronde import _operation


def expanded(*shape: int) -> torch.Tensor:
    """Of elements that lie on top of each other: nothing can be copied into it."""
    return torch.zeros(1).expand(*shape)


@pytest.fixture
def submitted(monkeypatch):
    """The names of what is handed to the engine."""
    names, submit = [], _operation.submit

    def note(op, name, *arguments, **settings):
        names.append(name)
        return submit(op, name, *arguments, **settings)

    monkeypatch.setattr(_operation, "submit", note)
    return names


@pytest.mark.ranks(2)
def test_what_lies_on_top_of_itself_is_refused_before_anything_is_sent(hvd, rank, submitted):
    calls = {
        "allreduce_": lambda: hvd.allreduce_(expanded(4)),
        "allreduce_async_": lambda: hvd.allreduce_async_(expanded(4)),
        "grouped_allreduce_": lambda: hvd.grouped_allreduce_([torch.zeros(4), expanded(4)]),
        "broadcast_": lambda: hvd.broadcast_(expanded(4), 0),
        "reduce_": lambda: hvd.reduce_(expanded(4), root_rank=rank),
        "recv": lambda: hvd.recv(expanded(4), 1 - rank),
    }
    for name, call in calls.items():
        with pytest.raises(ValueError, match="expand"):
            call()
        assert not submitted, name
    assert hvd.allreduce(expanded(4) + 1, op=hvd.Sum).tolist() == [2.0] * 4
    assert hvd.allreduce(expanded(4), op=hvd.Sum).tolist() == [0.0] * 4  # as an input it is as good as any


@pytest.mark.ranks(2)
def test_so_over_torch_distributed(hvd, rank, world, submitted):
    with default_group(rank, world):
        submitted.clear()
        row, rows = torch.ones(2), torch.ones(4)
        calls = {
            "all_reduce": lambda: dist.all_reduce(expanded(2)),
            "all_reduce_coalesced": lambda: dist.all_reduce_coalesced([row, expanded(2)]),
            "broadcast": lambda: dist.broadcast(expanded(2), 0),
            "reduce": lambda: dist.reduce(expanded(2), rank),
            "all_gather": lambda: dist.all_gather([torch.zeros(2), expanded(2)], row),
            "all_gather_into_tensor": lambda: dist.all_gather_into_tensor(expanded(4), row),
            "gather": lambda: dist.gather(row, [torch.zeros(2), expanded(2)], dst=rank),
            "scatter": lambda: dist.scatter(expanded(2), [row, row], src=rank),
            "reduce_scatter": lambda: dist.reduce_scatter(expanded(2), [row, row]),
            "reduce_scatter_tensor": lambda: dist.reduce_scatter_tensor(expanded(2), rows),
            "all_to_all": lambda: dist.all_to_all([torch.zeros(2), expanded(2)], [row, row]),
            "all_to_all_single": lambda: dist.all_to_all_single(expanded(4), rows),
            "recv": lambda: dist.recv(expanded(2), 1 - rank),
        }
        for name, call in calls.items():
            with pytest.raises(ValueError, match="expand"):
                call()
            assert not submitted, name
        total = torch.ones(2)
        dist.all_reduce(total)
        assert total.tolist() == [2.0, 2.0]


@pytest.mark.ranks(2)
def test_targets_made_in_inference_mode_are_filled_wherever_one_waits(hvd, rank):
    with torch.inference_mode():
        columns = torch.ones(3, 2).t()  # not contiguous, so copied back
    assert hvd.allreduce_(columns, op=hvd.Sum) is columns
    assert columns.tolist() == [[2.0] * 3] * 2
