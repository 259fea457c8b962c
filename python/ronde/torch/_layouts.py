"""Which gradients travel as sparse tensors, alike on all ranks.

An embedding with ``sparse=True`` has a sparse gradient, but a rank that did not use it in a step has none and cannot
know. So the ranks tell each other what they have: once, after the first backward pass, and again only as long as there
are parameters that no rank has had a gradient of. Until then sparse gradients are held back, dense ones are not.
"""

from __future__ import annotations

from typing import Iterable, List, Sequence

import torch

from ronde import _abi, _operation
from ronde._handle import synchronize
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
    """Whether this rank does not know all layouts. One that had joined may not know what the others have agreed on."""
    return any(unit.layout == UNKNOWN and unit.is_needed for unit in units)


def agree(mine: List[int], name: str) -> List[int]:
    """Of each gradient the layout in which all ranks know it: dense if it is so on any of them, UNKNOWN if none has it.
    Collective; ``mine``: as it is on this rank.

    Who has dense ones only knows the result, and does not wait for the others: ranks may come to their optimizers in any
    order.
    """
    _operation.settle(name)
    message = torch.tensor(mine, dtype=torch.uint8, device="cpu")
    handle = start_allreduce([message], [message], name, _abi.MAX, 1.0, 1.0, True, wait=False)
    if all(layout == DENSE for layout in mine):
        return mine
    layouts: List[int] = synchronize(handle).tolist()
    return layouts


def seen(units: Iterable[Unit]) -> List[int]:
    """What this rank says of them."""
    return [_seen(unit) if unit.layout == UNKNOWN else unit.layout for unit in units]


def reopen(units: Iterable[Unit]) -> bool:
    """Nothing is known any more. Whether there is anything to agree on."""
    singles = [unit for unit in units if unit.is_single]
    for unit in singles:
        unit.layout = UNKNOWN
    return bool(singles)


def settle(units: Sequence[Unit], name: str) -> bool:
    """Has all ranks agree, and returns whether it is open still of any. ``units``: in the same order on all ranks."""
    for unit, layout in zip(units, agree(seen(units), name)):
        unit.layout = layout
    return any(unit.layout == UNKNOWN for unit in units)


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
