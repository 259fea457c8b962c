"""Generations of gradients: those of a later one never meet those of an earlier one, since their names differ.

A rank that drops a backward pass (``load_state_dict()``), or whose step fails, may have asked the others for gradients that
they never ask for, or not have asked for theirs. It leaves the generation, tells the others so (see ``_step_summary``), and
holds its gradients back until all ranks have left it: in the next step of each they agree on another. Nothing is sent in a
generation before all ranks are in it, so nothing that was dropped meets anything, whichever ranks drop, and when.

They agree by one vote for each generation. A signal handler may raise on a rank that waits for the others' votes. Its own is
then cancelled, and it votes again in its next step. The others may meet the cancelled one, at once or in a later step, in which
that rank waits for them already: so whoever meets one votes again.
"""

from __future__ import annotations

from ctypes import addressof, c_int32
from typing import Callable, Dict, Iterable, Optional, Sequence, Set, Tuple

import torch

from ronde import _abi, _names
from ronde._lib import check, library
from ronde._slot import Slot
from ronde.exceptions import CollectiveError
from ronde.torch import _living_reducers
from ronde.torch._places import epoch_now
from ronde.torch._start import start_allreduce
from ronde.torch._step_summary import CANCELLED

#: The process set and the name of an optimizer.
Key = Tuple[int, str]


class _Vote:
    """What a rank says, once, of the generation that comes after one. All ranks get the largest of their numbers."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._number = (c_int32 * 1)()
        self._slot: Optional[Slot] = None
        self._epoch = epoch_now()

    def largest(self, mine: int) -> int:
        """Collective. What a signal handler has interrupted is found as it was left: not begun, under way, ended. Raises what
        :meth:`Slot.wait` does, but for votes that a rank has cancelled, in this job."""
        while True:
            try:
                return self._ask(mine)
            except CollectiveError as error:
                self._slot = None
                if error.code != CANCELLED or self._epoch != epoch_now():
                    raise

    def _ask(self, mine: int) -> int:
        slot = self._slot
        if slot is None:  # what this rank has said stays, also if it was interrupted
            self._number[0] = mine
            view = addressof(self._number), (1,), _abi.INT32
            group = _names.group_of(self._name)
            slot = self._slot = Slot(self._name, view, self._number, reduce_op=_abi.MAX, group=group)
        try:
            if slot.ticket is None:
                check(library().ronde_submit_slot(slot.number))
            slot.wait()
        except BaseException:
            slot.cancel()
            raise
        return int(self._number[0])


class _Latest:
    """Of this process, in the job of this epoch."""

    epoch = 0
    numbers: Dict[Key, int] = {}  # of an optimizer, and of its successors
    units: Dict[Key, int] = {}  # of a gradient, whatever optimizer has it
    left: Set[Key] = set()  # optimizers and gradients of generations that this rank has left, or is to, and may not send in
    least: Dict[int, int] = {}  # of all, by their process set
    steps: Dict[Key, int] = {}  # that were made
    votes: Dict[Key, _Vote] = {}  # that this rank has begun, and of which it does not know the end


def latest_generation(name: str, units: Iterable[str]) -> int:
    """What an optimizer of this name, and of gradients of these, begins with: earlier ones of this job may have got so far, and
    the same on all ranks. 0 in a new job."""
    _enter_job()
    least = max(_Latest.numbers.get(_key(name), 0), _Latest.least.get(_names.group_of(name), 0))
    return max([least, *(_Latest.units.get(_key(unit), 0) for unit in units)])


def is_left(name: str, units: Iterable[str]) -> bool:
    """Whether this rank has left that one, or is to."""
    _enter_job()
    return not _Latest.left.isdisjoint(_key(each) for each in (name, *units))


def is_to_leave(name: str, units: Iterable[str]) -> None:
    """It is to: other ranks may have dropped a pass, and whatever optimizer is next to begin one must not meet it."""
    _enter_job()
    _Latest.left.update(_key(each) for each in (name, *units))


def leave(name: str, units: Iterable[str]) -> None:
    """It has left it."""
    is_to_leave(name, units)
    _living_reducers.leave_along(name)


def reached(name: str, generation: int) -> None:
    """Optimizers of this name begin with this one."""
    _enter_job()
    if generation > 0:
        _Latest.numbers[_key(name)] = max(generation, _Latest.numbers.get(_key(name), 0))


def enter(name: str, units: Sequence[str], vote: str) -> int:
    """All ranks have left theirs, and enter another one, which is returned. Collective. ``vote``: its name, of the generation that
    they have left; it is over when this rank :func:`has_entered`. Optimizers of the same name go along, since their gradients
    have the same names."""
    mine = latest_generation(name, units) + 1
    generation = _Latest.votes.setdefault(_key(vote), _Vote(vote)).largest(mine)
    reached(name, generation)
    for unit in units:
        _Latest.units[_key(unit)] = generation
    _Latest.left.difference_update(_key(each) for each in (name, *units))
    _living_reducers.go_along(name, generation)
    return generation


def has_entered(vote: str) -> None:
    """This rank is in the generation that this vote was on."""
    _Latest.votes.pop(_key(vote), None)


def meet(name: str, is_left_here: bool, is_busy: bool, vote: Callable[[torch.Tensor, str], torch.Tensor]) -> bool:
    """All ranks are at the same place of the program: whether they are to enter another generation, as some have left theirs
    and none is in the middle of a step. From now on they count their steps alike. Collective."""
    mine = torch.tensor([is_left_here, is_busy, steps_made(name)], dtype=torch.int32, device="cpu")
    is_left_anywhere, is_any_busy, steps = vote(mine, "generation").tolist()
    set_steps(name, steps)
    return bool(is_left_anywhere and not is_any_busy)


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
        CANCELLED,  # not a mismatch of programs, which would fail again: an elastic job goes on
    )


def added_to_dropped(name: str) -> CollectiveError:
    """The error on a rank whose gradients are of no use any more, since they met such."""
    return CollectiveError(
        f"'{name}': this rank's gradients were added to those of a backward pass that another rank has dropped, by "
        "load_state_dict() or because of an error: load a state on all ranks, and step again",
        CANCELLED,
    )


def _key(name: str) -> Key:
    return _names.group_of(name), str(name)  # names of several process sets are equal strings


def _enter_job() -> None:
    if _Latest.epoch != epoch_now():
        _Latest.epoch, _Latest.numbers, _Latest.units, _Latest.least, _Latest.steps = epoch_now(), {}, {}, {}, {}
        _Latest.left, _Latest.votes = set(), {}


def agree_after_join(group: int) -> None:
    """All ranks of the process set have joined: those that had while others dropped a pass were not told. From now on all of
    its optimizers are in one generation. Collective."""
    _enter_job()
    known = [*_Latest.numbers.items(), *_Latest.units.items()]
    numbers = [number for key, number in known if key[0] == group]
    is_any_left = any(key[0] == group for key in _Latest.left)
    mine = torch.tensor([max([*numbers, _Latest.least.get(group, 0)]) + is_any_left], dtype=torch.int32, device="cpu")
    name = _names.in_group(group, "generations after join")
    _Latest.steps = {key: steps for key, steps in _Latest.steps.items() if key[0] != group}
    latest = int(start_allreduce([mine], None, name, _abi.MAX, 1.0, 1.0, True, wait=True)[0])
    _Latest.least[group] = latest
    _Latest.left = {key for key in _Latest.left if key[0] != group}
    _living_reducers.go_on_in(latest, group)
