"""What a closure of ``step(closure)`` returns, where a wrapped optimizer goes by it, and whether it has made gradients."""

from __future__ import annotations

import contextlib
import enum
import functools
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, Optional, Set

import torch

from ronde.exceptions import InvalidArgumentError
from ronde.torch import _autograd


def goes_by_loss(optimizer: torch.optim.Optimizer, wrapper: type) -> bool:
    """Whether a step may depend on the loss: of PyTorch's own optimizers LBFGS's does, the others only return it. Of
    what other classes do nothing is known (step sizes of Polyak, line searches). ``wrapper``: whose subclasses have
    steps that are no optimizer's own."""
    for each in type(optimizer).__mro__:
        if "step" in vars(each) and not issubclass(each, wrapper):
            return not each.__module__.startswith("torch.optim.") or issubclass(each, torch.optim.LBFGS)
    return True


#: Reduces a tensor under a name, that all ranks give the same number.
Reduced = Callable[[torch.Tensor, str], torch.Tensor]


def of_all_ranks(loss: Any, reduced: Reduced, name: str = "loss") -> Any:
    """The loss by ``reduced``: a tensor, which nobody may differentiate, or for a number one of Python's. Of a tuple, list
    or dictionary each number that it has, be it in a tensor, is one, by its place or key; other tensors there, such as a
    model's outputs, and what is no number stay as they are. Integers become floating numbers."""
    if isinstance(loss, torch.Tensor):
        if loss.dtype == torch.bool:
            return loss
        if not loss.is_floating_point() and not loss.is_complex():
            return reduced(loss.to(torch.float64), name)
        everyones = reduced(loss.detach(), name)
        return _autograd.apply(_ValueOnly, loss, everyones) if loss.requires_grad else everyones
    if isinstance(loss, dict):
        # By name, so in whatever order a rank has put them in; but each rank begins them in one order, and waits for each.
        keys = sorted(loss, key=repr)
        found = {key: _part_of_all_ranks(loss[key], reduced, f"{name}[{key!r}]") for key in keys}
        return {key: found[key] for key in loss}
    if isinstance(loss, (tuple, list)):
        parts = [_part_of_all_ranks(each, reduced, f"{name}[{index}]") for index, each in enumerate(loss)]
        return type(loss)(*parts) if hasattr(loss, "_fields") else type(loss)(parts)
    if isinstance(loss, bool) or not hasattr(loss, "__float__"):
        return loss
    try:
        number = float(loss)
    except (TypeError, ValueError):  # an array of several, say
        return loss
    return reduced(torch.tensor(number, dtype=torch.float64), name).item()  # as wide as Python's


def _part_of_all_ranks(part: Any, reduced: Reduced, name: str) -> Any:
    has_several = isinstance(part, torch.Tensor) and part.numel() != 1
    return part if has_several else of_all_ranks(part, reduced, name)


