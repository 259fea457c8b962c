"""What a closure of ``step(closure)`` returns, where a wrapped optimizer goes by it, and whether it has made gradients."""

from __future__ import annotations

import contextlib
import enum
import functools
import weakref
from typing import Any, Callable, Dict, Iterable, Iterator, NamedTuple, Optional, Set

import torch

from ronde.exceptions import InvalidArgumentError
from ronde.torch import _autograd
from ronde.torch._answers import Answers


def goes_by_loss(optimizer: torch.optim.Optimizer, wrapper: type) -> bool:
    """Whether a step may depend on the loss: of PyTorch's own optimizers LBFGS's does, the others only return it. Of
    what other classes do nothing is known (step sizes of Polyak, line searches). ``wrapper``: whose subclasses have
    steps that are no optimizer's own."""
    for each in type(optimizer).__mro__:
        if "step" in vars(each) and not issubclass(each, wrapper):
            return not each.__module__.startswith("torch.optim.") or issubclass(each, torch.optim.LBFGS)
    return True


_DIFFERENTIATED = (
    "optimizer.step(closure): the optimizer differentiates the loss that the closure has returned, and would go by this rank's "
    "gradients alone: only those that the closure computes are reduced. Call backward() in the closure"
)

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
        return _autograd.with_value(loss, everyones, _DIFFERENTIATED) if loss.requires_grad else everyones
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
    those that the last step has left, if that had a closure."""
    gradient = parameter.grad
    if gradient is None:
        return Known.NOT_REDUCED
    if left_reduced is None:
        return Known.NOTHING
    seen = left_reduced.of(parameter)
    if seen is None:
        return Known.NOT_REDUCED
    return Known.REDUCED if seen.is_as_it_was(gradient) else Known.NOTHING


class Found(NamedTuple):
    """What an evaluation has made of the gradients."""

    is_new: bool  #: some of them are to be reduced
    are_left: bool  #: some were reduced already
    refusal: Optional[str]  #: it cannot be told of some


class Evaluation:
    """One evaluation of a closure, where to reduce what was reduced would change it: what it has made of the gradients.

    New are gradients where there was none, or only zeros, before a backward pass came, or before the closure set them. Whether
    what it has put in the place of reduced ones without a pass is new, or these clipped say, nobody can tell: that is refused.
    So is a pass that adds to them.
    """

    def __init__(self, known: Dict[torch.nn.Parameter, Known]) -> None:
        """``known``: of all parameters."""
        self._known = dict(known)
        self._before = SeenGradients(known)
        self._reached: Set[torch.nn.Parameter] = set()  # by a pass
        self._refusal: Optional[str] = None
        self._has_synchronized = False

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

    def note_zeroed(self) -> None:
        """The closure has called ``optimizer.zero_grad()``."""
        self._known = dict.fromkeys(self._known, Known.NOT_REDUCED)
        self._reached.clear()

    def note_synchronized(self) -> None:
        """The closure has called ``optimizer.synchronize()``. What it does to gradients afterwards, but by a pass, is clipping
        and the like."""
        self._known = dict.fromkeys(self._known, Known.REDUCED)
        self._before = SeenGradients(self._known)
        self._reached.clear()
        self._has_synchronized = True

    def look(self) -> Found:
        """At what is there now."""
        is_new = are_left = False
        refusal = self._refusal
        for parameter, known in self._known.items():
            gradient, seen = parameter.grad, self._before.of(parameter)
            if gradient is None or not _is_any(gradient):
                is_new = is_new or parameter in self._reached
            elif known is Known.NOT_REDUCED or seen is None:
                is_new = True
            elif self._has_synchronized or (seen.is_as_it_was(gradient) and known is Known.REDUCED):
                are_left = True
            elif seen.is_as_it_was(gradient):
                refusal = refusal or "whether the gradients that are there were reduced already cannot be told"
            elif seen.is_of(gradient):
                refusal = refusal or "the closure has written to gradients that were reduced already, without a pass"
            else:
                refusal = refusal or "the closure has replaced gradients that were reduced already, without a pass"
        return Found(is_new, are_left, refusal)

    def _reach(self, parameter: torch.nn.Parameter, _: object) -> None:
        """Before a pass adds to its gradient."""
        if parameter in self._reached:
            return
        self._reached.add(parameter)
        gradient = parameter.grad
        if gradient is None or not _is_any(gradient) or self._before.of(parameter) is None:
            self._known[parameter] = Known.NOT_REDUCED
        elif self._known[parameter] is not Known.NOT_REDUCED:
            self._refusal = "a backward pass of the closure adds to gradients that were reduced already"


def refused(answers: Answers, own: Optional[str]) -> Optional[InvalidArgumentError]:
    """The error of all ranks for what an evaluation has done on some, or None. ``own``: what this rank refuses."""
    what = own
    if what is None and answers.refused > 0:
        what = "another rank refuses what its closure has done to gradients"
    elif what is None and answers.touched > 0 and answers.left > 0:
        what = "the closure has computed some gradients anew, and left others that were reduced already, on some rank"
    if what is None:
        return None
    return InvalidArgumentError(
        f"optimizer.step(closure): {what}; with Sum, Product, compressors of your own, and averages while a rank has joined, "
        "they would become others if they were reduced once more. Call optimizer.zero_grad() in the closure, before "
        "gradients are computed",
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
