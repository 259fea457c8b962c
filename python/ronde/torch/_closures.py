"""What a closure of ``step(closure)`` returns, where a wrapped optimizer goes by it, and whether it has made gradients."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Iterable, Optional

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
    """The loss by ``reduced``: a tensor, whose gradient is this rank's part, or for a number one of Python's. Of a tuple, list
    or dictionary each number that it has, be it in a tensor, is one; other tensors there, such as a model's outputs, and what
    is no number stay as they are. Integers become floating numbers."""
    if isinstance(loss, torch.Tensor):
        if loss.dtype == torch.bool:
            return loss
        if not loss.is_floating_point() and not loss.is_complex():
            return reduced(loss.to(torch.float64))
        everyones = reduced(loss.detach())
        return _autograd.apply(_WithGradientOf, loss, everyones) if loss.requires_grad else everyones
    if isinstance(loss, dict):
        return {key: _part_of_all_ranks(each, reduced) for key, each in loss.items()}
    if isinstance(loss, (tuple, list)):
        parts = [_part_of_all_ranks(each, reduced) for each in loss]
        return type(loss)(*parts) if hasattr(loss, "_fields") else type(loss)(parts)
    if isinstance(loss, bool) or not hasattr(loss, "__float__"):
        return loss
    try:
        number = float(loss)
    except (TypeError, ValueError):  # an array of several, say
        return loss
    return reduced(torch.tensor(number, dtype=torch.float64)).item()  # as wide as Python's


def _part_of_all_ranks(part: Any, reduced: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    has_several = isinstance(part, torch.Tensor) and part.numel() != 1
    return part if has_several else of_all_ranks(part, reduced)


class SeenGradients:
    """Gradients as they are now. Those that a program sets by itself no hook tells of: that another tensor is there, or other
    values, does. Keeps copies."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._seen = [None if each.grad is None else _SeenGradient(each.grad) for each in parameters]

    def have_changed(self, parameters: Iterable[torch.nn.Parameter]) -> bool:
        """Whether one of them, in the order of then, was replaced or written to since."""
        now = [each.grad for each in parameters]
        return len(now) != len(self._seen) or any(
            gradient is not None if seen is None else gradient is None or seen.is_another(gradient)
            for seen, gradient in zip(self._seen, now)
        )


class _SeenGradient:
    def __init__(self, gradient: torch.Tensor) -> None:
        self._reference = weakref.ref(gradient)
        self._version = _version_of(gradient)
        self._values = gradient.detach().clone()

    def is_another(self, gradient: torch.Tensor) -> bool:
        # What is written through p.grad.data, or NumPy's view of it, has no version.
        return (
            self._reference() is not gradient
            or self._version != _version_of(gradient)
            or (gradient.layout == torch.strided and not torch.equal(self._values, gradient))
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
