"""`empty_shared`: tensors in memory that the ranks of a host share, or where that is refused in ordinary memory."""

from __future__ import annotations

import os

import pytest
import torch
from torch import nn

from test_shared_gradients import REASONS, buckets, is_shared, refused  # noqa: F401 # a fixture is among them


def resident_bytes() -> int:
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.ranks(1)
def test_asking_for_more_than_there_is_takes_nothing(hvd):
    """Where shared memory is refused a container has little left: private memory takes its pages as they are used."""
    before = resident_bytes()
    with refused():
        tensor = hvd.empty_shared(64, 1024, 1024)
    assert resident_bytes() - before < tensor.nbytes / 4
    assert not is_shared(tensor) and tensor.shape == (64, 1024, 1024)
    tensor[1, 2, 3] = 4
    assert tensor[1].sum().item() == 4


@pytest.mark.ranks(1, 2)
def test_empty_shared(hvd, rank, world, buckets):
    for size, shape in (((3, 4), (3, 4)), (([3, 4],), (3, 4)), ((torch.Size([2]),), (2,)), ((), ()), ((0, 2), (0, 2))):
        tensor = hvd.empty_shared(*size, dtype=torch.float64)
        assert tensor.shape == shape and tensor.dtype == torch.float64 and not tensor.any()
        assert is_shared(tensor) == (tensor.numel() > 0)
        tensor += rank + 1
        hvd.allreduce_(tensor, op=hvd.Sum)
        assert bool((tensor == world * (world + 1) / 2).all())
    for code in REASONS:
        with refused(code=code):
            assert not is_shared(hvd.empty_shared(3))
    with pytest.raises(ValueError, match="does not know"):
        hvd.empty_shared(3, dtype=torch.quint8)
    parameter = nn.Parameter(hvd.empty_shared(4))
    (parameter * 2).sum().backward()
    assert bool((parameter.grad == 2).all())
    assert buckets.n_bytes() > 0
    del tensor, parameter
    assert buckets.n_bytes() == 0
