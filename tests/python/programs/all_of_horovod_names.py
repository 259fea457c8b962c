"""Which of Horovod's names a program uses."""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any, Set

#: ``module.name``, or ``module:class.name``.
used: Set[str] = set()


class Watched:
    """Stands for a module, or for an object of ``module:class``, and notes in :data:`used` what is used of it: a
    function once it was called, anything else when it is read."""

    def __init__(self, path: str, target: Any = None) -> None:
        self._path = path
        self._target = importlib.import_module(path) if target is None else target

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        full_name = f"{self._path}.{name}"
        if not inspect.isroutine(value):
            used.add(full_name)
            return value

        @functools.wraps(value)
        def call(*args: Any, **kwargs: Any) -> Any:
            used.add(full_name)
            return value(*args, **kwargs)

        return call
