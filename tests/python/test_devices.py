"""Tensors that are not in host memory. There may be no accelerator where this runs: its part is played by a tensor that
says it is on one, keeps its values apart, and lets them be reached by copies only."""

from __future__ import annotations

import logging

import pytest
import torch
import torch.overrides
from torch.utils._pytree import tree_map_only

from ronde.torch import _staging

DEVICE = torch.device("xpu", 0)


class Remote(torch.Tensor):
    """Says that it is on DEVICE; has no address. What is computed with it is there too; copies to the CPU are not."""

    @staticmethod
    def __new__(cls, values: torch.Tensor):
        # For PyTorch's dispatcher on a device that every build has; who asks for the device is told DEVICE.
        return torch.Tensor._make_wrapper_subclass(
            cls,
            values.shape,
            strides=values.stride(),
            dtype=values.dtype,
            device="meta",
            dispatch_device=True,
        )

    def __init__(self, values: torch.Tensor) -> None:
        self.values_there = values

    copies_to_host = 0

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        if function is torch.ops.prim.device.default:
            return DEVICE
        kwargs = dict(kwargs or {})
        device = kwargs.get("device")
        to_host = device is not None and torch.device(device).type == "cpu"
        if to_host:
            cls.copies_to_host += 1
        elif device is not None:
            kwargs["device"] = "cpu"
        bare_args, bare_kwargs = tree_map_only(Remote, lambda t: t.values_there, (args, kwargs))
        result = function(*bare_args, **bare_kwargs)
        if to_host:
            return result.clone()
        return tree_map_only(torch.Tensor, Remote, result)


