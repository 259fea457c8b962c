"""Optimizers of Keras 3, on any of its backends, that step with the gradients of all ranks.

The class of the object is replaced by a subclass of its own with the same name: it keeps its variables, iterations and
schedule, and a saved model holds what it was before, so that it can be loaded without Ronde. A deep copy, and what is made
from the class or its ``from_config``, steps with the gradients of all ranks too.
"""

from __future__ import annotations

import contextlib
import sys
from typing import Any, Callable, Iterator, List, NamedTuple, Sequence, Set

from ronde.exceptions import InvalidArgumentError

#: Takes gradients, their variables and the keys of those that are not to be reduced; returns gradients in their order.
Reduce = Callable[[Sequence[Any], Sequence[Any], Set[Any]], List[Any]]

#: How far up an optimizer is looked for that takes another one into itself.
_FRAMES = 6


class Reduction(NamedTuple):
    """What a distributed optimizer knows besides."""

    reduce: Reduce
    reduce_overwriting: Reduce  # by Max
    key_of: Callable[[Any], Any]
    local: Set[Any]  # keys of variables
    factor: float  # by which gradients of several passes are multiplied: Keras divides by the number of passes


class _Reducing:
    """Goes before the optimizer's own class."""

    #: Another one, around this one, has reduced what comes.
    _ronde_is_inside = False

    def __reduce__(self) -> Any:
        """As the optimizer that it was: what it knows besides belongs to this process."""
        reduced: Any = super().__reduce__()
        function, arguments = reduced
        own: Any = type(self).__bases__[1]
        return getattr(own, function.__name__), arguments

    def __deepcopy__(self, memo: Any) -> Any:
        function, arguments = self.__reduce__()
        copied = function(*arguments)
        copied.__class__ = type(self)
        return copied

    def register_local_var(self, var: Any) -> None:
        """The gradient of this variable is not reduced from now on."""
        reduction = _reduction_of(self)
        reduction.local.add(reduction.key_of(var))

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """As in Keras, with the gradients of all ranks. Collective."""
        if self._ronde_is_inside:
            return super().apply(grads, trainable_variables)  # type: ignore[misc] # a mixin's
        gradients = list(grads)
        own = trainable_variables
        if own is None:
            own = self._trainable_variables  # type: ignore[attr-defined] # a mixin's
        variables = list(own)
        if _reduces_before_clipping(self):
            # Keras assigns these in each pass, and never hands them to _clip_gradients().
            gradients = _with_overwriting_reduced(self, gradients, variables, gradients)
            clipped = [
                each for gradient, each in zip(gradients, variables) if gradient is not None and not _is_overwritten(each)
            ]
            object.__setattr__(self, "_ronde_variables", clipped)
        else:
            gradients = _reduced(self, gradients, variables)
        return super().apply(gradients, None if trainable_variables is None else variables)  # type: ignore[misc] # a mixin's

    def _clip_gradients(self, grads: Any) -> Any:
        """What Keras calls once a step with what is to be applied: with gradient accumulation, after the last pass."""
        if _reduces_before_clipping(self) and not self._ronde_is_inside:
            grads = _reduced(self, list(grads), self._ronde_variables)  # type: ignore[attr-defined] # a mixin's
        return super()._clip_gradients(grads)  # type: ignore[misc] # a mixin's


class _Scaling(_Reducing):
    """The same of an optimizer around another one that scales the loss. What it looks at, to see whether all is finite,
    must be what all ranks have, or only some of them would step. The one inside does not reduce once more."""

    def apply(self, grads: Any, trainable_variables: Any = None) -> Any:
        """As in Keras, with the gradients of all ranks. Collective."""
        with _inside(self):
            return super().apply(grads, trainable_variables)

    def stateless_apply(self, optimizer_variables: Any, grads: Any, trainable_variables: Any) -> Any:
        """As in Keras, where it does not go through ``apply``. Collective."""
        reduced = _reduced(self, list(grads), self._trainable_variables)  # type: ignore[attr-defined] # a mixin's
        with _inside(self):
            return super().stateless_apply(  # type: ignore[misc] # a mixin's
                optimizer_variables, reduced, trainable_variables
            )


class _Movable(_Reducing):
    """The same of an optimizer that Keras may put into one that scales the loss, as each ``compile`` does under a policy of
    mixed precision. That one has to reduce then, and says that it takes this one by setting its ``loss_scale_factor``."""

    @property
    def loss_scale_factor(self) -> Any:
        """As in Keras, which looks at it before it sets it, and does not set what is there already."""
        self._share()
        return self.__dict__.get("loss_scale_factor")

    @loss_scale_factor.setter
    def loss_scale_factor(self, value: Any) -> None:
        self._share()
        self.__dict__["loss_scale_factor"] = value

    def _share(self) -> None:
        """If it is being put into another one, that one reduces too."""
        frame: Any = sys._getframe(2)
        for _ in range(_FRAMES):
            if frame is None:
                return
            candidate = frame.f_locals.get("self")
            if getattr(candidate, "__dict__", {}).get("inner_optimizer") is self:
                if not is_wrapped(candidate):
                    _put(candidate, _reduction_of(self))
                return
            frame = frame.f_back


