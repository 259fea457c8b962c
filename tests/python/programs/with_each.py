"""A rank that runs with_NAME.py for each name given, one after the other, each in a child of its own.

PyTorch takes longest to load, and is loaded once. To the job these are programs that follow each other, as in a shell
script.
"""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path

import torch._dynamo  # noqa: F401  which every optimizer loads

import ronde.torch  # noqa: F401  loaded, not initialised

for name in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        runpy.run_path(str(Path(__file__).with_name(f"with_{name}.py")), run_name="__main__")
        sys.exit()
    _, status = os.waitpid(child, 0)
    if status != 0:
        sys.exit(f"with_{name}.py has ended with status {status}")
    print(f"{name} has ended", flush=True)
