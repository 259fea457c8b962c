"""What of an optimizer's gradients is under way, and how it is given up."""

from __future__ import annotations

import sys
from ctypes import Array, byref, c_int64, c_size_t, c_void_p
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Set, Tuple, Union

import torch

from ronde import _operation
from ronde._handle import Handle, synchronize
from ronde._lib import library
from ronde._native import extension
from ronde._reduce_ops import scale
from ronde._slot import Slot
from ronde.exceptions import UnsupportedError
from ronde.torch import _autograd
from ronde.torch._layouts import in_layout
from ronde.torch._holders import HELD_BY_ONE_VARIABLE, is_seen_elsewhere
from ronde.torch._parts import HAVE_EXTENSION
from ronde.torch._places import DENSE, Place, Unit
from ronde.torch._sparse_as_dense import Origins
from ronde.torch._staging import staged_together
from ronde.torch._tensors import as_sent, check, dense_of, gradient_type, is_expanded, memory_order
from ronde.torch.compression import AnyCompressor
from ronde.torch.process_sets import ProcessSet, global_process_set
from ronde.torch._start import start_allreduce
from ronde.torch.sparse_ops import SparseReduction, start_sparse_allreduce


_DIFFERENTIATED = (
    "a gradient that was reduced over the ranks is differentiated, as optimizers of second order do: its graph, of "
    "backward(create_graph=True), is this rank's alone, and so would be what comes of it. Differentiate gradients before they "
    "are reduced, and reduce what you need of that by allreduce()"
)


class How(NamedTuple):
    """How gradients are reduced."""

    compression: AnyCompressor
    op: int
    prescale: float
    postscale: float
    sparse_as_dense: bool
    process_set: ProcessSet = global_process_set


class Packed(NamedTuple):
    """A gradient as it travels from private memory."""

    parameter: torch.nn.Parameter
    gradient: torch.Tensor  # as autograd has left it in p.grad
    bare: torch.Tensor  # its memory, in the order in which it travels
    sent: torch.Tensor  # the same, or a compressed copy
    context: Any  # of the compressor


def pack(
    parameter: torch.nn.Parameter, unit: Unit, how: How, without: Set[torch.nn.Parameter], origins: Optional[Origins]
) -> Packed:
    """The parameter's gradient, ready to travel: zeros if it has none here; ``without`` gets those that are frozen too.
    ``origins`` learns in which layout autograd has made it."""
    if parameter.grad is None:
        if not parameter.requires_grad:
            without.add(parameter)
        if origins is not None:
            origins.note_none_at_start(parameter)
        parameter.grad = torch.zeros_like(parameter, dtype=gradient_type(parameter), requires_grad=False)
    elif origins is not None:
        origins.note_at_start(parameter, parameter.grad)
    gradient = parameter.grad
    # Autograd may have made several gradients of one memory, or have to compute others from it; and the program keeps its
    # own, whatever comes after an error.
    is_seen = sys.getrefcount(gradient) > HELD_BY_ONE_VARIABLE
    assert gradient is not None
    is_seen = is_seen or (gradient.layout is torch.strided and is_seen_elsewhere(gradient))
    bare = gradient.detach()
    if bare.layout is not torch.strided:
        if not unit.is_single and not how.sparse_as_dense:
            raise UnsupportedError(
                f"'{unit.name}' has a sparse gradient in a group: leave it out of groups=, or give sparse_as_dense=True to "
                "DistributedOptimizer",
                3,
                tensor=unit.name,
            )
        bare = dense_of(bare)
        gradient = parameter.grad = bare
    if is_expanded(bare):  # nothing can be written there
        bare = bare.contiguous()
        gradient = parameter.grad = bare
    bare = as_sent(bare, memory_order(parameter))
    sent, context = how.compression.compress(bare.clone() if is_seen else bare)
    return Packed(parameter, gradient, bare, sent, context)


class Flight(NamedTuple):
    """One request under way from private memory: a gradient, or a group of them."""

    handle: Handle[List[torch.Tensor]]
    packed: List[Packed]

    def ask_to_cancel(self) -> None:
        self.handle.ask_to_cancel()

    def cancel(self) -> bool:
        return self.handle.cancel()


