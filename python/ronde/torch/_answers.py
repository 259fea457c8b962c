"""What the ranks have answered where a step depends on more than this one."""

from __future__ import annotations

from typing import NamedTuple


class Answers(NamedTuple):
    """How many ranks say so."""

    touched: int  #: a backward pass has reached gradients since the last reduction, or they are new otherwise
    left: int  #: a closure has left gradients that were reduced already
    refused: int  #: what a closure has done to gradients
    present: int  #: that is all who answer
    ranks: int  #: all there are

    @property
    def has_joined(self) -> bool:
        """Whether there is a rank that adds nothing to averages, and counts."""
        return self.present < self.ranks


#: Where there is nothing to ask about.
NONE = Answers(0, 0, 0, 0, 0)
