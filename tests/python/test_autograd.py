"""Gradients through collectives."""

from __future__ import annotations

import pytest
import torch


@pytest.mark.ranks(1, 2, 3)
def test_allreduce(hvd, rank, world):
    for op, factor in ((hvd.Sum, world), (hvd.Average, 1)):
        x = torch.full((3,), rank + 1.0, requires_grad=True)
        y = hvd.allreduce(x, op=op, prescale_factor=0.5, postscale_factor=4.0)
        assert y.requires_grad
        (y * torch.tensor([1.0, 2.0, 3.0])).sum().backward()
        # Each rank's gradient is reduced with the same operation and factors.
        assert torch.allclose(x.grad, 2.0 * factor * torch.tensor([1.0, 2.0, 3.0]))


@pytest.mark.ranks(1, 2)
def test_grouped(hvd, rank, world):
    a, b = (torch.full((2,), float(i), requires_grad=True) for i in range(2))
    c, d = hvd.grouped_allreduce([a, b], op=hvd.Sum)
    (c.sum() + 2 * d.sum()).backward()
    assert bool((a.grad == world).all()) and bool((b.grad == 2 * world).all())


@pytest.mark.ranks(1, 2, 3)
def test_allgather(hvd, rank, world):
    x = torch.full((rank + 1, 2), 1.0, requires_grad=True)
    gathered = hvd.allgather(x)
    weights = torch.arange(gathered.numel(), dtype=torch.float32).reshape(gathered.shape)
    (gathered * weights).sum().backward()
    first = rank * (rank + 1) // 2
    assert torch.equal(x.grad, weights[first : first + rank + 1])  # the average of equal gradients


@pytest.mark.ranks(1, 2, 3)
def test_broadcast(hvd, rank, world):
    x = torch.ones(3, requires_grad=True)
    (hvd.broadcast(x, 0) * (rank + 1.0)).sum().backward()
    expected = sum(range(1, world + 1)) / world if rank == 0 else 0.0
    assert torch.allclose(x.grad, torch.full((3,), expected))


@pytest.mark.ranks(2)
def test_backward_need_not_run_in_the_same_order(hvd, rank):
    x = torch.ones(2, requires_grad=True)
    losses = [hvd.allreduce(x, op=hvd.Sum).sum() * (i + 1) for i in range(4)]
    handles = losses if rank == 0 else losses
    for loss in handles:
        loss.backward()
    assert x.grad.tolist() == [20.0, 20.0]


@pytest.mark.ranks(2)
def test_no_graph_without_need(hvd):
    x = torch.ones(2, requires_grad=True)
    with torch.no_grad():
        assert not hvd.allreduce(x).requires_grad
    assert not hvd.allreduce(torch.ones(2)).requires_grad


def second_derivative(call, x):
    """Of the sum of cubes of what the call makes of x."""
    (gradient,) = torch.autograd.grad(call(x).pow(3).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(gradient.sum(), x)
    return second


@pytest.mark.ranks(1, 2, 3)
def test_second_derivatives(hvd, rank, world):
    """f = the sum of cubes of y, the call's result. A gradient goes back as Horovod has it: summed through a sum, averaged
    through everything else; so does the gradient of the gradient."""
    x = torch.tensor([0.5 + rank, 1.0], requires_grad=True)
    total = hvd.allreduce(x.detach(), op=hvd.Sum, name="total")

    def summed(x):
        return hvd.allreduce(x, op=hvd.Sum)

    # dy = dx summed; f' = 3 y^2 of each rank, summed: 3 n y^2. Its derivative 6 n y times n, since each rank has a part.
    assert torch.allclose(second_derivative(summed, x), 6 * world * world * total)
    assert torch.allclose(
        second_derivative(lambda x: hvd.grouped_allreduce([x, x], op=hvd.Sum)[0], x), 6 * world * world * total
    )
    # Averages: y = total / n, f' = 3 y^2, f'' = 6 y.
    assert torch.allclose(second_derivative(lambda x: hvd.allreduce(x, op=hvd.Average), x), 6 * total / world)
    # The gradient of a rank's rows is the average of all ranks' 3 y^2 there; only this rank's loss has these rows' in it, so
    # what goes back is 1 / n, on every rank, times 6 y.
    of_rows = 6 * x.detach() / world
    assert torch.allclose(second_derivative(lambda x: hvd.allgather(x.view(1, 2)), x), of_rows)
    assert torch.allclose(second_derivative(lambda x: hvd.grouped_allgather([x.view(1, 2)])[0], x), of_rows)
    if world == 2:
        x = torch.tensor([1.0 + rank, 2.0 + rank], requires_grad=True)
        assert torch.allclose(second_derivative(lambda x: hvd.alltoall(x), x), 6 * x.detach())
    of_rows = 6 * x.detach() / world
    root = second_derivative(lambda x: hvd.broadcast(x, 0), x)
    assert torch.allclose(root, of_rows if rank == 0 else torch.zeros(2))


@pytest.mark.ranks(1, 2, 3)
def test_a_penalty_on_gradients(hvd, rank, world):
    """As in gradient penalties of GANs: the loss holds a gradient that went through a collective."""
    x = torch.full((2,), rank + 1.0, requires_grad=True)
    y = hvd.allreduce(x * x, op=hvd.Average)
    (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
    (gradient.square().sum() + y.sum()).backward()
    # gradient = 2 x, its square's derivative 8 x; and 2 x of y itself.
    assert torch.allclose(x.grad, 10 * x.detach())


@pytest.mark.ranks(2, 3)
def test_second_derivatives_of_rows(hvd, rank, world):
    x = torch.arange(2.0 * world, requires_grad=True)
    for op in (hvd.Sum, hvd.Average):
        assert second_derivative(lambda x: hvd.reducescatter(x, op=op), x).abs().sum() > 0


@pytest.mark.ranks(1, 2)
def test_forward_mode_is_refused(hvd, rank):
    """PyTorch says so; a result without a tangent would be a derivative of zero."""
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(torch.ones(3), torch.ones(3))
        with pytest.raises(NotImplementedError, match="forward"):
            hvd.allreduce(dual)
    assert hvd.allreduce(torch.ones(1)).item() == 1.0


@pytest.mark.ranks(2)
def test_no_name_of_a_program_is_that_of_a_gradient(hvd, rank, world):
    """Two threads: one runs a backward pass, the other makes a call that is named as one might name its gradient."""
    for name, call in (("w", hvd.allreduce), ("g", hvd.allgather)):
        x = torch.full((2,), float(rank + 1), requires_grad=True)
        y = call(x, name=name)
        names = [f"{name}.grad", f"{name}.grad.rows", f"grad of {name}"]
        others = [hvd.allreduce_async(torch.full((2,), 100.0 * (rank + 1)), op=hvd.Sum, name=each) for each in names]
        if rank == 0:
            y.sum().backward()
        for other in others:
            assert hvd.synchronize(other).tolist() == [300.0, 300.0]
        if rank == 1:
            y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0]
