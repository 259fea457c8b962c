"""Tells when a ``GradScaler`` is about to read the gradients of an optimizer.

A scaler has no other way to say so than to read the optimizer's ``param_groups``, so these are a property there.
"""

from __future__ import annotations

from types import FrameType
from typing import Optional

import torch

#: Frames between a scaler's method and what reads an optimizer's ``param_groups`` for it.
_MOST_FRAMES = 8


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
            if isinstance(caller, torch.amp.GradScaler):
                return caller
        frame = frame.f_back
    return None
