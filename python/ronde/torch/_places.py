"""Gradients that live in shared buffers: who has a place there, and how a gradient gets into it.

Autograd makes each gradient in memory of its own; it cannot be told where. So the fresh gradient is copied to its
place, once, and the place becomes ``p.grad``: there the all-reduce works, there the optimizer reads the result, and
there further backward passes add to it until the next ``zero_grad()``.

A gradient without a place travels from private memory, each on each rank by itself: ranks see no difference but time.
"""

from __future__ import annotations

import logging
import os
import weakref
from sys import getrefcount
from typing import Iterable, List, NamedTuple, Optional

import torch

from ronde import _shared_buffer, _names, _process
from ronde._slot import Slot
from ronde.exceptions import RondeError
from ronde.torch._buckets import Home, can_have_home, homes_for
from ronde.torch._freed_memory import keep_freed_memory
from ronde.torch._holders import holders_of, users_of
from ronde.torch._parts import PlaceParts, UnitParts
from ronde.torch._tensors import gradient_type

_log = logging.getLogger("ronde")


class Reduction(NamedTuple):
    """What is done to gradients on their way."""

    op: int
    prescale: float
    postscale: float


class Place(PlaceParts):
    """The home of one parameter's gradient, with the slot that reduces it there."""

    __slots__ = ("shape", "stride", "dtype", "slot")

    def __init__(self, home: Home, name: str, reduction: Reduction) -> None:
        self.view, self.address, self.shape, self.stride, self.dtype, _ = home
        # Of the view itself, which is p.grad, module.to() and p.grad.data = ... put another storage into the same object.
        self.storage = home.tensor.untyped_storage()
        self.storage_number = self.storage._cdata
        self.slot = Slot(
            name,
            home.sent,
            self.storage,
            reduce_op=reduction.op,
            prescale=reduction.prescale,
            postscale=reduction.postscale,
            group=_names.group_of(name),
        )
        self.number = self.slot.number
        self.busy = False  # submitted, and nobody has seen it end
        # While the view is no gradient, those that are always there; 0: not known.
        self.own_references = 0  # to the view, in Python
        self.own_holders = 0  # of the view, in C++
        self.own_users = 0  # of the storage
        self.own_storage_references = 0  # to it, in Python: all that a program holds are one object

    def fits(self, parameter: torch.Tensor) -> bool:
        """Whether the parameter's gradient has the layout and type of this place, and the view is still here:
        ``module.to()`` puts another storage under a gradient."""
        return (
            gradient_type(parameter) is self.dtype
            and parameter.shape == self.shape
            and parameter.stride() == self.stride
            and parameter.is_cpu
            and self.view.data_ptr() == self.address
        )

    def has_gradient_of(self, parameter: torch.nn.Parameter) -> bool:
        """Whether it lies here."""
        return parameter.grad is self.view and self.view.data_ptr() == self.address

    def make_room(self) -> bool:
        """Before another gradient comes here: a program that has kept the last one keeps it, in memory of its own. False:
        that cannot be, since other tensors or arrays lie in this memory. Requires: the view is no parameter's gradient, as
        far as is known."""
        references = getrefcount(self.view)
        if (
            references == self.own_references
            and getrefcount(self.storage) == self.own_storage_references
            and holders_of(self.view) == self.own_holders
            and users_of(self.storage_number) == self.own_users
        ):
            return True
        if self.own_users > 0:
            return self._move_out()
        # The first time: nobody can have seen it.
        self.own_references, self.own_holders = references, holders_of(self.view)
        self.own_users, self.own_storage_references = users_of(self.storage_number), getrefcount(self.storage)
        return True

    def _move_out(self) -> bool:
        """Leaves the view to those who hold it, in memory of its own, and makes another."""
        if users_of(self.storage_number) > self.own_users or getrefcount(self.storage) > self.own_storage_references:
            return False
        if holders_of(self.view) > self.own_holders:  # in C++, as by DLPack, which has the address
            return False
        self.view.data = self.view.detach().clone()
        self.view = self._view()
        return True

    def _view(self) -> torch.Tensor:
        with torch.inference_mode(False), torch.no_grad():
            here = torch.empty(0, dtype=self.dtype, device="cpu")
            return here.set_(self.storage, 0, self.shape, self.stride)

    def result(self) -> torch.Tensor:
        """What was reduced here: the view, unless that is somewhere else by now."""
        return self.view if self.view.data_ptr() == self.address else self._view()

    def is_free(self) -> bool:
        """Whether the engine has done with it: not sure after an interrupted wait, or if all was forgotten."""
        if self.busy:
            self.busy = not self.slot.reclaim()
        return not self.busy


#: Layouts of a gradient; a number between says how many dimensions of a sparse tensor are sparse.
UNKNOWN, DENSE = 0, 255


