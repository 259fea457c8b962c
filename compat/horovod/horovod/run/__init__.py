"""``horovod.run`` is a function and, in scripts of early versions, a package: ``from horovod.run.runner import run``.
This package can therefore be called like the function."""

from __future__ import annotations

import sys
import types
from typing import Any, List

from horovod.runner import run


class _CallablePackage(types.ModuleType):
    def __call__(self, *args: Any, **kwargs: Any) -> List[Any]:
        return run(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage

__all__ = ["run"]
