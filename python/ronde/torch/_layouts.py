"""Which gradients travel as sparse tensors, alike on all ranks.

An embedding with ``sparse=True`` has a sparse gradient, but a rank that did not use it in a step has none and cannot
know. So the ranks tell each other what they have, in ``synchronize()``: once, after the first backward pass, and again
only as long as there are parameters that no rank has had a gradient of. Until then sparse gradients are held back,
dense ones are not.
"""

from __future__ import annotations

from typing import Iterable, List

import torch

from ronde import _abi
from ronde.torch._places import DENSE, UNKNOWN, Unit
from ronde.torch._start import start_allreduce
from ronde.torch._tensors import gradient_type


def layout_here(gradient: torch.Tensor) -> int:
    """The layout of a gradient as it is on this rank: DENSE or the number of its sparse dimensions."""
    return gradient.sparse_dim() if gradient.is_sparse else DENSE


def _seen(unit: Unit) -> int:
    gradient = unit.parameters[0].grad
    return UNKNOWN if gradient is None else layout_here(gradient)


def are_open(units: Iterable[Unit]) -> bool:
    """Whether there is anything to agree on: the same on all ranks."""
    return any(unit.layout == UNKNOWN and unit.needs_gradient() for unit in units)


def agree(units: List[Unit], name: str) -> None:
    """Settles the layouts of the units that any rank has a gradient of: dense if it is so on any of them. Collective;
    the units are the same on all ranks."""
    mine = [_seen(unit) if unit.layout == UNKNOWN else unit.layout for unit in units]
    message = torch.tensor(mine, dtype=torch.uint8, device="cpu")
    start_allreduce([message], [message], name, _abi.MAX, 1.0, 1.0, True, wait=True)
    for unit, layout in zip(units, message.tolist()):
        unit.layout = layout


def in_layout(parameter: torch.nn.Parameter, layout: int) -> torch.Tensor:
    """The parameter's gradient as the sparse tensor that all ranks send; empty if it has none."""
    gradient = parameter.grad
    if gradient is not None:
        return gradient if gradient.is_sparse else gradient.detach().to_sparse(layout)
    return torch.sparse_coo_tensor(
        torch.empty((layout, 0), dtype=torch.int64, device=parameter.device),
        torch.empty((0, *parameter.shape[layout:]), dtype=gradient_type(parameter), device=parameter.device),
        parameter.shape,
        is_coalesced=True,
        check_invariants=False,
    )