class RemoteFactory(torch.overrides.TorchFunctionMode):
    """Makes what is asked for on DEVICE a Remote, and copies what goes there, before PyTorch looks for a driver."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        if function is torch.empty and kwargs.get("device") == DEVICE:
            return Remote(torch.empty(*args, **{**kwargs, "device": "cpu"}))
        if function is torch.Tensor.to and args[1:2] == (DEVICE,):
            return Remote(args[0].clone())
        if function is torch.Tensor.copy_ and isinstance(args[0], Remote):
            args[0].values_there.copy_(args[1])
            return args[0]
        return function(*args, **kwargs)


@pytest.fixture
def remote(monkeypatch, caplog):
    """Makes tensors on the device, as if for the first time in this process."""
    monkeypatch.setattr(_staging, "_told", set())
    Remote.copies_to_host = 0
    with caplog.at_level(logging.WARNING, logger="ronde"), RemoteFactory():
        yield Remote


def here(tensor: torch.Tensor) -> torch.Tensor:
    assert isinstance(tensor, Remote) and tensor.device == DEVICE
    return tensor.values_there


@pytest.mark.ranks(1, 2, 3)
def test_every_operation(hvd, rank, world, remote, caplog):
    mine = torch.arange(6.0).reshape(3, 2) + rank
    parts = [torch.arange(6.0).reshape(3, 2) + r for r in range(world)]
    total = sum(parts)
    assert torch.equal(here(hvd.allreduce(remote(mine.clone()), op=hvd.Sum)), total)
    assert torch.equal(here(hvd.synchronize(hvd.allreduce_async(remote(mine.clone()), op=hvd.Sum))), total)
    target = remote(mine.clone())
    assert hvd.allreduce_(target, op=hvd.Sum) is target and torch.equal(here(target), total)
    group = hvd.grouped_allreduce([remote(mine.clone()), mine.clone()], op=hvd.Sum)  # both kinds of memory in one
    assert torch.equal(here(group[0]), total) and torch.equal(group[1], total) and group[1].is_cpu
    assert torch.equal(here(hvd.broadcast(remote(mine.clone()), world - 1)), parts[-1])
    target = remote(mine.clone())
    assert hvd.broadcast_(target, 0) is target and torch.equal(here(target), parts[0])
    assert torch.equal(here(hvd.allgather(remote(mine.clone()))), torch.cat(parts))
    gathered = hvd.grouped_allgather([remote(mine.clone()), mine])
    assert torch.equal(here(gathered[0]), torch.cat(parts)) and torch.equal(gathered[1], torch.cat(parts))
    rows = torch.full((world, 2), float(rank))
    result, received = hvd.alltoall(remote(rows), splits=[1] * world)
    assert here(result)[:, 0].tolist() == list(range(world)) and received.tolist() == [1] * world and received.is_cpu
    assert torch.equal(here(hvd.alltoall(remote(rows))), here(result))
    assert here(hvd.reducescatter(remote(rows), op=hvd.Sum)).tolist() == [[sum(range(world))] * 2]
    large = remote(torch.full((50_000,), float(rank)))  # a result that is the engine's own memory elsewhere
    assert here(hvd.allgather(large)).sum() == 50_000 * sum(range(world))
    [told] = caplog.records
    assert "xpu:0" in told.getMessage() and "host memory" in told.getMessage()
    assert Remote.copies_to_host >= 12


@pytest.mark.ranks(2)
def test_shapes_and_layouts(hvd, rank, remote):
    base = torch.arange(6.0).reshape(2, 3) + rank
    assert torch.equal(here(hvd.allreduce(remote(base).t())), (torch.arange(6.0).reshape(2, 3) + 0.5).t())
    assert hvd.allreduce(remote(torch.ones(0, 3))).shape == (0, 3)
    assert here(hvd.allreduce(remote(torch.tensor(float(rank))))) == 0.5
    with pytest.raises(hvd.HorovodInternalError):
        hvd.allreduce(remote(torch.ones(2 + rank)))


@pytest.mark.ranks(2)
@pytest.mark.parametrize("compression", ["none", "bf16"])
def test_gradients_in_the_optimizer(hvd, rank, remote, compression):
    parameters = [remote(torch.zeros(shape)).requires_grad_(True) for shape in ((3, 2), (5,))]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(parameters, lr=0.1), compression=getattr(hvd.Compression, compression)
    )
    for step in range(3):
        gradients = [torch.full(parameter.shape, rank + step + 1.0) for parameter in parameters]
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = remote(gradient)
        optimizer.synchronize()
        for parameter in parameters:
            assert bool((here(parameter.grad) == step + 1.5).all())


@pytest.mark.ranks(1, 2)
def test_what_has_no_values_is_refused(hvd):
    empty = torch.ones(3, device="meta")
    for call in (hvd.allreduce, hvd.allreduce_, hvd.allgather, hvd.alltoall, hvd.reducescatter):
        with pytest.raises(ValueError, match="on device meta and has no values"):
            call(empty)
    with pytest.raises(ValueError, match=r"'broadcast\.x' is on device meta"):
        hvd.broadcast_(empty, 0, name="x")
    assert hvd.allreduce(torch.ones(1)) == 1


@pytest.mark.ranks(1, 2)
def test_another_default_device_changes_nothing(hvd, rank, world):
    mine, rows = torch.full((world, 2), float(rank)), torch.ones(world, 1)
    model = torch.nn.Embedding(world, 2, sparse=True)
    norm = hvd.SyncBatchNorm(2)
    optimizer = hvd.DistributedOptimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    with torch.device("meta"):
        assert hvd.allreduce(mine).is_cpu and hvd.allgather(mine).is_cpu and hvd.broadcast(mine, 0).is_cpu
        assert hvd.reducescatter(mine).is_cpu
        assert hvd.alltoall(rows, splits=[1] * world)[1].is_cpu
        assert hvd.broadcast_object({"rank": rank}) == {"rank": 0}
        assert hvd.allgather_object(rank) == list(range(world))
        assert norm(torch.cat([mine, mine + 1])).is_cpu
        model(torch.tensor([rank], device="cpu")).sum().backward()
        optimizer.step()
        hvd.broadcast_parameters(model.state_dict(), 0)


@pytest.mark.ranks(1, 2)
def test_what_the_build_has(hvd):
    answers = [getattr(hvd, f"{library}_built")() for library in ("mpi", "ddl", "ccl", "cuda", "rocm")]
    assert answers == [True, False, True, False, False]
    assert hvd.gloo_built() is True and hvd.gloo_enabled() is True, "programs give up without MPI and Gloo"
    assert hvd.nccl_built() == 0 and isinstance(hvd.nccl_built(), int)
    assert not hvd.mpi_enabled() and not hvd.mpi_threads_supported()
