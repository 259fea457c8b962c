"""Generations of gradients: those of a later one never meet those of an earlier one, since their names differ.

A rank that drops a backward pass (``load_state_dict()``), or whose step fails, may have asked the others for gradients that they
never ask for, or not have asked for theirs. What it asks for afterwards belongs to another generation, and the others follow
(see ``_step_summary``).
"""

from __future__ import annotations

from typing import Dict, Iterable, Tuple

import torch

from ronde import _abi
from ronde.exceptions import CollectiveError
from ronde.torch import _living_reducers, _names
from ronde.torch._places import epoch_now
from ronde.torch._start import start_allreduce


#: The code of the error: the ranks' programs need not be wrong, as for a mismatch, and an elastic job goes on.
_CANCELLED = 10

#: The process set and the name of an optimizer.
Key = Tuple[int, str]


class _Latest:
    """Of this process, in the job of this epoch."""

    epoch = 0
    numbers: Dict[Key, int] = {}  # of an optimizer, and of its successors
    units: Dict[Key, int] = {}  # of a gradient, whatever optimizer has it
    least: Dict[int, int] = {}  # of all, by their process set
    steps: Dict[Key, int] = {}  # that were made


def latest_generation(name: str) -> int:
    """What an optimizer of this name begins with: earlier ones of this job may have got so far. 0 in a new job."""
    if _Latest.epoch != epoch_now():
        return 0
    return max(_Latest.numbers.get(_key(name), 0), _Latest.least.get(_names.group_of(name), 0))


def reached(name: str, generation: int) -> None:
    """Optimizers of this name begin with this one."""
    _enter_job()
    if generation > 0:
        _Latest.numbers[_key(name)] = max(generation, _Latest.numbers.get(_key(name), 0))


def latest_of_units(names: Iterable[str]) -> int:
    """What gradients of these names begin with: optimizers of other names have had some of them."""
    _enter_job()
    return max((_Latest.units.get(_key(name), 0) for name in names), default=0)


def all_reached(name: str, generation: int, units: Iterable[str]) -> None:
    """The same, and those that there are go on with it, since their gradients have the same names. ``units``: the names of
    these gradients."""
    reached(name, generation)
    for unit in units:
        _Latest.units[_key(unit)] = max(generation, _Latest.units.get(_key(unit), 0))
    _living_reducers.go_along(name, generation)


def steps_made(name: str) -> int:
    """By optimizers of this name in this job, or since all ranks have joined: as many as on the other ranks, unless one has
    dropped the gradients that others have stepped with."""
    return _Latest.steps.get(_key(name), 0) if _Latest.epoch == epoch_now() else 0


def set_steps(name: str, steps: int) -> None:
    """So many were made."""
    _enter_job()
    _Latest.steps[_key(name)] = steps


def apart(name: str, steps: int) -> CollectiveError:
    """The error on all ranks where some have made fewer than ``steps``; they count alike from now on."""
    set_steps(name, steps)
    return CollectiveError(
        f"'{name}': before this step some ranks have stepped with gradients that others have dropped (load_state_dict() in "
        "place of step()), so their weights differ: broadcast parameters and the optimizer's state from one rank, and call "
        "load_state_dict() on all ranks, or on none",
        _CANCELLED,
    )


def _key(name: str) -> Key:
    return _names.group_of(name), str(name)  # names of several process sets are equal strings


def _enter_job() -> None:
    if _Latest.epoch != epoch_now():
        _Latest.epoch, _Latest.numbers, _Latest.units, _Latest.least, _Latest.steps = epoch_now(), {}, {}, {}, {}


def agree_after_join(group: int) -> None:
    """All ranks of the process set have joined: those that had while others dropped a pass were not told. From now on all of
    its optimizers are in one generation. Collective."""
    _enter_job()
    numbers = [number for key, number in _Latest.numbers.items() if key[0] == group]
    mine = torch.tensor([max([*numbers, _Latest.least.get(group, 0)])], dtype=torch.int32, device="cpu")
    name = _names.in_group(group, "generations after join")
    _Latest.steps = {key: steps for key, steps in _Latest.steps.items() if key[0] != group}
    latest = int(start_allreduce([mine], None, name, _abi.MAX, 1.0, 1.0, True, wait=True)[0])
    _Latest.least[group] = latest
    _living_reducers.go_on_in(latest, group)