@contextlib.contextmanager
def _inside(outer: Any) -> Iterator[None]:
    """What the optimizer calls of the one in it has been reduced."""
    inner = outer.inner_optimizer
    object.__setattr__(inner, "_ronde_is_inside", True)
    try:
        yield
    finally:
        object.__setattr__(inner, "_ronde_is_inside", False)


def _reduction_of(optimizer: Any) -> Reduction:
    found: Reduction = optimizer._ronde_reduction
    return found


def _reduced(optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any]) -> List[Any]:
    reduction = _reduction_of(optimizer)
    # None in the place of what is reduced otherwise, so that the places, by which requests are named, stay.
    stepped = [None if _is_overwritten(variable) else gradient for gradient, variable in zip(gradients, variables)]
    reduced = reduction.reduce(stepped, variables, reduction.local)
    if reduction.factor != 1:
        reduced = [None if each is None else each * reduction.factor for each in reduced]
    return _with_overwriting_reduced(optimizer, gradients, variables, reduced)


def _is_overwritten(variable: Any) -> bool:
    """Whether Keras assigns the "gradient" to the variable, in place of a step: scales of float8, for example."""
    return bool(getattr(variable, "overwrite_with_gradient", False))


def _with_overwriting_reduced(
    optimizer: Any, gradients: Sequence[Any], variables: Sequence[Any], others: Sequence[Any]
) -> List[Any]:
    """``others``, and where Keras overwrites the variable the greatest gradient of all ranks, as Keras takes the greatest of
    several passes: one process has it of the whole batch."""
    own = [gradient if _is_overwritten(variable) else None for gradient, variable in zip(gradients, variables)]
    if all(each is None for each in own):
        return list(others)
    reduction = _reduction_of(optimizer)
    greatest = reduction.reduce_overwriting(own, variables, reduction.local)
    return [other if mine is None else most for mine, most, other in zip(own, greatest, others)]


def _reduces_before_clipping(optimizer: Any) -> bool:
    return bool(getattr(optimizer, "gradient_accumulation_steps", None)) and not isinstance(optimizer, _Scaling)


def _put(optimizer: Any, reduction: Reduction) -> None:
    mixin = _Scaling if hasattr(optimizer, "inner_optimizer") else _Movable
    base: Any = type(optimizer)
    known = {"__module__": base.__module__, "_ronde_reduction": reduction}
    optimizer.__class__ = type(base.__name__, (mixin, base), known)


def wrap(
    optimizer: Any,
    reduce: Reduce,
    reduce_overwriting: Reduce,
    key_of: Callable[[Any], Any],
    passes: int,
    average_passes: bool,
) -> Any:
    """The optimizer itself, changed.

    Args:
        reduce: what is done with gradients.
        reduce_overwriting: with those by which Keras overwrites variables.
        key_of: tells variables apart.
        passes: over how many gradients are accumulated, by Keras's ``gradient_accumulation_steps``.
        average_passes: whether they are averaged; else they are added.

    Raises InvalidArgumentError if it has been changed already, or was built without accumulation.
    """
    if isinstance(optimizer, _Reducing):
        raise InvalidArgumentError("the optimizer is a DistributedOptimizer already: its gradients are reduced once", 1)
    factor = 1.0
    if passes != 1:
        _accumulate(getattr(optimizer, "inner_optimizer", optimizer), passes)
        factor = 1.0 if average_passes else float(passes)
    _put(optimizer, Reduction(reduce, reduce_overwriting, key_of, set(), factor))
    return optimizer


def _accumulate(optimizer: Any, passes: int) -> None:
    if passes < 1:
        raise InvalidArgumentError(f"backward_passes_per_step is {passes}; expected 1 or more", 1)
    if optimizer.gradient_accumulation_steps not in (None, passes):
        raise InvalidArgumentError(
            f"backward_passes_per_step is {passes}, but the optimizer has gradient_accumulation_steps="
            f"{optimizer.gradient_accumulation_steps}: give one of the two",
            1,
        )
    if optimizer.built and optimizer.gradient_accumulation_steps is None:
        raise InvalidArgumentError(
            "backward_passes_per_step needs an optimizer that has no variables yet: wrap it before it is built", 1
        )
    optimizer.gradient_accumulation_steps = passes


def is_wrapped(optimizer: Any) -> bool:
    """Whether :func:`wrap` has changed it."""
    return isinstance(optimizer, _Reducing)
