"""``torch.compile`` of functions that call Ronde: its calls run as they are, between what is compiled.

The compiler would follow them into the bindings otherwise, and make graphs of bookkeeping that holds for one call. It is
told so when it is loaded, which takes seconds and is the program's to decide.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import sys
from types import ModuleType
from typing import Any, Optional, Sequence

#: Where the compiler keeps the list of what it does not look into.
_RULES = "torch._dynamo.trace_rules"

_log = logging.getLogger("ronde")


def keep_out() -> None:
    """Has the compiler leave Ronde's functions alone, now or when it is loaded. Raises nothing."""
    loaded = sys.modules.get(_RULES)
    if loaded is not None:
        _tell(loaded)
    elif not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _tell(rules: ModuleType) -> None:
    try:
        rules.add("ronde")
    except Exception as error:  # a PyTorch that has it elsewhere compiles what it can
        _log.debug("Ronde: this PyTorch's compiler cannot be told to leave Ronde alone: %s", error)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the compiler's module where the others do, once."""

    def find_spec(
        self, fullname: str, path: Optional[Sequence[str]], target: Optional[ModuleType] = None
    ) -> Optional[importlib.machinery.ModuleSpec]:
        """That of the compiler's list, which tells it as it is loaded; None for all else."""
        if fullname != _RULES:
            return None
        sys.meta_path.remove(self)
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.loader is not None:
            spec.loader = _Loader(spec.loader)
        return spec


class _Loader(importlib.abc.Loader):
    """The module's own, and then a word to the module."""

    def __init__(self, own: Any) -> None:
        self._own = own

    def __getattr__(self, name: str) -> Any:
        return getattr(self._own, name)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> Optional[ModuleType]:
        """As the module's own."""
        made: Optional[ModuleType] = self._own.create_module(spec)
        return made

    def exec_module(self, module: ModuleType) -> None:
        """As the module's own, and tells the module."""
        self._own.exec_module(module)
        _tell(module)
