"""Groups of ranks: those of ``ronde.torch``, loaded when they are asked for."""

from __future__ import annotations

from typing import Any


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    import ronde.torch
    import ronde.torch.process_sets

    for module in (ronde.torch.process_sets, ronde.torch):
        if hasattr(module, name):
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
