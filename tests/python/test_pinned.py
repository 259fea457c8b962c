"""The memory through which tensors of a GPU pass, without one: pinning is left out."""

from __future__ import annotations

import gc

import pytest
import torch

from ronde.torch import _pinned, _staging


@pytest.fixture(autouse=True)
def pins(monkeypatch):
    """Addresses that are pinned."""
    pinned = set()
    monkeypatch.setattr(_pinned, "_pin", lambda address, n_bytes: pinned.add(address) or True)
    monkeypatch.setattr(_pinned, "_unpin", pinned.remove)
    monkeypatch.setattr(_pinned, "_refused_in", 0)
    yield pinned
    gc.collect()
    with _pinned._turn:
        _pinned._collect(-1)  # as if the job had ended: later tests find nothing
    assert not pinned


def lend(count: int) -> torch.Tensor:
    borrowed = _pinned.borrow(torch.empty(count, device="meta"))
    assert borrowed is not None and borrowed.shape == (count,) and borrowed.dtype == torch.float32
    return borrowed


@pytest.mark.ranks(2, 3)
def test_a_block_that_has_brought_a_result_is_lent_again(hvd, rank, world, pins):
    addresses = set()
    for turn in range(5):
        block = lend(50_000)
        addresses.add(block.data_ptr())
        block.fill_(rank + turn)
        hvd.allreduce_(block, op=hvd.Sum, name="pinned")
        target = torch.empty(50_000)
        _staging.bring([(target, block)], waits=True)
        _pinned.has_brought(block)  # bring() says so of tensors on a GPU only
        assert bool((target == sum(range(world)) + world * turn).all())
        del block
    assert len(addresses) == 1 and pins == addresses


@pytest.mark.ranks(2)
def test_another_block_is_lent_after_an_error(hvd, rank, pins):
    """The engine may have put other pages under it, which are not pinned."""
    block = lend(50_000)
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allreduce_(block[: 40_000 + rank], name="pinned")
    first = block.data_ptr()
    del block
    gc.collect()
    other = lend(50_000)
    assert first not in pins or other.data_ptr() == first  # the heap may give the same place out again, pinned anew
    assert pins == {other.data_ptr()}
    other.fill_(1)
    assert hvd.allreduce_(other, op=hvd.Sum)[-1] == 2


@pytest.mark.ranks(2)
def test_those_under_way_at_once_lie_apart_and_come_back_in_order(hvd):
    def step():
        blocks = [lend(20_000) for _ in range(3)]
        places = [block.data_ptr() for block in blocks]
        for number in (2, 0, 1):
            _pinned.has_brought(blocks[number])
        while blocks:
            blocks.pop(1 if len(blocks) > 1 else 0)
        return places

    first = step()
    assert len(set(first)) == 3 and step() == first and step() == first


@pytest.mark.ranks(1, 2)
def test_what_is_not_lent(hvd, world):
    assert _pinned.borrow(torch.empty(16, device="meta")) is None
    large = _pinned.borrow(torch.empty(100_000, device="meta"))
    assert (large is None) == (world == 1)


def test_sizes_of_blocks_are_few():
    sizes = {_pinned._class_of(n_bytes) for n_bytes in range(32 * 1024, 4 << 20, 1000)}
    assert len(sizes) < 45
    for n_bytes in (32 * 1024, 100_000, 4 << 20, (4 << 20) + 1, 3_000_001):
        assert n_bytes <= _pinned._class_of(n_bytes) <= 1.25 * n_bytes + 4096
