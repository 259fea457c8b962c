"""Of which call's end a future has come, and as which of those that have.

What is put behind one future runs in the order in which it was put there. What is put behind several that have come of one
end (``x = end.then(a)``, then ``end.then(b)``, then ``x.then(c)``) runs in an order that depends on when the call has ended: all
at once, or each as it is put there. So calls that are made there say behind which of them they are, as a number that is the same
on all ranks whose programs have put the same things behind the same futures, in the same order.

A future behind which nobody puts anything counts for nothing: one rank may have more of these than another. Of a future that
the program has made itself nothing is known until something behind another one fills it, which may be after things were put
behind it.
"""

from __future__ import annotations

import threading
import zlib
from typing import Any, NamedTuple, Optional, Sequence, Tuple

from ronde.torch.distributed._names import Names


class Origin(NamedTuple):
    """An end."""

    names: Names  #: of its group
    kind: str  #: "call", one without a name; "barrier"; "pair", a send or recv; "all", of several
    number: int  #: among those of its kind in the group, alike on all ranks that make the same calls

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of {self.names.title}"


class Step(NamedTuple):
    """Where a future stands."""

    origin: Origin
    which: int  #: of those that have come of that end; 0: the end's own


_lock = threading.RLock()


def hash_of(text: str) -> int:
    """32 bits, the same on all ranks; never 0."""
    return zlib.crc32(text.encode()) or 1


class Lineage:
    """Of one future. All functions: by any thread."""

    __slots__ = ("_step", "_above", "_how", "_number", "_asked", "_filled")

    def __init__(self, how: str = "", above: "Sequence[Lineage]" = ()) -> None:
        self._step: Optional[Step] = None
        self._above: "Tuple[Lineage, ...]" = tuple(above)  #: until the step is known
        self._how = how
        self._number = 0  #: among those that have come of the one above in this way; 0: not asked for
        self._asked = self._filled = 0  #: those that have come of this one

    @staticmethod
    def of_end(origin: Origin) -> "Lineage":
        """Of the end's own future."""
        made = Lineage()
        made._step = Step(origin, 0)
        return made

    @staticmethod
    def of_all(lineages: "Sequence[Lineage]") -> "Lineage":
        """Of one that is done when all these are."""
        for each in lineages:
            each.ask()
        return Lineage("all", lineages)

    def child(self) -> "Lineage":
        """Of one that is done when what is put behind this one has run."""
        return Lineage("then", (self,))

    def ask(self) -> None:
        """Something is put behind it."""
        with _lock:
            if self._how == "then" and self._number == 0:
                self._above[0]._asked += 1
                self._number = self._above[0]._asked

    def fill(self, by: "Lineage") -> None:
        """What runs behind that one is about to fill it."""
        with _lock:
            if self._step is None and not self._above:
                by._filled += 1
                self._how, self._above, self._number = "filled", (by,), by._filled

    def step(self) -> Optional[Step]:
        """None: not known, or not of any end that ranks know."""
        with _lock:
            if self._step is None and self._above:
                self.ask()
                self._step = self._step_below([step for step in (each.step() for each in self._above) if step is not None])
                self._above = () if self._step is not None else self._above
            return self._step

    def _step_below(self, above: Sequence[Step]) -> Optional[Step]:
        if not above:
            return None
        which = hash_of(f"{self._how} {self._number} of {[each.which for each in above]}")
        origins = [each.origin for each in above]
        if all(each == origins[0] for each in origins):
            return Step(origins[0], which)
        return Step(Origin(origins[0].names, "all", hash_of(" and ".join(map(str, origins)))), which)
