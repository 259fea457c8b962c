"""What ranks tell each other once in each step of an optimizer, beside the gradients.

Gradients meet by name and in the order in which each rank has asked for them. That is not enough where ranks differ in what
their gradients cannot say: one has dropped a backward pass that others have not made; it has frozen a parameter, and zeros
are not the same as no gradient; it has taken ``p.grad`` away; it does not know that the others reduce a parameter, or what they
have agreed on while it had joined. So each
``synchronize()`` sends a few numbers, of which every rank gets the largest. They cost one small request, which the step
waits for together with its gradients, and mostly say that nothing is to be done.
"""

from __future__ import annotations

from ctypes import addressof, c_int32
from typing import NamedTuple, Optional

from ronde import _abi, _operation
from ronde._lib import check, last_error, library
from ronde._operation import SLICE
from ronde._slot import Slot
from ronde.exceptions import DuplicateNameError
from ronde.torch import _names
from ronde.torch._places import epoch_now

_NUMBERS = 5
#: More reductions than an optimizer has.
_MANY = 1 << 30


class Said(NamedTuple):
    """What a rank says, and what all have said together."""

    generation: int  # the latest in which any asks for gradients
    is_uneven: bool  # some reduce more parameters than others
    are_layouts_open: bool  # some do not know of all gradients whether they are sparse
    has_exceptions: bool  # some have a parameter that may have to stay without a gradient


class StepSummary:
    """The numbers of one optimizer. One step at a time."""

    def __init__(self) -> None:
        self._numbers = (c_int32 * _NUMBERS)()
        self._slot: Optional[Slot] = None
        self._epoch = 0  # of the engine that the slot belongs to
        self._is_sent = False  # in this step
        self._is_under_way = False  # as far as is known

    @property
    def slot(self) -> Slot:
        """Of the request under way. Requires: it was sent."""
        assert self._slot is not None
        return self._slot

    def send(self, name: str, generation: int, needed: int, are_layouts_open: bool, has_exceptions: bool) -> None:
        """Says so to the other ranks, unless it has in this step. ``name``: the same on all ranks; ``needed``: how many
        reductions this rank takes part in. Raises what a submit raises."""
        slot = self._slot
        if slot is None or slot.name != name or self._epoch != epoch_now():
            slot = self._slot = self._made(name)
        elif self._is_sent:
            return
        elif self._is_under_way:  # Of a step that an error has ended here. The others still come to it, and this is their next.
            while not slot.reclaim():
                library().ronde_wait_slot(slot.number, SLICE)
        self._numbers[:] = [generation, needed, _MANY - needed, int(are_layouts_open), int(has_exceptions)]
        status = library().ronde_submit_slot(slot.number)
        if status != _abi.OK:
            error = last_error(status, name)
            if not isinstance(error, DuplicateNameError):
                raise error
            _operation.settle(name)  # an optimizer that is no more had it
            check(library().ronde_submit_slot(slot.number))
        self._is_sent = self._is_under_way = True

    def _made(self, name: str) -> Slot:
        self._epoch = epoch_now()
        self._numbers = (c_int32 * _NUMBERS)()
        view = addressof(self._numbers), (_NUMBERS,), _abi.INT32
        return Slot(name, view, self._numbers, reduce_op=_abi.MAX, group=_names.group_of(name))

    def said(self) -> Said:
        """Requires: it was sent and has ended."""
        self._is_under_way = False
        generation, most, fewest, are_layouts_open, has_exceptions = self._numbers
        return Said(generation, most + fewest != _MANY, are_layouts_open > 0, has_exceptions > 0)

    def end_step(self) -> None:
        """Well or not."""
        self._is_sent = False