def start_private(
    unit: Unit, how: How, without: Set[torch.nn.Parameter], origins: Optional[Origins]
) -> Flight:
    """Begins to reduce the gradients of a unit from private memory; ``without`` and ``origins`` as in :func:`pack`."""
    _operation.settle(unit.name)
    packed = [pack(parameter, unit, how, without, origins) for parameter in unit.parameters]
    tensors = [item.sent for item in packed]
    handle = start_allreduce(tensors, tensors, unit.name, how.op, how.prescale, how.postscale, False, wait=False)
    return Flight(handle, packed)


def start_on_devices(
    units: List[Unit], how: How, without: Set[torch.nn.Parameter], origins: Optional[Origins], flights: "Flights"
) -> List[Unit]:
    """:func:`start_private` of those whose dense gradients are on accelerators: each wait for a device lets it run idle, so all
    are copied to host memory with one. ``flights`` gets them. Returns the others."""
    if all(unit.parameters[0].is_cpu for unit in units):
        return units
    others: List[Unit] = []
    begun: List[Tuple[Unit, List[Packed]]] = []
    for unit in units:
        is_dense = unit.is_private or unit.layout == DENSE
        if origins is not None or unit.place is not None or not is_dense or unit.parameters[0].is_cpu:
            others.append(unit)
            continue
        _operation.settle(unit.name)
        begun.append((unit, [pack(parameter, unit, how, without, origins) for parameter in unit.parameters]))
    sent = [item.sent for _, packed in begun for item in packed]
    for unit, packed in begun:
        for item in packed:
            check(item.sent, unit.name)
    copies = iter(staged_together(sent, is_reduced=True))
    for unit, packed in begun:
        tensors, here = [item.sent for item in packed], [next(copies) for _ in packed]
        handle = start_allreduce(tensors, tensors, unit.name, how.op, how.prescale, how.postscale, False, False, here)
        flights[unit] = Flight(handle, packed)
    return others


class SparseFlight(NamedTuple):
    """A sparse gradient under way."""

    finish: SparseReduction

    def ask_to_cancel(self) -> None:
        self.finish.ask_to_cancel()

    def cancel(self) -> bool:
        return self.finish.cancel()


def start_sparse(unit: Unit, how: How, group: int) -> SparseFlight:
    """Begins to reduce a gradient in the sparse layout that all ranks know it in, empty if there is none here."""
    factor = scale(how.prescale, "prescale_factor") * scale(how.postscale, "postscale_factor")
    gradient = in_layout(unit.parameters[0], unit.layout)
    return SparseFlight(start_sparse_allreduce(gradient, unit.name, how.op, group, how.compression, factor))


Flights = Dict[Unit, Union[Flight, SparseFlight]]


class KeptTickets:
    """The tickets of what is under way from places; those of all units are found made in most steps."""

    def __init__(self) -> None:
        self._all: Optional["Array[c_void_p]"] = None
        self._generation = 0

    def of(
        self, placed: Dict[Unit, Place], is_all: bool, generation: int, last: Optional[Slot] = None
    ) -> "Array[c_void_p]":
        """And that of ``last``, or what was there before. ``generation``: of the places, if ``placed`` has all."""
        if is_all and self._all is not None and self._generation == generation:
            tickets = self._all
        else:
            tickets = (c_void_p * (len(placed) + 1))(*[place.slot.ticket for place in placed.values()])
            # What was submitted before its unit got another place goes with this step, and its ticket with it.
            if is_all and all(unit.place is place for unit, place in placed.items()):
                self._all, self._generation = tickets, generation
        if last is not None:
            tickets[-1] = last.ticket
        return tickets


