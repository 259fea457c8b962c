"""Generations of gradients: those of a later one never meet those of an earlier one, since their names differ.

A rank that drops a backward pass (``load_state_dict()``), or whose step fails, may have asked the others for gradients that they
never ask for, or not have asked for theirs. What it asks for afterwards belongs to another generation, and the others follow
(see ``_step_summary``).
"""

from __future__ import annotations

from typing import Dict

import torch

from ronde import _abi
from ronde.torch import _living_reducers, _names
from ronde.torch._places import epoch_now
from ronde.torch._start import start_allreduce


class _Latest:
    """Of this process, in the job of this epoch."""

    epoch = 0
    numbers: Dict[str, int] = {}  # by the name of the optimizer, which its successors have too
    least: Dict[int, int] = {}  # of all, by their process set


def latest_generation(name: str) -> int:
    """What an optimizer of this name begins with: earlier ones of this job may have got so far. 0 in a new job."""
    if _Latest.epoch != epoch_now():
        return 0
    return max(_Latest.numbers.get(name, 0), _Latest.least.get(_names.group_of(name), 0))


def reached(name: str, generation: int) -> None:
    """Optimizers of this name begin with this one."""
    _enter_job()
    if generation > 0:
        _Latest.numbers[name] = max(generation, _Latest.numbers.get(name, 0))


def all_reached(name: str, generation: int) -> None:
    """The same, and those that there are go on with it, since their gradients have the same names."""
    reached(name, generation)
    _living_reducers.go_along(name, generation)


def _enter_job() -> None:
    if _Latest.epoch != epoch_now():
        _Latest.epoch, _Latest.numbers, _Latest.least = epoch_now(), {}, {}


def agree_after_join(group: int) -> None:
    """All ranks of the process set have joined: those that had while others dropped a pass were not told. From now on all of
    its optimizers are in one generation. Collective."""
    _enter_job()
    numbers = [number for name, number in _Latest.numbers.items() if _names.group_of(name) == group]
    mine = torch.tensor([max([*numbers, _Latest.least.get(group, 0)])], dtype=torch.int32, device="cpu")
    name = _names.in_group(group, "generations after join")
    latest = int(start_allreduce([mine], None, name, _abi.MAX, 1.0, 1.0, True, wait=True)[0])
    if latest > 0:
        _Latest.least[group] = latest
        _living_reducers.go_on_in(latest, group)
