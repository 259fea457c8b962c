"""Loading an optimizer's state into the dicts that it has.

``torch.optim.Optimizer.load_state_dict`` puts new dicts in their places. A distributed optimizer shares its dicts with the
one it wraps, and a scheduler made before the wrapping holds that one: with new dicts its learning rates would reach nobody.
"""

from __future__ import annotations

from typing import Callable

import torch


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
    optimizer.param_groups = groups
    optimizer.state = held
