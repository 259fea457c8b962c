"""What travels in place of a tensor: the rules of the compressors, and one of the user's own, wherever one is taken."""

from __future__ import annotations

import pytest
import torch

from test_optimizer import assert_same, assert_same_bits_on_all_ranks, train, train_serially

CASTING = [("fp16", torch.float16), ("bf16", torch.bfloat16)]
UNTOUCHED = [torch.float16, torch.bfloat16, torch.int32, torch.uint8, torch.bool, torch.complex64, torch.float8_e5m2]


@pytest.mark.parametrize(("name", "sent_as"), CASTING)
def test_rules(name, sent_as):
    from ronde.torch.compression import Compression

    compressor = getattr(Compression, name)
    for dtype in (torch.float32, torch.float64):
        packed, context = compressor.compress(torch.tensor([1.5], dtype=dtype))
        assert packed.dtype == sent_as and context == dtype
        assert compressor.decompress(packed, context).dtype == dtype
    for dtype in UNTOUCHED:
        tensor = torch.ones(2).to(dtype)
        packed, context = compressor.compress(tensor)
        assert packed is tensor and context is None and compressor.decompress(packed, context) is tensor
    assert Compression.none.compress(tensor) == (tensor, None) and Compression.none.decompress(tensor, None) is tensor


def test_the_base_class_says_what_is_missing():
    from ronde.torch import Compressor

    class Half(Compressor):
        @staticmethod
        def compress(tensor):
            return tensor, None

    with pytest.raises(NotImplementedError, match="decompress"):
        Half.decompress(*Half.compress(torch.ones(1)))
    with pytest.raises(NotImplementedError, match="compress"):
        Compressor().compress(torch.ones(1))


def quantising(hvd, step: float):
    """A compressor with settings: sends multiples of `step` as int32."""

    class Quantising(hvd.Compressor):
        def __init__(self):
            self.seen = []

        def compress(self, tensor):
            self.seen.append(tensor.shape)
            return (tensor / step).round().to(torch.int32), tensor.dtype

        def decompress(self, tensor, ctx):
            return tensor.to(ctx) * step

    return Quantising()


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("name", ["fp16", "bf16", "own"])
def test_every_operation_that_takes_one(hvd, rank, world, name):
    compression = quantising(hvd, 0.25) if name == "own" else getattr(hvd.Compression, name)
    mine = (torch.arange(4.0 * world).reshape(world, 4) * 0.25 + rank).double()
    total = sum(torch.arange(4.0 * world).reshape(world, 4) * 0.25 + r for r in range(world)).double()
    assert torch.equal(hvd.allreduce(mine, op=hvd.Sum, compression=compression), total)
    results = hvd.grouped_allreduce([mine, 2 * mine], op=hvd.Sum, compression=compression)
    assert torch.equal(results[0], total) and torch.equal(results[1], 2 * total)
    assert torch.equal(hvd.reducescatter(mine, op=hvd.Sum, compression=compression), total[rank : rank + 1])
    results = hvd.grouped_reducescatter([mine, 2 * mine], op=hvd.Sum, compression=compression)
    assert torch.equal(results[0], total[rank : rank + 1]) and torch.equal(results[1], 2 * total[rank : rank + 1])
    if name != "own":
        mine.requires_grad_(True)
        for result in (
            hvd.allreduce(mine, op=hvd.Sum, compression=compression),
            hvd.grouped_allreduce([mine], op=hvd.Sum, compression=compression)[0],
            hvd.reducescatter(mine, op=hvd.Sum, compression=compression) / world,
        ):
            mine.grad = None
            result.sum().backward()
            assert bool((mine.grad == (1 if result.shape[0] < world else world)).all())


@pytest.mark.ranks(2)
@pytest.mark.parametrize("options", [{}, {"groups": 2}, {"gradient_predivide_factor": 2.0}], ids=str)
@pytest.mark.parametrize("name", ["fp16", "bf16", "own"])
def test_in_the_optimizer(hvd, rank, world, name, options):
    compression = quantising(hvd, 2.0**-16) if name == "own" else getattr(hvd.Compression, name)
    model = train(hvd, "sgd", rank, world, 3, compression=compression, **options)
    exact = train_serially("sgd", 3)
    assert_same(model, exact, rtol=0.05, atol=2e-2 if name == "bf16" else 5e-3)
    assert_same_bits_on_all_ranks(hvd, model)
    assert not all(torch.equal(a, b) for a, b in zip(model.parameters(), exact.parameters())), "nothing was compressed"


@pytest.mark.ranks(2)
def test_bf16_keeps_the_range_that_fp16_loses(hvd):
    large = torch.full((3,), 1e6)
    assert bool(hvd.allreduce(large, compression=hvd.Compression.fp16).isinf().all())
    torch.testing.assert_close(hvd.allreduce(large, compression=hvd.Compression.bf16), large, rtol=1e-2, atol=0)
