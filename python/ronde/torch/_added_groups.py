"""Parameters that come into an optimizer after it was wrapped, or leave it, through it or through the optimizer that it wraps:
both have the same list of groups, and programs also replace groups, and parameters in them."""

from __future__ import annotations

from operator import is_
from typing import Any, Dict, Iterable, List, NamedTuple, Sequence, Tuple

import torch

Groups = Sequence[Dict[str, Any]]


class Changes(NamedTuple):
    """What is different since the last look."""

    added: List[Tuple[torch.nn.Parameter, str]]  # with their names
    removed: List[torch.nn.Parameter]


class AddedGroups:
    """Finds them, and names what has come by the place where it came."""

    def __init__(self, groups: Groups) -> None:
        self._seen = _parameters_of(groups)
        self._numbered = len(groups)

    def changes(self, groups: Groups, known: Iterable[torch.nn.Parameter], prefix: str) -> Changes:
        """``known``: those that are reduced; what has come is named ``<prefix>.noname.<number>.<number>``."""
        now = _parameters_of(groups)
        if len(now) == len(self._seen) and all(map(is_, now, self._seen)):
            return Changes([], [])
        self._seen = now
        known = set(known)
        added = []
        for group in groups:
            come = [parameter for parameter in group["params"] if parameter not in known]
            added += [(parameter, f"{prefix}.noname.{self._numbered}.{i}") for i, parameter in enumerate(come)]
            self._numbered += 1 if come else 0
        return Changes(added, list(known.difference(now)))


def _parameters_of(groups: Groups) -> List[torch.nn.Parameter]:
    return [parameter for group in groups for parameter in group["params"]]
