"""What ranks vote on in a step: which parameters are reduced, and which the step leaves without a gradient.

A rank without a gradient contributes zeros, so that the others' sum stays what it is, and takes part in their step. But zeros
are no gradient where nobody has one: an optimizer would decay the weights of what is frozen on all ranks, or go on with a
momentum. And a gradient that the program has taken away (``p.grad = None`` behind the backward pass, as DINO does with its
last layer) is to stay away, on the ranks too that had none. No rank knows either by itself: where :class:`StepSummary
<ronde.torch._step_summary.StepSummary>` tells that there may be such parameters, the ranks say of each what they know.
"""

from __future__ import annotations

from typing import Callable, Container, Sequence, Set

import torch

from ronde.torch._places import Unit

#: Gives the largest values that ranks have in a small tensor, which it names.
Vote = Callable[[torch.Tensor, str], torch.Tensor]


def vote_on_needed(units: Sequence[Unit], vote: Vote) -> None:
    """What one rank reduces all do: a parameter may never have been trainable on this rank when its optimizer looked.
    Collective. ``units``: in an order that is the same on all ranks."""
    needed = torch.tensor([unit.is_needed for unit in units], dtype=torch.uint8, device="cpu")
    for unit, is_needed in zip(units, vote(needed, "needed").tolist()):
        unit.is_needed = bool(is_needed)


def left_out(
    parameters: Sequence[torch.nn.Parameter],
    frozen: Container[torch.nn.Parameter],
    taken: Container[torch.nn.Parameter],
    vote: Vote,
) -> Set[torch.nn.Parameter]:
    """Those that get no gradient in this step. Collective.

    Args:
        parameters: all, in an order that is the same on all ranks.
        frozen: those that have no gradient on this rank and require none.
        taken: those whose gradient the program has taken away.
    """
    words = [parameter not in frozen for parameter in parameters] + [parameter in taken for parameter in parameters]
    everyone = vote(torch.tensor(words, dtype=torch.uint8, device="cpu"), "left out").tolist()
    count = len(parameters)
    return {p for p, is_somebodys, is_taken in zip(parameters, everyone, everyone[count:]) if is_taken or not is_somebodys}