def submit_places(units: List[Unit], placed: Dict[Unit, Place]) -> Tuple[List[Unit], int, List[Unit]]:
    """Submits, in one call, those of single parameters whose gradients lie in their places, and notes them in ``placed``.
    Returns the others, the status, and if that is not RONDE_OK those from the first that has failed on."""
    if HAVE_EXTENSION:
        parts: Tuple[List[Unit], int, List[Unit]] = extension.submit_places(units, placed)
        return parts
    elsewhere, in_place = [], []
    for unit in units:
        place = unit.place
        if place is None or not place.has_gradient_of(unit.parameters[0]):
            elsewhere.append(unit)
        else:
            in_place.append((unit, place))
    for _, place in in_place:
        place.busy = True
    submitted, numbers = c_size_t(), (c_int64 * len(in_place))(*[place.number for _, place in in_place])
    status = library().ronde_submit_slots(numbers, len(in_place), byref(submitted))
    placed.update(in_place[: submitted.value])
    return elsewhere, status, [unit for unit, _ in in_place[submitted.value :]]


def ask_to_cancel(flights: Flights, placed: Dict[Unit, Place], origins: Optional[Origins]) -> None:
    """Begins to end what is under way: on all ranks, unless all have begun it."""
    if origins is not None:
        origins.ask_to_cancel()
    for place in placed.values():
        place.slot.cancel()
    for flight in flights.values():
        flight.ask_to_cancel()


def cancel(flights: Flights, placed: Dict[Unit, Place], origins: Optional[Origins]) -> bool:
    """The same, and waits for the end of gradients. Whether none was, or may be, reduced."""
    ask_to_cancel(flights, placed, origins)
    have_failed = [flight.cancel() for flight in flights.values()]
    have_failed += [place.slot.has_failed_in_the_end() for place in placed.values()]
    return all(have_failed)


def give_up(flights: Iterable[Union[Flight, SparseFlight]], placed: Dict[Unit, Place]) -> None:
    """Nobody waits for these any more, however long an error's traceback keeps them alive. Who uses their names again
    waits for their end first. Results that are still to come must not reach what becomes of ``p.grad``."""
    for flight in flights:
        if isinstance(flight, Flight):
            flight.handle.abandon()
            for item in flight.packed:
                if item.sent.untyped_storage().data_ptr() == item.bare.untyped_storage().data_ptr():
                    _move_out(item.parameter, item.gradient)
    for unit, place in placed.items():
        if not place.is_free():
            _move_out(unit.parameters[0], place.view)


def end(unit: Unit, flights: Flights, placed: Dict[Unit, Place]) -> None:
    """If this one is under way, it is no more: on all ranks, unless all have begun it. Then a group's result is good."""
    flight, place = flights.get(unit), placed.pop(unit, None)
    if flight is not None and (flight.cancel() or unit.is_single):
        give_up([flights.pop(unit)], {})
    if place is not None:
        place.slot.cancel()
        place.slot.settle()
        give_up([], {unit: place})


def _move_out(parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
    """If this is the parameter's gradient, a copy is from now on."""
    if parameter.grad is gradient:
        parameter.grad = gradient.detach().clone()


def land(flights: Flights, compression: AnyCompressor) -> None:
    """Waits for all, and leaves the results in ``p.grad``. Raises what ``ronde.torch.synchronize`` does."""
    with torch.no_grad():
        for unit, flight in flights.items():
            if isinstance(flight, SparseFlight):
                unit.parameters[0].grad = flight.finish()
                continue
            for item, result in zip(flight.packed, synchronize(flight.handle)):
                if item.sent is not item.bare:
                    item.bare.copy_(compression.decompress(result, item.context))
                put(item.parameter, item.gradient)


def take_from_places(placed: Dict[Unit, Place]) -> None:
    """All of these are reduced: their results are ``p.grad``, as they are already, mostly."""
    units: Iterable[Unit] = extension.free_places(placed) if HAVE_EXTENSION else placed
    for unit in units:
        place = placed[unit]
        place.busy = False
        result = place.view if place.view.data_ptr() == place.address else place.result()
        if unit.parameters[0].grad is not result:
            put(unit.parameters[0], result)


def put(parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
    """Makes the reduced gradient the parameter's; mostly it is, as it was reduced in place."""
    current = parameter.grad
    if current is None:
        parameter.grad = gradient
    elif current is not gradient:
        current.detach().copy_(gradient.detach())
    reduced = parameter.grad
    if reduced is not None and reduced.requires_grad:
        parameter.grad = _autograd.with_value(reduced, reduced.detach(), _DIFFERENTIATED)
