"""The types of an optimizer's state, which PyTorch's ``load_state_dict`` changes."""

from __future__ import annotations

from typing import Any, Dict, Iterator, Tuple

import torch


def shows_state(optimizer: torch.optim.Optimizer, state: Any) -> bool:
    """Whether ``state_dict`` has shown the tensors that the optimizer works with, as PyTorch's does, and no others."""
    try:
        return all(live.get(key) is value for live, shown in _by_parameter(optimizer, state) for key, value in shown.items())
    except (KeyError, TypeError, AttributeError):  # a class of the program's with a state of another form
        return False


def undo_casts(optimizer: torch.optim.Optimizer, state: Any) -> None:
    """PyTorch's ``load_state_dict`` gives floating state the type of its parameter: float32 state, a master copy of
    the weights above all, of parameters of 16 bits would be rounded. What is no tensor is put back as ``state`` has it."""
    for loaded, sent in _by_parameter(optimizer, state):
        for key, value in loaded.items():
            loaded[key] = _as_sent(value, sent.get(key, value))


def _by_parameter(optimizer: torch.optim.Optimizer, state: Any) -> Iterator[Tuple[Dict[Any, Any], Dict[Any, Any]]]:
    """Of each parameter its state in the optimizer, and as ``state_dict`` has it."""
    for group, listed in zip(optimizer.param_groups, state["param_groups"]):
        for parameter, number in zip(group["params"], listed["params"]):
            if number in state["state"]:
                yield optimizer.state.get(parameter, {}), state["state"][number]


def _as_sent(loaded: Any, sent: Any) -> Any:
    if isinstance(loaded, torch.Tensor) and isinstance(sent, torch.Tensor):
        return loaded if loaded.dtype == sent.dtype else sent.to(loaded.device)
    if isinstance(loaded, (list, tuple)) and type(loaded) in (list, tuple) and isinstance(sent, (list, tuple)):
        return type(loaded)(_as_sent(one, other) for one, other in zip(loaded, sent))
    if type(loaded) is dict and type(sent) is dict:
        return {key: _as_sent(value, sent.get(key, value)) for key, value in loaded.items()}
    if isinstance(loaded, torch.Tensor) or isinstance(sent, torch.Tensor):
        return loaded  # the class makes a tensor of a number, or the reverse
    return sent  # PyTorch makes a new one of everything that can be gone through: of a str, that of a generator