class SeenGradients:
    """Gradients as they are now. Keeps copies."""

    def __init__(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        self._seen = {each: _SeenGradient(each.grad) for each in parameters if each.grad is not None}

    def of(self, parameter: torch.nn.Parameter) -> Optional["_SeenGradient"]:
        """None: it had none."""
        return self._seen.get(parameter)


class Known(enum.Enum):
    """What is known of a gradient that is there before an evaluation."""

    NOT_REDUCED = enum.auto()
    REDUCED = enum.auto()
    NOTHING = enum.auto()


def known_of(parameter: torch.nn.Parameter, left_reduced: Optional[SeenGradients]) -> Known:
    """Before the first evaluation of a step, of gradients of which some were reduced since there were none. ``left_reduced``:
    those that the last step has left, if that had a closure. Another tensor is one that the program has set."""
    gradient = parameter.grad
    if gradient is None:
        return Known.NOT_REDUCED
    if left_reduced is None:
        return Known.NOTHING
    seen = left_reduced.of(parameter)
    if seen is None or not seen.is_of(gradient):
        return Known.NOT_REDUCED
    return Known.REDUCED if seen.is_as_it_was(gradient) else Known.NOTHING


class Evaluation:
    """One evaluation of a closure, where to reduce what was reduced would change it: what it has made of the gradients.

    No hook tells of gradients that a closure sets without a backward pass; another tensor in their place does. Where it writes
    to one that was reduced nobody can say whether that is a new gradient or the old one clipped, so that is refused. So is what
    would be reduced once more beside something new: gradients that a pass adds to, and those that it leaves.
    """

    def __init__(self, known: Dict[torch.nn.Parameter, Known]) -> None:
        """``known``: of all parameters."""
        self._known = known
        self._before = SeenGradients(known)
        self._reached: Set[torch.nn.Parameter] = set()  # by a pass
        self._are_left = False

    @contextlib.contextmanager
    def under_way(self) -> Iterator[None]:
        """While the closure runs."""
        hooks = []
        for parameter in self._known:
            if parameter.requires_grad:
                node = _accumulator(parameter)  # which a parameter holds weakly, and would get anew
                hooks.append((node, node.register_prehook(functools.partial(self._reach, parameter))))
        try:
            yield
        finally:
            for _, hook in hooks:
                hook.remove()

    def has_new(self) -> bool:
        """Whether it has left gradients that are to be reduced. Raises ValueError where that cannot be told."""
        are_new = False
        for parameter, known in self._known.items():
            gradient, seen = parameter.grad, self._before.of(parameter)
            if gradient is None or not _is_any(gradient):
                are_new = are_new or parameter in self._reached
            elif known is Known.NOT_REDUCED or parameter in self._reached or seen is None or not seen.is_of(gradient):
                are_new = True
            elif not seen.is_as_it_was(gradient):
                raise _refused("the closure has written to gradients that were reduced already, without a backward pass")
            elif known is Known.NOTHING:
                raise _refused("whether the gradients that are there were reduced already cannot be told")
            else:
                self._are_left = True
        if are_new:
            self.require_none_left()
        return are_new

    def require_none_left(self) -> None:
        """Raises ValueError if it has left gradients that were reduced already."""
        if self._are_left:
            raise _refused("the closure has computed some gradients anew, and left others that were reduced already")

    def _reach(self, parameter: torch.nn.Parameter, _: object) -> None:
        gradient, seen = parameter.grad, self._before.of(parameter)
        is_first = parameter not in self._reached and self._known[parameter] is not Known.NOT_REDUCED
        if is_first and gradient is not None and seen is not None and seen.is_as_it_was(gradient) and _is_any(gradient):
            raise _refused("a backward pass of the closure adds to gradients that were reduced already")
        self._reached.add(parameter)


def _refused(what: str) -> InvalidArgumentError:
    return InvalidArgumentError(
        f"optimizer.step(closure): {what}; with Sum, Product, compressors of your own, and averages while a rank has joined, "
        "they would become others if they were reduced once more. Call optimizer.zero_grad() in the closure, before backward()",
        1,
    )


def _accumulator(parameter: torch.nn.Parameter) -> Any:
    """Autograd's node that adds to the gradient; hooks of the tensor's are called for ``torch.autograd.grad()`` too."""
    with torch.enable_grad():
        return parameter.view_as(parameter).grad_fn.next_functions[0][0]  # type: ignore[union-attr] # it has one


class _SeenGradient:
    def __init__(self, gradient: torch.Tensor) -> None:
        self._reference = weakref.ref(gradient)
        self._values = gradient.detach().clone()

    def is_of(self, gradient: torch.Tensor) -> bool:
        return self._reference() is gradient

    def is_as_it_was(self, gradient: torch.Tensor) -> bool:
        return self.is_of(gradient) and _have_same_bits(self._values, gradient.detach())


def _have_same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    """As numbers a NaN is not even itself."""
    if one.layout != torch.strided:
        one, other = one.coalesce(), other.coalesce()
        return torch.equal(one.indices(), other.indices()) and _have_same_bits(one.values(), other.values())
    return one.shape == other.shape and torch.equal(_bits_of(one), _bits_of(other))


def _bits_of(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.resolve_conj().resolve_neg().reshape(-1).contiguous().view(torch.uint8)


def _is_any(gradient: torch.Tensor) -> bool:
    """Whether it is not zero."""
    values = gradient.detach() if gradient.layout == torch.strided else gradient.detach().coalesce().values()
    return bool(_bits_of(values).any())


class _ValueOnly(torch.autograd.Function):
    """The second tensor's value in the first one's place. An optimizer that differentiates it would go by its rank's own
    gradients: it is told."""

    @staticmethod
    def forward(ctx: Any, loss: torch.Tensor, everyones: torch.Tensor) -> torch.Tensor:
        return everyones

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        raise InvalidArgumentError(
            "optimizer.step(closure): the optimizer differentiates the loss that the closure has returned, and would go by "
            "this rank's gradients alone: only those that the closure computes are reduced. Call backward() in the closure",
            1,
        )
