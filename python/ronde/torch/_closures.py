"""What a closure of ``step(closure)`` returns, where a wrapped optimizer goes by it, and whether it has made gradients."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, List, Optional, Tuple

import torch

from ronde.torch import _autograd


def goes_by_loss(optimizer: torch.optim.Optimizer, wrapper: type) -> bool:
    """Whether a step may depend on the loss: of PyTorch's own optimizers LBFGS's does, the others only return it. Of
    what other classes do nothing is known (step sizes of Polyak, line searches). ``wrapper``: whose subclasses have
    steps that are no optimizer's own."""
    for each in type(optimizer).__mro__:
        if "step" in vars(each) and not issubclass(each, wrapper):
            return not each.__module__.startswith("torch.optim.") or issubclass(each, torch.optim.LBFGS)
    return True


def of_all_ranks(loss: Any, reduced: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """The loss by ``reduced``: a tensor of floating numbers, whose gradient is this rank's part, or for a number one of
    Python's. What is neither stays as it is."""
    if isinstance(loss, torch.Tensor):
        if not loss.is_floating_point():
            return loss
        everyones = reduced(loss.detach())
        return _autograd.apply(_WithGradientOf, loss, everyones) if loss.requires_grad else everyones
    if isinstance(loss, bool) or not hasattr(loss, "__float__"):
        return loss
    try:
        number = float(loss)
    except (TypeError, ValueError):  # an array of several, say
        return loss
    return reduced(torch.tensor(number, dtype=torch.float64)).item()  # as wide as Python's


class SeenGradients:
    """Gradients as they were when they had been reduced. Those that a program sets by itself no hook tells of."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._seen: List[Tuple[Optional["weakref.ref[torch.Tensor]"], Optional[int]]] = [
            (None, None) if each.grad is None else (weakref.ref(each.grad), _version_of(each.grad)) for each in parameters
        ]

    def have_changed(self, parameters: Iterable[torch.nn.Parameter]) -> bool:
        """Whether one of them, in the order of then, was replaced or written to since."""
        now = [each.grad for each in parameters]
        return len(now) != len(self._seen) or any(
            (reference() if reference is not None else None) is not gradient
            or (gradient is not None and (version is None or version != _version_of(gradient)))
            for (reference, version), gradient in zip(self._seen, now)
        )


def _version_of(gradient: torch.Tensor) -> Optional[int]:
    """None: it is not counted."""
    return None if gradient.is_inference() else gradient._version


class _WithGradientOf(torch.autograd.Function):
    """The second tensor's value with the first one's gradient: an optimizer may ask for derivatives itself, which are
    those of its rank's part."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, everyones: torch.Tensor) -> torch.Tensor:
        return everyones

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return gradient, None
