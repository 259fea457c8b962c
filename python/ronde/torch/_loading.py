"""Loading an optimizer's state into the dicts that it has.

``torch.optim.Optimizer.load_state_dict`` puts new dicts in their places. A distributed optimizer shares its dicts with the
one it wraps, and a scheduler made before the wrapping holds that one: with new dicts its learning rates would reach nobody.

It puts new tensors in their places too. A program may hold the old ones: a learning rate that it changes in place, one
buffer of which the state's tensors are views. Where state is broadcast in the middle of a program, not loaded from a
file, they are therefore filled and stay (``TensorsBefore``).
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict, List, Set, Tuple

import torch

from ronde.torch._tensors import is_expanded


def load_in_place(optimizer: torch.optim.Optimizer, load: Callable[[], None]) -> None:
    """Calls ``load``, which loads state into the optimizer, and moves what came into the dicts that were there before."""
    groups, held = optimizer.param_groups, optimizer.state
    load()
    for old, new in zip(groups, optimizer.param_groups):
        if old is not new:
            settings = dict(new)
            old.clear()
            old.update(settings)
    if held is not optimizer.state:
        loaded = dict(optimizer.state)
        held.clear()
        held.update(loaded)
    with contextlib.suppress(AttributeError):  # a class that wraps another optimizer may show that one's, which stay
        optimizer.param_groups = groups
    with contextlib.suppress(AttributeError):
        optimizer.state = held


class TensorsBefore:
    """The tensors in an optimizer's state and settings before something is loaded."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._groups = [dict(group) for group in optimizer.param_groups]
        self._state = {parameter: _copied(state) for parameter, state in optimizer.state.items()}

    def fill(self, optimizer: torch.optim.Optimizer) -> None:
        """Gives those that were there the values that have been loaded, and puts them back. Not where they differ in shape
        or type from what has come, nor where that is one tensor in other places than before."""
        pairs: List[Tuple[torch.Tensor, torch.Tensor]] = []
        for group, before in zip(optimizer.param_groups, self._groups):
            _pair(group, before, pairs)
        for parameter, before in self._state.items():
            _pair(optimizer.state.get(parameter), before, pairs)
        kept = _one_to_one(pairs)
        with torch.no_grad():
            for loaded, tensor in pairs:
                if id(loaded) in kept:
                    tensor.copy_(loaded)
        for group in optimizer.param_groups:
            _put_back(group, kept)
        for parameter, state in optimizer.state.items():
            optimizer.state[parameter] = _put_back(state, kept)


def _copied(state: Any) -> Any:
    """Lists and dicts are; what is in them is the same."""
    if type(state) is dict:
        return {key: _copied(value) for key, value in state.items()}
    return [_copied(value) for value in state] if type(state) is list else state


def _pair(new: Any, old: Any, pairs: List[Tuple[torch.Tensor, torch.Tensor]]) -> None:
    """Finds the tensors that stand in the same places."""
    if isinstance(new, torch.Tensor) and isinstance(old, torch.Tensor):
        pairs.append((new, old))
    elif isinstance(new, dict) and isinstance(old, dict):
        for key in new.keys() & old.keys():
            _pair(new[key], old[key], pairs)
    elif isinstance(new, (list, tuple)) and isinstance(old, (list, tuple)):
        for one, other in zip(new, old):
            _pair(one, other, pairs)


def _one_to_one(pairs: List[Tuple[torch.Tensor, torch.Tensor]]) -> Dict[int, torch.Tensor]:
    """By identity of the new tensor the old one that can take its place: wherever the one stands the other stood."""
    old_of: Dict[int, Set[int]] = {}
    new_of: Dict[int, Set[int]] = {}
    for new, old in pairs:
        old_of.setdefault(id(new), set()).add(id(old))
        new_of.setdefault(id(old), set()).add(id(new))
    return {
        id(new): old
        for new, old in pairs
        if new is not old and len(old_of[id(new)]) == len(new_of[id(old)]) == 1 and _can_be_filled(old, new)
    }


def _can_be_filled(old: torch.Tensor, new: torch.Tensor) -> bool:
    return (
        old.shape == new.shape
        and old.dtype == new.dtype
        and old.device == new.device
        and old.layout is new.layout is torch.strided
        and not is_expanded(old)
        and not old.is_inference()  # which may be changed in inference mode only
    )


def _put_back(value: Any, kept: Dict[int, torch.Tensor]) -> Any:
    """The same with the tensors that stay; lists and dicts are changed in place."""
    if isinstance(value, torch.Tensor):
        return kept.get(id(value), value)
    if isinstance(value, dict):
        for key, each in value.items():
            value[key] = _put_back(each, kept)
    elif isinstance(value, list):
        value[:] = [_put_back(each, kept) for each in value]
    elif type(value) is tuple:
        return tuple(_put_back(each, kept) for each in value)
    return value
