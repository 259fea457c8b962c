"""What of an optimizer's gradients is under way, and how it is given up."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, NamedTuple, Union

import torch

from ronde.torch._handles import Handle
from ronde.torch._places import Place, Unit
from ronde.torch.sparse_ops import SparseReduction


class Packed(NamedTuple):
    """A gradient as it travels from private memory."""

    parameter: torch.nn.Parameter
    gradient: torch.Tensor  # as autograd has left it in p.grad
    bare: torch.Tensor  # its memory, in the order in which it travels
    sent: torch.Tensor  # the same, or a compressed copy
    context: Any  # of the compressor


class Flight(NamedTuple):
    """One request under way from private memory: a gradient, or a group of them."""

    handle: Handle[List[torch.Tensor]]
    packed: List[Packed]

    def cancel(self) -> None:
        self.handle.cancel()


class SparseFlight(NamedTuple):
    """A sparse gradient under way."""

    finish: SparseReduction

    def cancel(self) -> None:
        self.finish.cancel()


Flights = Dict[Unit, Union[Flight, SparseFlight]]


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


def _move_out(parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
    """If this is the parameter's gradient, a copy is from now on."""
    if parameter.grad is gradient:
        parameter.grad = gradient.detach().clone()
