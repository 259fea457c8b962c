"""Deep copies of distributed optimizers. PyTorch copies settings and state only, so that what makes one distributed is lost."""

from __future__ import annotations

import copy
from typing import Any, Dict, List, Tuple

import torch


def copy_of_wrapped(
    optimizer: Any, names: Dict[torch.nn.Parameter, str], memo: Dict[int, Any]
) -> Tuple[torch.optim.Optimizer, List[Tuple[str, torch.nn.Parameter]]]:
    """A deep copy of the optimizer that a distributed one wraps, as ``copy.deepcopy`` makes it of an optimizer, and the names of
    the copied parameters.

    Args:
        optimizer: the distributed one: its class is derived from a mixin and from the wrapped one's class.
        names: of its parameters.
        memo: of ``copy.deepcopy``; gets the parameters.
    """
    base = type(optimizer).__bases__[1]
    plain: torch.optim.Optimizer = object.__new__(base)
    plain.__setstate__(copy.deepcopy(optimizer.__getstate__(), memo))
    return plain, [(name, copy.deepcopy(parameter, memo)) for parameter, name in names.items()]
