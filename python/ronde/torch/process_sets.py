"""Groups of ranks. So far there is one: all of them."""

from __future__ import annotations

from typing import List, Optional

from ronde import _process
from ronde.exceptions import UnsupportedError


class ProcessSet:
    """A group of ranks. Only ``global_process_set`` can be used so far."""

    def __init__(self, ranks: Optional[List[int]] = None) -> None:
        self.ranks = ranks
        self.process_set_id: Optional[int] = None

    def size(self) -> Optional[int]:
        """How many ranks it has; None while it is not registered."""
        return _process.size() if self.process_set_id == 0 else None

    def rank(self) -> Optional[int]:
        """This process's rank in it; None while it is not registered."""
        return _process.rank() if self.process_set_id == 0 else None

    def included(self) -> Optional[bool]:
        """Whether this process belongs to it; None while its ranks are not known."""
        return True if self.process_set_id == 0 else None

    def __str__(self) -> str:
        return f"ProcessSet(process_set_id={self.process_set_id}, ranks={self.ranks})"


global_process_set = ProcessSet()
global_process_set.process_set_id = 0


def require_global(process_set: ProcessSet) -> None:
    """Raises UnsupportedError (a NotImplementedError) for any other group than all ranks."""
    if process_set is not global_process_set:
        raise UnsupportedError("process sets other than global_process_set are not implemented yet", 3)
