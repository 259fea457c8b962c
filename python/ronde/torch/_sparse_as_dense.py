"""Sparse gradients that travel as dense ones: which parameters get theirs back sparse, alike on all ranks.

An optimizer is to see what autograd has made: some take sparse gradients only, others refuse them. A rank that did not
use an embedding in a step has no gradient of it and cannot know its layout, so the ranks tell each other what they have
seen: once, after the first backward pass, and again only as long as there are parameters that no rank has had a gradient
of.
"""

from __future__ import annotations

from typing import Dict, List, Sequence

import torch

from ronde.torch._layouts import layout_here
from ronde.torch._places import DENSE, UNKNOWN


class Origins:
    """The layouts in which autograd makes the gradients of some parameters."""

    def __init__(self) -> None:
        self._layouts: Dict[torch.nn.Parameter, int] = {}  # seen on this rank, or agreed
        self._agreed: Dict[torch.nn.Parameter, int] = {}
        self._sparse: Dict[torch.nn.Parameter, int] = {}  # of these, with how many sparse dimensions

    def add(self, parameter: torch.nn.Parameter) -> None:
        """Its gradients travel dense from now on. In the same order on all ranks."""
        self._layouts[parameter] = UNKNOWN

    def note(self, parameter: torch.nn.Parameter, gradient: torch.Tensor) -> None:
        """What autograd has made of a parameter, before it is made dense."""
        if self._layouts[parameter] == UNKNOWN:
            self._layouts[parameter] = layout_here(gradient)

    def are_open(self) -> bool:
        """Whether there is anything to agree on: the same on all ranks."""
        has_all = len(self._agreed) == len(self._layouts)
        return not has_all and any(each not in self._agreed and each.requires_grad for each in self._layouts)

    def seen(self) -> List[int]:
        """What this rank says of them."""
        return list(self._layouts.values())

    def settle(self, layouts: Sequence[int]) -> None:
        """What the ranks have agreed on."""
        for parameter, layout in zip(self._layouts, layouts):
            if layout != UNKNOWN:
                self._layouts[parameter] = self._agreed[parameter] = layout
            if layout not in (UNKNOWN, DENSE):
                self._sparse[parameter] = layout

    def restore(self) -> None:
        """Makes those gradients sparse again that autograd makes so."""
        for parameter, layout in self._sparse.items():
            gradient = parameter.grad
            if gradient is not None and gradient.layout is torch.strided:
                parameter.grad = gradient.detach().to_sparse(layout)
