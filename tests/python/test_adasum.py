"""Adasum against NumPy, and the optimizer that combines steps with it."""

from __future__ import annotations

import numpy as np
import pytest
import torch

WORLDS = pytest.mark.ranks(1, 2, 3, 5)


def pair(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The published formula."""
    ab, aa, bb = float((a * b).sum()), float((a * a).sum()), float((b * b).sum())
    return (1 - ab / (2 * aa) if aa else 1.0) * a + (1 - ab / (2 * bb) if bb else 1.0) * b


def tree(vectors: list[np.ndarray]) -> np.ndarray:
    """Neighbours first; the last of an odd number goes on as it is."""
    while len(vectors) > 1:
        pairs = [pair(a, b) for a, b in zip(vectors[::2], vectors[1::2])]
        vectors = pairs + vectors[2 * len(pairs) :]
    return vectors[0]


def gradient(rank: int, shape: tuple[int, ...], seed: int = 0) -> torch.Tensor:
    generator = np.random.default_rng((seed, rank))
    common = np.random.default_rng(seed).normal(size=shape)  # so that ranks agree in part
    return torch.from_numpy(np.asarray(common + 0.7 * generator.normal(size=shape)))


def assert_near(result: torch.Tensor, expected: np.ndarray) -> None:
    eps = torch.finfo(result.dtype).eps
    largest = np.abs(expected).max(initial=1e-30)
    np.testing.assert_allclose(result.double().numpy(), expected, rtol=eps, atol=4 * eps * largest)


@WORLDS
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16], ids=str)
def test_allreduce(hvd, rank, world, dtype):
    for shape in ((), (1,), (3, 5), (0,), (20_001,)):
        inputs = [gradient(r, shape).to(dtype) for r in range(world)]
        result = hvd.allreduce(inputs[rank], op=hvd.Adasum)
        assert result.dtype == dtype and result.shape == shape
        assert_near(result, tree([each.double().numpy() for each in inputs]))
        everyone = hvd.allgather(result.reshape(1, -1))
        assert all(torch.equal(row.view(torch.uint8), everyone[0].view(torch.uint8)) for row in everyone)


@pytest.mark.ranks(2, 3)
def test_grouped_is_per_tensor(hvd, rank, world):
    shapes = [(4,), (2, 300), (1,), (5000,)]
    inputs = [[gradient(r, shape, seed).float() for seed, shape in enumerate(shapes)] for r in range(world)]
    for step in range(5):  # a name that comes back stays right
        results = hvd.grouped_allreduce(inputs[rank], op=hvd.Adasum, name="group")
        handles = [hvd.allreduce_async(each, op=hvd.Adasum, name=f"alone.{i}") for i, each in enumerate(inputs[rank])]
        for i, (result, handle) in enumerate(zip(results, handles)):
            assert_near(result, tree([each[i].double().numpy() for each in inputs]))
            assert torch.equal(hvd.synchronize(handle), result), "fused or not, the same bits"


@pytest.mark.ranks(2)
def test_scales_and_what_cannot_be(hvd, rank, world):
    inputs = [gradient(r, (50,)).float() for r in range(world)]
    result = hvd.allreduce(inputs[rank], op=hvd.Adasum, prescale_factor=0.5, postscale_factor=3.0)
    assert_near(result, 3 * tree([0.5 * each.double().numpy() for each in inputs]))
    same = hvd.allreduce(inputs[0], op=hvd.Adasum)
    assert_near(same, inputs[0].double().numpy())  # what is parallel is averaged
    with pytest.raises(NotImplementedError, match="int32 cannot be reduced by adasum"):
        hvd.allreduce(torch.ones(3, dtype=torch.int32), op=hvd.Adasum)
    for call in (hvd.reducescatter, lambda tensor, op: hvd.reduce(tensor, 0, op=op)):
        with pytest.raises(NotImplementedError, match="only an allreduce"):
            call(torch.ones(4), op=hvd.Adasum)


def model() -> torch.nn.Sequential:
    torch.manual_seed(5)
    return torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))


def backward(net: torch.nn.Module, rank: int, step: int) -> None:
    generator = torch.Generator().manual_seed(100 * rank + step)
    inputs = torch.randn(16, 6, generator=generator)
    loss = (net(inputs) - inputs.sum(1, keepdim=True)).pow(2).mean()
    loss.backward()


@pytest.mark.ranks(1, 2, 3)
@pytest.mark.parametrize("kind", ["SGD", "Adam"])
def test_optimizer_combines_steps(hvd, rank, world, kind):
    def plain(net: torch.nn.Module) -> torch.optim.Optimizer:
        if kind == "SGD":
            return torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
        return torch.optim.Adam(net.parameters(), lr=0.01)

    net = model()
    optimizer = hvd.DistributedOptimizer(plain(net), named_parameters=net.named_parameters(), op=hvd.Adasum)
    # The whole job played by one process: a copy of model and optimizer for each rank.
    nets = [model() for _ in range(world)]
    optimizers = [plain(each) for each in nets]
    probe = torch.randn(500, 6, generator=torch.Generator().manual_seed(1))

    def loss() -> float:
        return float((net(probe) - probe.sum(1, keepdim=True)).pow(2).mean())

    before = loss()
    for step in range(6):
        optimizer.zero_grad()
        for part in range(2):  # gradients add up over backward passes
            backward(net, rank, 2 * step + part)
        optimizer.step()
        start = [parameter.detach().clone() for parameter in nets[0].parameters()]
        for r in range(world):
            optimizers[r].zero_grad()
            for part in range(2):
                backward(nets[r], r, 2 * step + part)
            optimizers[r].step()
        for i, first in enumerate(start):
            deltas = [(list(each.parameters())[i].detach() - first).double().numpy() for each in nets]
            moved = first + torch.from_numpy(tree(deltas)).float()
            for each in nets:
                list(each.parameters())[i].data.copy_(moved)
    for mine, expected in zip(net.parameters(), nets[0].parameters()):
        torch.testing.assert_close(mine, expected, rtol=1e-4, atol=1e-5)
        everyone = hvd.allgather(mine.detach().reshape(1, -1))
        assert all(torch.equal(row, everyone[0]) for row in everyone)
    assert loss() < before


@pytest.mark.ranks(2)
def test_optimizer_forms(hvd, rank):
    net = model()
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD(net.parameters(), lr=0.1), op=hvd.Adasum, backward_passes_per_step=2
    )
    assert isinstance(optimizer, torch.optim.SGD)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, gamma=0.5)
    with pytest.raises(AssertionError, match="Adasum"), optimizer.skip_synchronize():
        pass
    if rank == 0:  # a rank without gradients takes part with zeros
        backward(net, rank, 0)
    optimizer.synchronize()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.05
    extra = torch.nn.Parameter(torch.ones(3))
    optimizer.add_param_group({"params": [extra]})
    extra.grad = torch.full((3,), rank + 1.0)

    def closure() -> torch.Tensor:
        return torch.tensor(4.0)

    assert optimizer.step(closure) == 4.0
    torch.testing.assert_close(extra.detach(), torch.full((3,), 1 - 0.1 * 1.5))  # parallel steps: their average
    for parameter in net.parameters():
        everyone = hvd.allgather(parameter.detach().reshape(1, -1))
        assert torch.equal(everyone[0], everyone[1])
    with pytest.raises(ValueError, match="gradient_predivide_factor"):
        hvd.DistributedOptimizer(torch.optim.SGD(net.parameters(), lr=0.1), op=hvd.Adasum, gradient_predivide_factor=2.0)


@pytest.mark.ranks(2, 3)
def test_an_overflow_on_one_rank_is_skipped_by_all(hvd, rank, world):
    """Also where ranks list their parameters in different orders."""
    p, other = torch.nn.Parameter(torch.ones(3)), torch.nn.Parameter(torch.ones(2))
    listed = [("p", p), ("other", other)]
    listed = listed if rank == 0 else listed[::-1]
    optimizer = hvd.DistributedOptimizer(
        torch.optim.SGD([parameter for _, parameter in listed], lr=0.1), listed, op=hvd.Adasum
    )
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    steps = [p.detach().clone()]
    for step in range(4):
        optimizer.zero_grad()
        overflows = step == 1 and rank == 0
        scaler.scale(((p * (rank + 1)).sum() + other.sum()) * (float("inf") if overflows else 1.0)).backward()
        scaler.step(optimizer)
        scaler.update()
        steps.append(p.detach().clone())
        assert scaler.get_scale() == (8.0 if step == 0 else 4.0)
    assert torch.equal(steps[1], steps[2]), "nobody steps"
    assert float(steps[1][0] - steps[3][0]) == pytest.approx(float(steps[0][0] - steps[1][0]), rel=1e-5)
    assert not torch.equal(steps[2], steps[3])
    everyone = hvd.allgather(p.detach().reshape(1, -1))
    assert all(torch.equal(row, everyone[0]) for row in everyone)


@pytest.mark.ranks(2)
def test_a_scheduler_of_the_wrapped_optimizer_is_heard_after_loading(hvd, rank, world):
    p = torch.nn.Parameter(torch.ones(3))
    plain = torch.optim.SGD([p], lr=1.0)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(plain, 0.5)
    optimizer = hvd.DistributedOptimizer(plain, op=hvd.Adasum)
    optimizer.load_state_dict(optimizer.state_dict())
    p.sum().backward()
    optimizer.step()
    scheduler.step()
    assert optimizer.param_groups[0]["lr"] == 0.5
