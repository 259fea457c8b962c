"""The process that programs are forked from, where a test of a whole job is about what they do and not about how
processes begin and end: it has loaded the framework, PyTorch takes four seconds of a processor in each, JAX two
(fork_server.py). JAX has read its variables of the environment then (JAX_...), and not XLA its flags.

Called as program_zygote.py LISTENER FRAMEWORK where LISTENER is the descriptor of a listening Unix socket, FRAMEWORK torch or
jax. Ends, with all forks, once its standard input is closed.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from pathlib import Path

from fork_server import ForkServer, take_over


def load(framework: str) -> None:
    """What every program of the framework loads. Nothing of it is initialised, so no thread is lost by forking."""
    if framework == "jax":
        import jax.numpy  # noqa: F401
        from jax.experimental import io_callback  # noqa: F401

        import ronde.jax  # noqa: F401
        return
    import torch
    import torch._dynamo  # noqa: F401  which every optimizer loads, and takes as long as the rest

    import ronde.torch  # noqa: F401

    torch.set_num_threads(1)


load(sys.argv[2])
task = ForkServer(socket.socket(fileno=int(sys.argv[1])), os.dup(0)).serve()
if task is not None:
    take_over(task.standard)
    sys.argv = task.words
    sys.path[0] = str(Path(task.words[0]).parent)
    runpy.run_path(task.words[0], run_name="__main__")