class Unit(UnitParts):
    """What is reduced by one request: a parameter's gradient, or those of a group."""

    __slots__ = ("name", "parameters", "missing", "refused_in", "is_needed", "first_name", "number")

    place: Optional[Place]

    def __init__(self, name: str, parameters: List[torch.nn.Parameter], is_private: bool) -> None:
        self.name = name
        self.first_name = name  # in the first generation
        self.number = _names.hash_of(name)  # stands for the name in sums
        self.n_bytes = sum(parameter.numel() * gradient_type(parameter).itemsize for parameter in parameters)
        self.parameters = parameters
        self.parameter = parameters[0]
        self.is_single = len(parameters) == 1
        self.missing = len(parameters)  # of a group: members whose gradient is still to come
        self.place = None
        self.is_private = is_private  # never has a place
        self.refused_in = 0  # the epoch of the engine in which it can have none
        self.layout = DENSE  # in which it travels: the same on all ranks
        # Something in it has required a gradient once. From then on it is reduced, frozen on this rank or not, since it may
        # not be on the others: they would wait, and later gradients would meet earlier ones.
        self.is_needed = False

    def leave(self, parameter: torch.nn.Parameter, generation: int, was_missing: bool) -> None:
        """A group goes on without this one, under another name: some ranks may have begun it as it was."""
        self.parameters = [each for each in self.parameters if each is not parameter]
        self.parameter = self.parameters[0] if self.parameters else parameter
        self.missing -= 1 if was_missing else 0
        self.first_name = _names.part_of(self.first_name, "rest")
        self.number = _names.hash_of(self.first_name)
        self.begin(generation)

    def move_to(self, group: int) -> None:
        """From now on it is reduced in the process set with this id, in a place of that set's."""
        self.name = self.first_name = _names.in_group(group, str(self.first_name))
        self.number = _names.hash_of(self.first_name)
        self.place = None
        self.refused_in = 0

    def begin(self, generation: int) -> None:
        """From now on it is reduced under the name that this generation of gradients has: none meets those of another."""
        name = _names.part_of(self.first_name, f"generation {generation}") if generation else self.first_name
        if name != self.name:
            self.name = name
            self.place = None
            self.refused_in = 0


def epoch_now() -> int:
    """Of the engine: another one after each init; 0: not initialised."""
    return _process.epoch() if _process.is_initialized() else 0


class Places:
    """Gives units their places: all that have none, at once, whenever one asks for its own.

    A place lasts until the parameter changes its layout (``module.to()``) or the engine ends. Ranks whose units ask in
    another order, or that have other parameters frozen, may get other layouts, and then reduce more slowly.
    """

    def __init__(self, units: List[Unit], reduction: Reduction) -> None:
        self._units = units
        self._reduction = reduction
        self._epoch = 0  # in which the places were made
        self._told_in = 0
        self.generation = 0  # another one, whenever units get other places

    def of(self, unit: Unit) -> Optional[Place]:
        """The place that fits the unit's parameter as it is now, after laying out what has none. None: it stays
        private."""
        parameter = unit.parameters[0]
        place = unit.place
        if place is None or not place.fits(parameter):
            epoch = epoch_now()
            if epoch == 0 or unit.refused_in == epoch:
                return None
            self._lay_out(epoch)
            place = unit.place
            if place is None or not place.fits(parameter):
                return None
        return place if not place.busy or place.is_free() else None

    def are_outdated(self) -> bool:
        """Whether the engine that they were made for has ended; they are then forgotten."""
        if epoch_now() == self._epoch:
            return False
        for unit in self._units:
            unit.place = None
        return True

    def _lay_out(self, epoch: int) -> None:
        if epoch != self._epoch:
            for unit in self._units:
                unit.place = None  # of an engine that has ended
        self._epoch = epoch
        self.generation += 1
        lacking = [unit for unit in self._units if self._lacks_place(unit)]
        for unit in lacking:
            unit.place = None
            unit.refused_in = epoch
        if lacking and _process.size() > 1:
            keep_freed_memory()
        for index, home in homes_for([unit.parameters[0] for unit in lacking], "gradients", self._tell_refused):
            unit = lacking[index]
            parameter = unit.parameters[0]
            unit.place = Place(home, unit.name, self._reduction)
            unit.refused_in = 0
            may_be_in_buckets([parameter])

    def _tell_refused(self, reason: RondeError) -> None:
        if self._told_in != self._epoch:
            self._told_in = self._epoch
            _log.warning("Ronde: some gradients stay in private memory, which is slower: %s", reason)

    def _lacks_place(self, unit: Unit) -> bool:
        """Whether it could have a place and has none that fits."""
        parameter = unit.parameters[0]
        if unit.is_private or unit.refused_in == self._epoch:
            return False
        if not parameter.requires_grad:
            return False  # frozen, perhaps for good: no memory unless that changes
        if not can_have_home(parameter):
            unit.refused_in = self._epoch
            unit.place = None
            return False
        return unit.place is None or (not unit.place.fits(parameter) and unit.place.is_free())


# ---- Forked children ------------------------------------------------------------------------------------------------

#: Parameters whose gradient may be in a bucket; by identity, since comparing tensors compares their values.
_residents: "weakref.WeakValueDictionary[int, torch.nn.Parameter]" = weakref.WeakValueDictionary()


def may_be_in_buckets(parameters: Iterable[torch.nn.Parameter]) -> None:
    """Their gradients are dropped in forked children, if they are in a bucket then."""
    for parameter in parameters:
        _residents[id(parameter)] = parameter


def _leave_buckets(parameters: Iterable[torch.nn.Parameter]) -> None:
    """A forked child does not have the memory of buckets. Better no gradient than one whose first use is the end."""
    for parameter in parameters:
        gradient = parameter.grad
        if gradient is not None and gradient.layout is torch.strided and _shared_buffer.holds(gradient.data_ptr()):
            parameter.grad = None


os.register_at_fork(after_in_child=lambda: _leave_buckets(list(_residents.values())))
