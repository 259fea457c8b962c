"""Optimizers for very large batches, whose step in each tensor goes by the tensor's own size: LARS and LAMB.

    optimizer = large_batch.LAMB(model.parameters(), lr=learning_rate.square_root(1e-3, hvd.size()))
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())

Every rank has all of each averaged gradient, so the sizes need no communication. (``optax.lars`` and ``optax.lamb`` are
the same for JAX.)
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterable, Optional, Tuple, Union

import torch

from ronde.exceptions import InvalidArgumentError

__all__ = ["LAMB", "LARS"]

Parameters = Union[Iterable[torch.Tensor], Iterable[Dict[str, Any]]]


def _not_below_zero(**values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise InvalidArgumentError(f"{name} is {value}: it must not be below 0", 1)


def _adapts(group: Dict[str, Any], parameter: torch.Tensor) -> bool:
    """Biases and the scales of normalisation layers, which have one dimension, take plain steps and do not decay."""
    chosen: Optional[bool] = group["adapt"]
    return parameter.dim() > 1 if chosen is None else chosen


def _as_real(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers; complex ones as pairs of real ones, in the same memory unless it holds conjugates or negatives."""
    return torch.view_as_real(tensor.resolve_conj().resolve_neg()) if tensor.is_complex() else tensor


class _Adaptive(torch.optim.Optimizer):
    """What both do: one pass over all parameters that have gradients."""

    @torch.no_grad()
    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """One step of all parameters that have a gradient. ``closure``: as in every optimizer of PyTorch; its result is
        returned. Raises RuntimeError for a sparse gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        moved = [(group, p, p.grad) for group in self.param_groups for p in group["params"] if p.grad is not None]
        if any(gradient.is_sparse for _, _, gradient in moved):
            raise RuntimeError(f"{type(self).__name__} takes no sparse gradients: pass them to another optimizer")
        for group, parameter, gradient in moved:
            self._move(group, parameter, gradient)
        return loss

    def _move(self, group: Dict[str, Any], parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        raise NotImplementedError


class LARS(_Adaptive):
    """Layer-wise adaptive rate scaling of SGD with momentum (You et al. 2017): ``v = momentum * v + lr * ratio * (g +
    weight_decay * w)``, ``w = w - v``, with ``ratio = eta * |w| / (|g| + weight_decay * |w|)``, 1 where ``|w|`` or ``|g|``
    is 0."""

    def __init__(
        self,
        params: Parameters,
        lr: float,
        momentum: float = 0.9,
        weight_decay: float = 0.0,
        eta: float = 0.001,
        clip: bool = False,
        adapt: Optional[bool] = None,
    ) -> None:
        """Args, each of which a parameter group may have as its own:

        params: parameters or groups of them.
        lr: the learning rate.
        momentum: of the velocity, which contains the rate (see :func:`ronde.learning_rate.corrected_momentum`).
        weight_decay: of parameters that adapt.
        eta: how far a step goes at ``lr`` 1, as a part of ``|w|``.
        clip: ``min(lr, ratio)`` in place of ``lr * ratio`` (LARC).
        adapt: whether steps go by the tensor's size; None: those of more than one dimension.

        Raises ValueError for numbers below 0.
        """
        _not_below_zero(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta)
        defaults = dict(lr=lr, momentum=momentum, weight_decay=weight_decay, eta=eta, clip=clip, adapt=adapt)
        super().__init__(params, defaults)

    def _move(self, group: Dict[str, Any], parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        rate: Any = group["lr"]
        if _adapts(group, parameter):
            decay = group["weight_decay"]
            size, steepness = torch.linalg.vector_norm(parameter), torch.linalg.vector_norm(gradient)
            ratio = group["eta"] * size / (steepness + decay * size)
            ratio = torch.where((size > 0) & (steepness > 0), ratio, torch.ones_like(ratio))
            rate = ratio.clamp(max=float(rate)) if group["clip"] else rate * ratio
            gradient = gradient.add(parameter, alpha=decay)
        state = self.state[parameter]
        if "momentum_buffer" not in state:
            state["momentum_buffer"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        parameter.sub_(state["momentum_buffer"].mul_(group["momentum"]).add_(gradient * rate))


class LAMB(_Adaptive):
    """Layer-wise adaptive moments (You et al. 2019): Adam's direction ``r = m / (sqrt(v) + eps) + weight_decay * w``, both
    moments corrected for their start, and ``w = w - lr * |w| / |r| * r``, with 1 for the ratio where ``|w|`` or ``|r|`` is
    0. Complex parameters are pairs of real ones, as for :class:`torch.optim.Adam`."""

    def __init__(
        self,
        params: Parameters,
        lr: float = 1e-3,
        betas: Tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        adapt: Optional[bool] = None,
    ) -> None:
        """Args, each of which a parameter group may have as its own:

        params: parameters or groups of them.
        lr: the learning rate.
        betas: of the running means of the gradient and of its square, from 0 to below 1.
        eps: added to the root of the latter.
        weight_decay: of parameters that adapt.
        adapt: whether steps go by the tensor's size; None: those of more than one dimension.

        Raises ValueError for numbers out of these ranges.
        """
        _not_below_zero(lr=lr, eps=eps, weight_decay=weight_decay)
        if not all(0 <= beta < 1 for beta in betas):
            raise InvalidArgumentError(f"betas are {betas}: both must be from 0 to below 1", 1)
        super().__init__(params, dict(lr=lr, betas=betas, eps=eps, weight_decay=weight_decay, adapt=adapt))

    def _move(self, group: Dict[str, Any], parameter: torch.Tensor, gradient: torch.Tensor) -> None:
        state = self.state[parameter]
        if "step" not in state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            state["exp_avg_sq"] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
        state["step"] += 1
        first, second = group["betas"]
        values, gradient = _as_real(parameter), _as_real(gradient)
        mean = _as_real(state["exp_avg"]).mul_(first).add_(gradient, alpha=1 - first)
        square = _as_real(state["exp_avg_sq"]).mul_(second).addcmul_(gradient, gradient, value=1 - second)
        root = (square / (1 - second ** state["step"])).sqrt_().add_(group["eps"])
        direction = (mean / (1 - first ** state["step"])).div_(root)
        rate: Any = group["lr"]
        if _adapts(group, parameter):
            direction.add_(values, alpha=group["weight_decay"])
            size, length = torch.linalg.vector_norm(values), torch.linalg.vector_norm(direction)
            rate = rate * torch.where((size > 0) & (length > 0), size / length, torch.ones_like(size))
        step = direction * rate
        parameter.sub_(torch.view_as_complex(step) if parameter.is_complex() else step)
