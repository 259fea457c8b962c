"""The command ``horovodrun``: Horovod's flags, Ronde's launcher."""

from __future__ import annotations

import argparse
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

import horovod
from horovod.runner import _hosts
from horovod.runner._build import build_table
from horovod.runner._config_file import read_config_file
from horovod.runner._flags import add_flags, variables, without_meaning

_USAGE_ERROR = 2
_CANNOT_START = 125


def _version() -> str:
    import ronde

    return f"{horovod.__version__} (Ronde {ronde.__version__})"


class _ShowVersion(argparse.Action):
    # Asked only when it is wanted: the packages' metadata cost milliseconds.
    def __call__(self, parser: argparse.ArgumentParser, *_: Any) -> None:
        print(_version())
        parser.exit()


def parse_args(words: Optional[Sequence[str]] = None) -> argparse.Namespace:
    """The command line, ``sys.argv`` by default, as attributes by destination; None: not given. What a configuration
    file says is among them. Ends the program with code 2 and a sentence if it is wrong."""
    parser = argparse.ArgumentParser(
        prog="horovodrun",
        usage="horovodrun -np N [FLAGS] COMMAND [ARGUMENTS...]",
        description="Starts N ranks of a command on Ronde, shows what they print, ends with them.",
    )
    parser.add_argument("-v", "--version", action=_ShowVersion, nargs=0, help="print the version, and end")
    add_flags(parser)
    parser.add_argument("command", nargs=argparse.REMAINDER, help="what every rank runs")
    args = parser.parse_args(words)
    if args.command[:1] == ["--"]:
        del args.command[0]
    args.override_args = getattr(args, "override_args", {})
    args.run_func = None
    args.executable = None
    if args.config_file is not None:
        try:
            settings = read_config_file(args.config_file)
        except (OSError, ValueError) as error:
            parser.error(str(error))
        for dest, value in settings.items():
            if dest not in args.override_args:
                setattr(args, dest, value)
    return args


def launcher_command() -> str:
    """Where the command ``ronde`` is: beside this Python, else in PATH. RuntimeError if nowhere."""
    beside = Path(sys.executable).with_name("ronde")
    found = str(beside) if beside.exists() else shutil.which("ronde")
    if found is None:
        raise RuntimeError(
            f"the command `ronde` is neither beside {sys.executable} nor in PATH: install the package ronde"
        )
    return found


def hosts_of(args: Any) -> Optional[List[_hosts.Host]]:
    """The hosts that the settings name; None: this one. ValueError, in one sentence, if they make no sense."""
    if args.hosts is not None and args.hostfile is not None:
        raise ValueError("give hosts by -H or by --hostfile, not by both")
    if args.hosts is not None:
        return _hosts.parse_hosts(args.hosts)
    if args.hostfile is not None:
        return _hosts.read_host_file(args.hostfile)
    return None


def rank_count(args: Any) -> int:
    """How many ranks the settings ask for. ValueError, in one sentence, if they cannot be started."""
    return _hosts.ranks_to_start(args.num_proc if args.num_proc is not None else args.min_num_proc, hosts_of(args))


def launch_line(args: Any, carried: Optional[Path] = None) -> List[str]:
    """``ronde run`` with its own options; the command of the ranks is to follow. ``carried``: a folder that ranks of
    other hosts get a copy of. ValueError as :func:`rank_count`."""
    line = [launcher_command(), "run", "-n", str(rank_count(args))]
    hosts = hosts_of(args)
    if hosts is not None:
        line += ["-H", ",".join(f"{host.name}:{host.slots}" for host in hosts)]
        line += _between_hosts(args)
        if carried is not None and not args.use_mpi:
            line += ["--carry", str(carried)]
        elif carried is not None and not all(_hosts.is_this_host(host.name) for host in hosts):
            raise ValueError("horovod.run with use_mpi=True starts ranks on this host only: what MPI's launcher starts on "
                             "others finds no function there; give a script to `horovodrun --mpi` instead")
    if args.use_mpi:
        line += ["--backend", "mpi"]
        for words in (args.binding_args, args.mpi_args):
            line += [] if words is None else [f"--mpi-args={words}"]
        if args.verbose and hosts is None:
            line += ["--verbose"]
    elif args.use_gloo:
        line += ["--backend", "own"]
    if args.output_filename is not None:
        line += ["--output-dir", args.output_filename]
    if hosts is None:
        line += ["-H", f"localhost:{rank_count(args)}"]  # in a batch job too, whose hosts `ronde run` would take
    return [*line, "--"]


def _between_hosts(args: Any) -> List[str]:
    line = []
    ssh = os.environ.get("RONDE_SSH", "ssh")
    if args.ssh_port is not None:
        ssh += f" -p {args.ssh_port}"
    if args.ssh_identity_file is not None:
        ssh += f" -i {shlex.quote(args.ssh_identity_file)}"
    if args.ssh_port is not None or args.ssh_identity_file is not None:
        line += ["--ssh", ssh]
    if args.nics is not None:
        line += ["--network-interface", f"={args.nics}"]  # names, where Ronde takes beginnings of names
    if args.start_timeout is not None:
        line += ["--start-timeout", str(args.start_timeout)]
    if args.verbose:
        line += ["--verbose"]
    return line


def rank_environment(args: Any) -> Dict[str, str]:
    """This process's environment with the variables that the settings become."""
    return {**os.environ, **variables(args)}


def say_what_has_no_effect(args: Any) -> None:
    """On standard error, in one line, if anything was given that means nothing here."""
    idle = without_meaning(args)
    if idle:
        print(f"horovodrun: accepted, without effect on Ronde: {', '.join(idle)}", file=sys.stderr, flush=True)


def _run(args: Any) -> Optional[List[Any]]:
    """Runs ``args.run_func`` in ranks and returns their results; without one, becomes the launcher: does not return.

    ValueError if the settings cannot be followed; RuntimeError if the function failed.
    """
    say_what_has_no_effect(args)
    if args.run_func is not None:
        from horovod.runner._functions import run_in_ranks

        return run_in_ranks(args.run_func, args)
    line = launch_line(args) + args.command
    environment = rank_environment(args)
    if args.verbose:
        settings = [f"{name}={shlex.quote(value)}" for name, value in variables(args).items()]
        print("horovodrun: " + " ".join([*settings, shlex.join(line)]), file=sys.stderr, flush=True)
    sys.stdout.flush()
    os.execve(line[0], line, environment)


def run_commandline() -> None:
    """What ``horovodrun`` calls. Ends with the launcher's exit code, 2 for wrong usage, 125 if nothing can start."""
    args = parse_args()
    if args.check_build:
        print(build_table(_version()))
        return
    try:
        if not args.command:
            raise ValueError("which command? For example: horovodrun -np 2 python train.py")
        _run(args)
    except (OSError, RuntimeError) as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(_CANNOT_START)
    except ValueError as error:
        print(f"horovodrun: {error}", file=sys.stderr)
        sys.exit(_USAGE_ERROR)


if __name__ == "__main__":
    run_commandline()
