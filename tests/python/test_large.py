"""A tensor with more than 2^31 elements: no count or offset on the way fits 32 bits."""

from __future__ import annotations

import pytest
import torch

ELEMENTS = 2**31 + 4099
#: Around what 31 and 32 bits can count, and the ends.
MARKS = [0, 2**30, 2**31 - 1, 2**31, 2**31 + 1, ELEMENTS - 1]


@pytest.mark.long
@pytest.mark.ranks(2, deadline=300)
def test_allreduce_in_place(hvd, rank):
    tensor = torch.ones(ELEMENTS, dtype=torch.int8)
    for i, at in enumerate(MARKS):
        tensor[at] = 10 * (i + 1) + rank
    hvd.allreduce_(tensor, op=hvd.Sum)
    assert [int(tensor[at]) for at in MARKS] == [20 * (i + 1) + 1 for i in range(len(MARKS))]
    for at in MARKS:
        tensor[at] = 2
    assert int(tensor.min()) == int(tensor.max()) == 2


@pytest.mark.long
@pytest.mark.ranks(2, deadline=300)
def test_alltoall_of_more_rows_than_int32_counts(hvd, rank):
    rows = [ELEMENTS, 2] if rank == 1 else [1, 3]
    tensor = torch.full((sum(rows),), rank + 1, dtype=torch.int8)
    received, splits = hvd.alltoall(tensor, splits=torch.tensor(rows))
    del tensor
    assert splits.tolist() == ([1, ELEMENTS] if rank == 0 else [3, 2])
    assert splits.dtype == (torch.int64 if rank == 0 else torch.int32)
    assert len(received) == int(splits.sum())
    assert (int(received[0]), int(received[-1])) == (1, 2)
