"""LARS and LAMB against NumPy in double, beside optax, and distributed."""

from __future__ import annotations

import copy

import numpy as np
import optax
import pytest
import torch

from ronde.torch.large_batch import LAMB, LARS

STEPS = 7
SHAPES = ((4, 3), (5,), (2, 3, 2), ())


def problem(dtype=torch.float64):
    """Parameters, of which the third are zeros, and gradients of several steps, of which one is zeros."""
    generator = np.random.default_rng(3)
    start = [generator.normal(size=shape) for shape in SHAPES]
    start[2] *= 0
    gradients = [[generator.normal(size=shape) for shape in SHAPES] for _ in range(STEPS)]
    gradients[3][0] *= 0
    parameters = [torch.nn.Parameter(torch.tensor(value, dtype=dtype)) for value in start]
    return start, gradients, parameters


def run(optimizer, parameters, gradients) -> list[np.ndarray]:
    for step in gradients:
        for parameter, gradient in zip(parameters, step):
            parameter.grad = torch.tensor(gradient, dtype=parameter.dtype)
        optimizer.step()
    return [parameter.detach().numpy() for parameter in parameters]


def lars(values, gradients, lr, momentum, decay, eta, clip, adapt):
    values = [value.copy() for value in values]
    velocity = [np.zeros_like(value) for value in values]
    for step in gradients:
        for i, (w, g) in enumerate(zip(values, step)):
            rate = lr
            if w.ndim > 1 if adapt is None else adapt:
                size, steepness = np.sqrt((w**2).sum()), np.sqrt((g**2).sum())
                ratio = eta * size / (steepness + decay * size) if size > 0 and steepness > 0 else 1.0
                rate = min(lr, ratio) if clip else lr * ratio
                g = g + decay * w
            velocity[i] = momentum * velocity[i] + rate * g
            values[i] = w - velocity[i]
    return values


def lamb(values, gradients, lr, betas, eps, decay, adapt):
    values = [value.copy() for value in values]
    m, v = [np.zeros_like(value) for value in values], [np.zeros_like(value) for value in values]
    for t, step in enumerate(gradients, 1):
        for i, (w, g) in enumerate(zip(values, step)):
            m[i] = betas[0] * m[i] + (1 - betas[0]) * g
            v[i] = betas[1] * v[i] + (1 - betas[1]) * g**2
            r = m[i] / (1 - betas[0] ** t) / (np.sqrt(v[i] / (1 - betas[1] ** t)) + eps)
            ratio = 1.0
            if w.ndim > 1 if adapt is None else adapt:
                r = r + decay * w
                size, length = np.sqrt((w**2).sum()), np.sqrt((r**2).sum())
                ratio = size / length if size > 0 and length > 0 else 1.0
            values[i] = w - lr * ratio * r
    return values


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("adapt", [None, True, False])
@pytest.mark.parametrize("clip", [False, True])
def test_lars(decay, adapt, clip):
    start, gradients, parameters = problem()
    optimizer = LARS(parameters, lr=0.3, momentum=0.8, weight_decay=decay, eta=0.02, clip=clip, adapt=adapt)
    found = run(optimizer, parameters, gradients)
    for one, other in zip(found, lars(start, gradients, 0.3, 0.8, decay, 0.02, clip, adapt)):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("decay", [0.0, 0.01])
@pytest.mark.parametrize("adapt", [None, True, False])
def test_lamb(decay, adapt):
    start, gradients, parameters = problem()
    found = run(LAMB(parameters, lr=0.05, betas=(0.8, 0.95), weight_decay=decay, adapt=adapt), parameters, gradients)
    for one, other in zip(found, lamb(start, gradients, 0.05, (0.8, 0.95), 1e-6, decay, adapt)):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("is_lazy", [True, False])
@pytest.mark.parametrize("adapt", [True, False])
@pytest.mark.parametrize("make", [LARS, LAMB])
def test_complex_parameters_are_pairs_of_real_ones(make, adapt, is_lazy):
    """``is_lazy``: in the parameter's memory lie the conjugates of its numbers."""
    generator = torch.Generator().manual_seed(5)
    start = torch.randn(4, 3, dtype=torch.complex128, generator=generator)
    gradients = [torch.randn(4, 3, dtype=torch.complex128, generator=generator) for _ in range(STEPS)]
    kept = start.conj().resolve_conj().conj() if is_lazy else start.clone()
    complex_one, pairs = torch.nn.Parameter(kept), torch.nn.Parameter(torch.view_as_real(start).clone())
    optimizers = [make([each], lr=0.1, weight_decay=0.01, adapt=adapt) for each in (complex_one, pairs)]
    for gradient in gradients:
        complex_one.grad, pairs.grad = gradient.conj().resolve_conj().conj(), torch.view_as_real(gradient).clone()
        for optimizer in optimizers:
            optimizer.step()
    assert complex_one.grad.is_conj()
    assert complex_one.is_conj() == is_lazy
    torch.testing.assert_close(torch.view_as_real(complex_one.detach().resolve_conj()), pairs.detach(), rtol=1e-12, atol=1e-12)


def test_as_optax_has_it():
    """What JAX's users take is the same."""
    start, gradients, parameters = problem(torch.float32)
    found = run(LAMB(parameters, lr=0.05, weight_decay=0.01, adapt=True), parameters, gradients)
    optimizer = optax.lamb(0.05, weight_decay=0.01)
    values = [np.float32(value) for value in start]
    state = optimizer.init(values)
    for step in gradients:
        updates, state = optimizer.update([np.float32(gradient) for gradient in step], state, values)
        values = optax.apply_updates(values, updates)
    for one, other in zip(found, values):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("make", [LARS, LAMB])
def test_states_and_mistakes(make):
    _, gradients, parameters = problem()
    optimizer = make(parameters, lr=0.1)
    run(optimizer, parameters, gradients)
    others = copy.deepcopy(parameters)
    resumed = make(others, lr=0.5)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    for one, other in zip(run(optimizer, parameters, gradients), run(resumed, others, gradients)):
        assert np.array_equal(one, other)
    assert optimizer.step(lambda: 5.0) == 5.0
    with pytest.raises(ValueError, match="lr is -1"):
        make(parameters, lr=-1.0)
    parameters[0].grad = torch.sparse_coo_tensor([[0]], torch.ones(1, 3, dtype=torch.float64), (4, 3))
    with pytest.raises(RuntimeError, match="no sparse gradients"):
        optimizer.step()
    with pytest.raises(ValueError, match="betas"):
        LAMB(parameters, betas=(0.9, 1.0))


@pytest.mark.ranks(2, 3)
@pytest.mark.parametrize("make", [LARS, LAMB])
def test_distributed(hvd, rank, world, make):
    _, gradients, parameters = problem()
    shares = [[gradient * 2 * (rank + 1) / (world + 1) for gradient in step] for step in gradients]
    names = [(f"p{i}", parameter) for i, parameter in enumerate(parameters)]
    optimizer = hvd.DistributedOptimizer(make(parameters, lr=0.1), named_parameters=names)
    for step in shares:
        optimizer.zero_grad()
        sum((parameter * torch.tensor(gradient)).sum() for parameter, gradient in zip(parameters, step)).backward()
        optimizer.step()
    _, _, alone = problem()
    for one, other in zip(parameters, run(make(alone, lr=0.1), alone, gradients)):
        np.testing.assert_allclose(one.detach().numpy(), other, rtol=1e-10, atol=1e-12)
