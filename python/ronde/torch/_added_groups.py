"""Parameters that come into an optimizer after it was wrapped, through it or through the optimizer that it wraps: both have
the same list of groups, and programs also replace groups in it."""

from __future__ import annotations

from typing import Any, Container, Dict, List, Sequence, Tuple

import torch

Groups = Sequence[Dict[str, Any]]


class AddedGroups:
    """Finds them, and names them by the place where they came."""

    def __init__(self, groups: Groups) -> None:
        self._known = _state_of(groups)
        self._numbered = len(groups)

    def named(
        self, groups: Groups, known: Container[torch.nn.Parameter], prefix: str
    ) -> List[Tuple[torch.nn.Parameter, str]]:
        """Those that are not ``known``. Looks at each parameter only where a group has come, gone or grown."""
        if len(groups) == len(self._known) and all(
            group is before and len(group["params"]) == count for group, (before, count) in zip(groups, self._known)
        ):
            return []
        self._known = _state_of(groups)
        found = []
        for group in groups:
            added = [parameter for parameter in group["params"] if parameter not in known]
            found += [(parameter, f"{prefix}.noname.{self._numbered}.{i}") for i, parameter in enumerate(added)]
            self._numbered += 1 if added else 0
        return found


def _state_of(groups: Groups) -> List[Tuple[Dict[str, Any], int]]:
    return [(group, len(group["params"])) for group in groups]
