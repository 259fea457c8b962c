"""Horovod's names on Ronde: scripts written for Horovod run without a change. ``import horovod.torch as hvd``.

Importing this package loads neither Ronde's library nor a framework.
"""

from horovod import _installation

_installation.check()

from horovod.runner import run  # noqa: E402 - nothing of a mixed installation may run

__version__: str = "0.28.1"
"""Of Horovod's interface; scripts compare it. The distribution's own is ``0.28.1+ronde1``."""

__all__ = ["__version__", "run"]
