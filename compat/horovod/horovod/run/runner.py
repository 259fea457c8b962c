"""Where early versions had ``run`` and the command's entry point."""

from horovod.runner import _HorovodArgs, run
from horovod.runner.launch import parse_args, run_commandline

__all__ = ["_HorovodArgs", "parse_args", "run", "run_commandline"]
