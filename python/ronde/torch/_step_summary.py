"""What ranks tell each other once in each step of an optimizer, beside the gradients.

Gradients meet by name and in the order in which each rank has asked for them. That is not enough where ranks differ in what
their gradients cannot say: one has dropped a backward pass that others have not made; it has no gradient of a parameter, and
zeros are not the same as none; it does not know that the others reduce a parameter, or what they have agreed on while it had
joined. So each rank sends a few numbers, of which every rank gets the largest. It does so when the first backward pass of
the step ends that has begun a reduction, so that ranks may do other things before they wait for the step, and otherwise in
``synchronize()``. They cost one small request, which the step waits for together with its gradients, and mostly say that
nothing is to be done.

They belong to a generation, as gradients do (see ``_generations``). Ranks that have not dropped gradients are told by the
summary that they wait for: it is cancelled, or says so. Where a rank has dropped what others have stepped with, the next
summary tells all of them: they have made different numbers of steps. That is no fault where all have loaded a state since.
"""

from __future__ import annotations

from ctypes import addressof, c_int64
from typing import Callable, NamedTuple, Optional, Tuple

from ronde import _abi, _names, _operation
from ronde._lib import check, last_error, library
from ronde._slot import Slot
from ronde.exceptions import CollectiveError, DuplicateNameError
from ronde.torch._places import epoch_now

#: As many as travel in the line of a flag (an inline bucket holds 56 bytes): with more a step would take longer.
_NUMBERS = 7
#: More than any of the numbers.
_MANY = 1 << 62
#: A rank has dropped gradients; it has not, nor has it loaded a state since its last step.
_DROPPED, _NOT_LOADED = 2, 1
#: The code of an error: a rank has cancelled a request.
CANCELLED = 10


class Said(NamedTuple):
    """What all ranks have said together."""

    is_dropped: bool  # a rank has dropped this generation's gradients
    is_uneven: bool  # some reduce other parameters than others
    are_layouts_open: bool  # some do not know of all gradients whether they are sparse
    has_unused: bool  # some have no gradient of a parameter
    steps: int  # the most that any rank has made
    are_apart: bool  # others have made fewer, and not all have loaded a state since


class StepSummary:
    """The numbers of one optimizer. One step at a time."""

    def __init__(self) -> None:
        self._numbers = (c_int64 * _NUMBERS)()
        self._slot: Optional[Slot] = None
        self._epoch = 0  # of the engine that the slot belongs to
        self.is_sent = False  # in this step

    @property
    def slot(self) -> Slot:
        """Of the request under way. Requires: it was sent."""
        assert self._slot is not None
        return self._slot

    def send(
        self,
        name: str,
        needed: int = 0,
        are_layouts_open: bool = False,
        has_unused: bool = False,
        steps: int = 0,
        has_loaded: bool = False,
        is_dropped: bool = False,
    ) -> None:
        """Says so to the other ranks. ``name``: the same on all ranks; ``needed``: the sum of numbers that stand for the
        reductions that this rank takes part in; ``steps``: how many it has made; ``has_loaded``: a state since the last
        one. Nothing if it was sent in this step. One thread at a time. Raises what a submit raises."""
        if self.is_sent:
            return
        self.is_sent = True
        slot = self._slot
        is_same = slot is not None and slot.name == name and _names.group_of(slot.name) == _names.group_of(name)
        if slot is None or not is_same or self._epoch != epoch_now():
            slot = self._slot = self._made(name)
        needed %= _MANY
        counts = needed, _MANY - needed, steps, _MANY - steps
        # Of what concerns passes that were dropped all ranks need the gravest only.
        of_drops = _DROPPED if is_dropped else 0 if has_loaded else _NOT_LOADED
        self._numbers[:] = [*counts, of_drops, int(are_layouts_open), int(has_unused)]
        status = library().ronde_submit_slot(slot.number)
        if status != _abi.OK:
            error = last_error(status, name)
            if not isinstance(error, DuplicateNameError):
                raise error
            _operation.settle(name)
            check(library().ronde_submit_slot(slot.number))

    def _made(self, name: str) -> Slot:
        self._epoch = epoch_now()
        self._numbers = (c_int64 * _NUMBERS)()
        view = addressof(self._numbers), (_NUMBERS,), _abi.INT64
        return Slot(name, view, self._numbers, reduce_op=_abi.MAX, group=_names.group_of(name))

    def wait_beside(self, wait: Callable[[], bool]) -> Tuple[Said, bool]:
        """``wait``: for the gradients and for this, until this one has ended at least; returns whether all have. So does this
        method, and what all ranks have said. Raises what ``wait`` does, unless a rank has dropped the gradients."""
        try:
            is_done = wait()
        except CollectiveError as error:
            if error.code != CANCELLED:
                raise
            said = self.wait()
            if not said.is_dropped:
                raise
            return said, False
        return self.said(), is_done

    def wait(self) -> Said:
        """What all ranks have said, once they have. Raises what :meth:`Slot.wait` does, but for a cancelled one."""
        try:
            self.slot.wait()
        except CollectiveError as error:
            if error.code != CANCELLED:
                raise
            return Said(True, False, False, False, 0, False)
        return self.said()

    def said(self) -> Said:
        """The same of one that has ended well."""
        most, fewest, most_steps, fewest_steps, of_drops, are_layouts_open, has_unused = self._numbers
        is_uneven, are_apart = most + fewest != _MANY, most_steps + fewest_steps != _MANY and of_drops >= _NOT_LOADED
        return Said(of_drops >= _DROPPED, is_uneven, are_layouts_open > 0, has_unused > 0, most_steps, are_apart)

    def drop(self, name: str) -> None:
        """Tells the ranks that have not yet that this one has dropped the gradients of the generation that ``name`` is of."""
        if self.is_sent and self.slot.name == name and self._epoch == epoch_now():
            self.slot.cancel()
            if self.slot.has_failed_in_the_end():
                return
        self.is_sent = False
        self.send(name, is_dropped=True)
        self.slot.cancel()
