"""The parts of what is kept for gradients that are looked at for each gradient of each step.

Where there is the extension module (:mod:`ronde._native`) it has these classes, and looks at their fields itself: it does
:meth:`ronde.torch._gradients.Reducer._count` for all that is plain. Their meaning is said where they are derived from.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional

import torch

from ronde._native import extension
from ronde.torch._holders import holders_of, users_of
from ronde.torch._start import allreduce_in_c

#: The number of the backward pass that calls the hook, -1 if none does.
current_pass: Callable[[], int] = torch._C._current_graph_task_id

#: Whether the extension can read PyTorch's tensors.
HAVE_EXTENSION = extension is not None and allreduce_in_c is not None

if HAVE_EXTENSION and not TYPE_CHECKING:
    MemberParts = extension.Member
    ReadyParts = extension.Ready
    UnitParts = extension.Unit
    PlaceParts = extension.Place
    ArrivalsParts = extension.Arrivals
else:

    class MemberParts:
        """Of a parameter in its unit."""

        __slots__ = ("parameter", "unit", "round", "left")
        parameter: torch.nn.Parameter
        unit: Any
        round: int
        left: int

    class ReadyParts:
        """Of the units of one backward pass."""

        __slots__ = ("units", "n_bytes")
        units: List[Any]
        n_bytes: int

    class UnitParts:
        """Of what is reduced by one request."""

        __slots__ = ("place", "parameter", "layout", "n_bytes", "is_single", "is_private")
        place: Any
        parameter: torch.nn.Parameter
        layout: int
        n_bytes: int
        is_single: bool
        is_private: bool

    class PlaceParts:
        """Of the home of one gradient."""

        __slots__ = (
            "view", "storage", "storage_number", "address", "number",
            "own_references", "own_holders", "own_users", "own_storage_references", "busy",
        )
        view: torch.Tensor
        storage: torch.UntypedStorage
        storage_number: int
        address: int
        number: int
        own_references: int
        own_holders: int
        own_users: int
        own_storage_references: int
        busy: bool

    class ArrivalsParts:
        """Of who counts gradients."""

        _process_set: Any
        _group: int
        _ready: Dict[int, Any]
        _origins: Any
        _round: int
        _passes: int
        _in_turn: int
        _is_left: bool


if HAVE_EXTENSION:
    _parameter = torch.nn.Parameter(torch.zeros(1, device="cpu"))
    _parameter.grad = torch.zeros(1, device="cpu")
    extension.know_gradients(current_pass, holders_of, users_of, _parameter)
    del _parameter

#: What autograd calls: with a parameter, and returns None.
Hook = Callable[[torch.Tensor], None]


def hook_of(member: "weakref.ref[Any]", owner: "weakref.ref[Any]", call: Callable[[Any, Any], None]) -> Hook:
    """Calls ``call(owner, member)`` while both are there; by the extension only where the gradient is not plain."""
    if HAVE_EXTENSION:
        made: Hook = extension.gradient_hook(member, owner, call)
        return made

    def on_gradient(_: torch.Tensor) -> None:
        reached, arrivals = member(), owner()
        if reached is not None and arrivals is not None:
            call(arrivals, reached)

    return on_gradient
