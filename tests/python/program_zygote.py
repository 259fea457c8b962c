"""The process that programs are forked from, where a test of a whole job is about what they do and not about how
processes begin and end: it has loaded PyTorch, which takes four seconds of a processor in each (fork_server.py).

Called as program_zygote.py LISTENER where LISTENER is the descriptor of a listening Unix socket. Ends, with all forks,
once its standard input is closed.
"""

from __future__ import annotations

import os
import runpy
import socket
import sys
from pathlib import Path

import ronde.torch  # noqa: F401  loaded, not initialised
import torch
import torch._dynamo  # noqa: F401  which every optimizer loads, and takes as long as the rest

from fork_server import ForkServer, take_over

torch.set_num_threads(1)
task = ForkServer(socket.socket(fileno=int(sys.argv[1])), os.dup(0)).serve()
if task is not None:
    take_over(task.standard)
    sys.argv = task.words
    sys.path[0] = str(Path(task.words[0]).parent)
    runpy.run_path(task.words[0], run_name="__main__")
