"""Sparse gradients that travel as dense ones: which parameters get theirs back sparse, alike on all ranks.

An optimizer is to see what autograd has made: some take sparse gradients only, others refuse them. A rank that did not
use an embedding in a step has no gradient of it and cannot know its layout, so the ranks tell each other what they have
seen: once, after the first backward pass, and again only as long as there are parameters that no rank has had a gradient
of.

Which rows came from any rank cannot be told from the reduced values: one may be 0, and an optimizer with momentum moves
that row all the same. So the ranks' rows are reduced beside, a byte for each.
"""

from __future__ import annotations

from typing import Dict, Optional, Sequence, Set, Tuple

import torch

from ronde import _abi
from ronde._handle import Handle, synchronize
from ronde._names import part_of
from ronde._operation import settle
from ronde.torch._layouts import agree, layout_here
from ronde.torch._places import DENSE, UNKNOWN, Unit
from ronde.torch._start import start_allreduce


#: What a rank says of a row: it has one, or its whole gradient is dense.
_ROW, _ALL_DENSE = 1, 2


class Origins:
    """The layouts in which autograd makes the gradients of some parameters, and the rows of those that are sparse."""

    def __init__(self) -> None:
        self._layouts: Dict[torch.nn.Parameter, int] = {}  # seen on this rank, or agreed
        self._needed: Set[torch.nn.Parameter] = set()  # have required a gradient once
        self._agreed: Dict[torch.nn.Parameter, int] = {}
        self._sparse: Dict[torch.nn.Parameter, int] = {}  # of these, with how many sparse dimensions
        self._rows: Dict[torch.nn.Parameter, torch.Tensor] = {}  # of this rank and round: where there is a row
        self._begun: Set[torch.nn.Parameter] = set()  # in this round: what p.grad is since then, autograd has not made
        #: The rows of all ranks, and this rank's, which they take the place of.
        self._under_way: Dict[torch.nn.Parameter, Tuple[Handle[torch.Tensor], torch.Tensor]] = {}

    def add(self, parameter: torch.nn.Parameter) -> None:
        """Its gradients travel dense from now on."""
        self._layouts[parameter] = UNKNOWN

    def need(self, parameter: torch.nn.Parameter) -> None:
        """It requires a gradient."""
        self._needed.add(parameter)

    def remove(self, parameter: torch.nn.Parameter) -> None:
        """It is reduced no more."""
        for known in (self._layouts, self._agreed, self._sparse, self._rows):
            known.pop(parameter, None)
        self._needed.discard(parameter)
        self._begun.discard(parameter)

    def note_at_start(self, parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
        """As :meth:`note`, when its reduction begins and it is about to be made dense; nothing if that begins anew."""
        if parameter not in self._begun:
            self._begun.add(parameter)
            self.note(parameter, gradient)

    def note_none_at_start(self, parameter: torch.nn.Parameter) -> None:
        """It has no gradient when its reduction begins: the zeros that become ``p.grad`` are not autograd's."""
        self._begun.add(parameter)

    def note(self, parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
        """What autograd has made of a parameter, before it is made dense."""
        if self._layouts[parameter] == UNKNOWN:
            self._layouts[parameter] = layout_here(gradient)
        layout = self._layouts[parameter]
        if layout == DENSE:
            return
        rows = self._rows.get(parameter)
        if rows is None:
            rows = self._rows[parameter] = _no_rows(parameter, gradient.sparse_dim() if gradient.is_sparse else layout)
        if gradient.is_sparse:
            indices = tuple(gradient._indices().cpu())
            rows[indices] = rows[indices].clamp(min=_ROW)
        else:  # in this round, as where a dense term of the loss is added; the sum is dense then
            rows.fill_(_ALL_DENSE)

    def are_open(self) -> bool:
        """Whether this rank does not know all layouts. One that had joined may not know what the others have agreed on."""
        return len(self._agreed) < len(self._layouts) and any(each not in self._agreed for each in self._needed)

    def agree(self, parameters: Sequence[torch.nn.Parameter], name: str) -> None:
        """Has the ranks agree on them: all, in an order that is the same on all ranks. Collective, under this name."""
        layouts = agree([self._layouts[parameter] for parameter in parameters], name)
        for parameter, layout in zip(parameters, layouts):
            if layout != UNKNOWN:
                self._layouts[parameter] = self._agreed[parameter] = layout
            if layout not in (UNKNOWN, DENSE):
                self._sparse[parameter] = layout

    def reopen(self) -> None:
        """The ranks agree anew."""
        self._agreed.clear()
        self._sparse.clear()

    def exchange_rows(self, unit: Unit) -> None:
        """Begins to reduce the rows of what is sparse in the unit, once in a round. On all ranks, as the unit itself."""
        for index, parameter in enumerate(unit.parameters):
            layout = self._sparse.get(parameter)
            if layout is None or parameter in self._under_way:
                continue
            rows = _with_dimensions(layout, parameter, self._rows.pop(parameter, None))
            name = part_of(unit.name, f"rows {index}")
            settle(name)
            handle = start_allreduce([rows], [rows], name, _abi.MAX, 1.0, 1.0, True, wait=False)
            self._under_way[parameter] = handle, rows

    def restore(self) -> None:
        """Makes those gradients sparse again that autograd makes so."""
        for parameter, (handle, _) in list(self._under_way.items()):
            rows = synchronize(handle)
            gradient = parameter.grad
            if bool((rows == _ALL_DENSE).any()):
                continue
            if gradient is not None and gradient.layout is torch.strided:
                indices = rows.nonzero().t().to(gradient.device)
                values = gradient.detach()[tuple(indices)]
                parameter.grad = torch.sparse_coo_tensor(
                    indices, values, gradient.shape, is_coalesced=True, check_invariants=False
                )

    def ask_to_cancel(self) -> None:
        """Begins to end what is under way: on all ranks, unless all have begun it."""
        for handle, _ in self._under_way.values():
            handle.ask_to_cancel()

    def take_back(self) -> bool:
        """Ends what is under way, to begin it anew: on all ranks, unless all have begun it. Whether none was, or may be,
        reduced."""
        have_failed = [handle.cancel() for handle, _ in self._under_way.values()]
        for parameter, (handle, rows) in self._under_way.items():
            handle.abandon()
            self._rows[parameter] = rows
        self._under_way.clear()
        return all(have_failed)

    def forget(self) -> None:
        """The round is over, well or not."""
        self._rows.clear()
        self._begun.clear()
        for handle, _ in self._under_way.values():
            handle.abandon()
        self._under_way.clear()


def _with_dimensions(layout: int, parameter: torch.nn.Parameter, rows: Optional[torch.Tensor]) -> torch.Tensor:
    """As all ranks have them."""
    if rows is None:
        return _no_rows(parameter, layout)
    if rows.dim() < layout:
        more = (1,) * (layout - rows.dim())
        return rows.reshape(*rows.shape, *more).expand(parameter.shape[:layout]).contiguous()
    return rows if rows.dim() == layout else rows.amax(tuple(range(layout, rows.dim())))


def _no_rows(parameter: torch.nn.Parameter, layout: int) -> torch.Tensor:
    return torch.zeros(parameter.shape[:layout], dtype=torch.uint8, device="cpu")
