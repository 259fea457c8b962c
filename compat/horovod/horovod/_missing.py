"""What this distribution does not have yet."""

from __future__ import annotations

from typing import NoReturn


def refuse(module: str, what: str) -> NoReturn:
    """Raises the ImportError of a module that is not there yet."""
    raise ImportError(
        f"{module} does not exist yet: Ronde has no support for {what} so far; today there are horovod.torch, "
        "horovod.tensorflow, horovod.keras, horovod.ray, horovod.spark.run, horovod.run and horovodrun"
    )
