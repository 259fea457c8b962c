"""Tells when a ``GradScaler`` is about to read the gradients of an optimizer.

A scaler has no other way to say so than to read the optimizer's ``param_groups``, so these are a property there.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, Dict, List, Optional

import torch
from torch.amp.grad_scaler import OptState

#: Frames between a scaler's method and what reads an optimizer's ``param_groups`` for it.
_MOST_FRAMES = 8
#: The methods of a scaler that read gradients, in classes of the program's too. In others it may look at an optimizer for any
#: reason, on one rank only perhaps, to log the learning rate.
_READERS = ("unscale_", "_unscale_grads_", "_check_inf_per_device", "step")


def _has_stepped(scaler: torch.amp.GradScaler, optimizer: torch.optim.Optimizer) -> bool:
    """Whether this iteration's step of the optimizer is over, so that a look at it is for something else."""
    state = scaler._per_optimizer_states.get(id(optimizer))
    return state is not None and state["stage"] is OptState.STEPPED


def scaler_in(frame: Optional[FrameType], optimizer: torch.optim.Optimizer) -> Optional[torch.amp.GradScaler]:
    """The ``GradScaler``, perhaps of a class of the program's, of which a method is what looks at the optimizer in this
    frame, and not the optimizer itself, which a scaler calls too."""
    for _ in range(_MOST_FRAMES):
        if frame is None:
            break
        if frame.f_code.co_varnames[:1] == ("self",):
            caller = frame.f_locals.get("self")
            if caller is optimizer:
                break
            if isinstance(caller, torch.amp.GradScaler) and frame.f_code.co_name in _READERS:
                # One that is not enabled reads no gradients.
                return None if not caller.is_enabled() or _has_stepped(caller, optimizer) else caller
        frame = frame.f_back
    return None


class ReadByScalers(torch.optim.Optimizer):
    """An optimizer that learns of it. Before the wrapped optimizer's class in the order of methods."""

    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        """As the wrapped optimizer's, the same list. When a ``GradScaler``, or what derives from it, reads it, to unscale
        gradients and look for infinite ones, the ranks first see to it that all step, or skip the step, together."""
        scaler = scaler_in(sys._getframe(1), self)
        if scaler is not None:
            self._before_reading(scaler)
        return self._groups()

    @param_groups.setter
    def param_groups(self, groups: List[Dict[str, Any]]) -> None:
        if "param_groups" not in self.__dict__ and hasattr(super(), "param_groups"):
            raise AttributeError(f"the param_groups of {type(self).__name__} are a property of its class")
        self.__dict__["param_groups"] = groups

    def _groups(self) -> List[Dict[str, Any]]:
        # A class that wraps another optimizer may have a property of its own.
        own: Optional[List[Dict[str, Any]]] = self.__dict__.get("param_groups")
        return own if own is not None else super().param_groups

    def _before_reading(self, scaler: torch.amp.GradScaler) -> None:
        raise NotImplementedError
