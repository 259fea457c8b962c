"""What backward passes have brought until now: how often each parameter was reached, and whose gradients may be reduced."""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, Iterable, List, Optional, Set

import torch

from ronde._native import extension
from ronde.torch._parts import HAVE_EXTENSION, MemberParts, ReadyParts, hook_of
from ronde.torch._parts import current_pass as current_pass
from ronde.torch._places import Unit

#: What is called for a member that a backward pass has reached, of its owner.
OnGradient = Callable[[Any, "Member"], None]

#: Gradients are started so many bytes at a time: each start costs the same, and interrupts the backward pass.
TOGETHER = 1024 * 1024


class Member(MemberParts):
    """A parameter in its unit."""

    __slots__ = ("__weakref__",)

    unit: Unit

    def __init__(self, parameter: torch.nn.Parameter, unit: Unit) -> None:
        self.parameter = parameter
        self.unit = unit
        self.round = 0  # in which a backward pass reached it last
        self.left = 0  # in that round: backward passes until its gradient is complete

    def reach(self, now: int, passes: int) -> int:
        """A backward pass has reached the parameter, of ``passes`` in the round ``now``. Returns how many are left; raises
        AssertionError if it is one too many."""
        if self.round != now:
            self.round, self.left = now, passes
        if self.left == 0:
            raise too_often(self.unit, passes)
        self.left -= 1
        return self.left


def _put_first(hook: torch.utils.hooks.RemovableHandle) -> None:
    """Before those that the program has registered: one of these may step with the gradient, and zero it, and what comes
    behind it would take that for the next step's."""
    of_parameter = hook.hooks_dict_ref()
    if of_parameter is None or len(of_parameter) == 1:
        return
    others = [item for item in of_parameter.items() if item[0] != hook.id]
    own = of_parameter[hook.id]
    of_parameter.clear()  # autograd goes by the order in which they were put in
    of_parameter[hook.id] = own
    of_parameter.update(others)


def without_gradient(members: List[Member]) -> List[Member]:
    """Those that have none, at the end of a pass or of the step: none, mostly."""
    if HAVE_EXTENSION:
        lacking: List[Member] = extension.without_gradient(members)
        return lacking
    return [member for member in members if member.parameter.grad is None]


def is_any_reduced(members: Iterable[Member]) -> bool:
    """Whether this rank takes part in the reduction of any of them."""
    return any(member.unit.is_needed for member in members)


def taken_away(lacking: List[Member], before: Optional[List[Member]], now: int) -> Set[torch.nn.Parameter]:
    """Of what has no gradient in the step, those whose gradient the program has taken away (``p.grad = None``): a backward pass
    of this round, ``now``, had reached them, or they had one when a pass ended. ``before``: what had none then."""
    had_none = None if before is None else set(before)
    return {m.parameter for m in lacking if m.round == now or (had_none is not None and m not in had_none)}


def too_often(unit: Unit, passes: int) -> AssertionError:
    """The error where a gradient is computed more often than it is to be in a step."""
    return AssertionError(
        f"'{unit.name}': a gradient was computed more often than backward_passes_per_step={passes} times before step() or "
        "synchronize(). Raise backward_passes_per_step to accumulate gradients; torch.utils.checkpoint needs "
        "use_reentrant=False."
    )


class Ready(ReadyParts):
    """Units of one backward pass, of which several may run at once: their gradients are there, but may not be complete
    before other hooks of the program's have run."""

    __slots__ = ()

    units: List[Unit]

    def __init__(self) -> None:
        self.units = []
        self.n_bytes = 0

    def add(self, unit: Unit) -> None:
        """Its last gradient has come."""
        self.units.append(unit)
        self.n_bytes += unit.n_bytes

    def take(self) -> List[Unit]:
        """All of them: they are started now."""
        units, self.units, self.n_bytes = self.units, [], 0
        return units


class Turn:
    """Says that Python is at the gradients that arrive at ``of``, in some thread: the extension leaves its own to it then."""

    __slots__ = ("_of",)

    def __init__(self, of: Any) -> None:
        self._of = of

    def __enter__(self) -> None:
        self._of._in_turn += 1

    def __exit__(self, *_: object) -> None:
        self._of._in_turn -= 1


class Hooks:
    """Has autograd call for the members, and tells which begin to need a gradient."""

    def __init__(self, owner: Any, call: OnGradient) -> None:
        # A model outlives its optimizer at times; then its gradients must neither be sent nor keep memory any more.
        self._owner = weakref.ref(owner)
        self._call = call
        self._members: Dict[int, Member] = {}  # by number
        self._count = 0  # of all that there ever were
        self._unwatched: List[int] = []  # members that were frozen until now
        self._handles: Dict[int, torch.utils.hooks.RemovableHandle] = {}

    def add(self, member: Member) -> None:
        """It is watched from the next :meth:`watch` on in which it requires a gradient."""
        number = self._count
        self._count += 1
        self._unwatched.append(number)
        self._members[number] = member
        if not member.parameter.requires_grad:
            self._add_to_frozen(number)

    def watch(self) -> List[Member]:
        """Adds the hooks that are due. Returns the members that were frozen until now, or are new."""
        due = [number for number in self._unwatched if self._members[number].parameter.requires_grad]
        if due:
            self._unwatched = [number for number in self._unwatched if not self._members[number].parameter.requires_grad]
        for number in due:
            if number not in self._handles:
                self._add(number)
        return [self._members[number] for number in due]

    def _add_to_frozen(self, number: int) -> None:
        """While the program has no hook there, as it will have when it requires a gradient: the first of these is to be
        the optimizer's."""
        parameter = self._members[number].parameter
        try:
            parameter.requires_grad_(True)
        except RuntimeError:  # integers, and what was made in inference mode
            return
        self._add(number)
        parameter.requires_grad_(False)

    def _add(self, number: int) -> None:
        # Nothing that has the parameter: it would have itself.
        on_gradient = hook_of(weakref.ref(self._members[number]), self._owner, self._call)
        parameter = self._members[number].parameter
        hook = parameter.register_post_accumulate_grad_hook(on_gradient)  # type: ignore[no-untyped-call] # torch's
        if current_pass() == -1:  # else autograd may be at these hooks
            _put_first(hook)
        self._handles[number] = hook

    def remove(self, member: Member) -> None:
        """It is watched no more."""
        for number in [number for number, each in self._members.items() if each is member]:
            del self._members[number]
            self._unwatched = [each for each in self._unwatched if each != number]
            if number in self._handles:
                self._handles.pop(number).remove()

    def remove_all(self) -> None:
        """No member is watched any more."""
        for handle in self._handles.values():
            handle.remove()
