"""The way of a gradient to its place in shared memory."""

from __future__ import annotations

from sys import getrefcount
from typing import Optional, Set

import torch

from ronde.torch._holders import HELD_BY_ONE_VARIABLE, is_seen_elsewhere
from ronde.torch._places import DENSE, Place, Places, Unit
from ronde.torch._sparse_as_dense import Origins
from ronde.torch._tensors import dense_of


def move_in(
    unit: Unit, places: Places, origins: Optional[Origins], without: Set[torch.nn.Parameter], is_fresh: bool
) -> Optional[Place]:
    """Brings the gradient to its place, which becomes ``p.grad``; None: it has none, or the program knows the gradient
    elsewhere, and stays where it is.

    Args:
        unit: of a single parameter, unless it is private.
        origins: learns in which layout autograd has made the gradient, if that is not known yet.
        without: gets the parameter if it has no gradient and is frozen.
        is_fresh: autograd has just computed the gradient, or added to it.
    """
    place = unit.place
    parameter = unit.parameters[0]
    gradient: Optional[torch.Tensor] = parameter.grad
    # What Place.fits() says, without the calls: this is done for each gradient of each step.
    if (
        place is None
        or gradient is None
        or gradient.dtype is not place.dtype
        or parameter.stride() != place.stride
        or parameter.shape != place.shape
        or not gradient.is_cpu
        or place.busy
        or place.view.data_ptr() != place.address
    ):
        place = None if unit.is_private else places.of(unit)
        if place is None:
            return None
    if gradient is place.view:  # no variable holds it: make_room() counts
        return place
    if getrefcount(gradient) > HELD_BY_ONE_VARIABLE and gradient is not None:
        return None  # in a variable of the program, which expects the result there too, as Horovod leaves it
    if gradient is not None:
        if gradient.requires_grad:  # of create_graph=True: the graph belongs to this tensor and no other
            return None
        if origins is not None and not is_fresh:
            origins.note_at_start(parameter, gradient)
        if gradient.layout is not torch.strided:
            if unit.layout != DENSE or is_fresh:
                return None  # as long as it stays sparse, further passes add their rows
            gradient = dense_of(gradient)
        elif not (is_fresh and not gradient.is_inference() and gradient._version == 0):
            # Autograd has added to what was there; else it has made this one, of another's memory perhaps, which stays as it
            # is: what the program has given to the pass, or a tensor that its own function has cut into gradients.
            if is_seen_elsewhere(gradient):
                return None
    if not place.make_room():
        return None
    view = place.view  # another one, if a program has kept the last
    if gradient is not None:
        view.copy_(gradient)
    else:  # unused on this rank, but perhaps not on the others
        view.detach().zero_()
        if origins is not None:
            origins.note_none_at_start(parameter)
        if not parameter.requires_grad:
            without.add(parameter)
    parameter.grad = view
    return place
