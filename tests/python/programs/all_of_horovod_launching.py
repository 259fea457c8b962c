"""``horovod.run`` and ``horovodrun``: what the flags of this job's command have become, and jobs started from here."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from pathlib import Path
from typing import Any, Callable, Dict, Iterator, List, Tuple

from all_of_horovod_expect import raises, warns

#: Flags of ``horovodrun`` that reach the ranks, with the variables that they must find. ``{folder}``: the program's.
FLAGS: Dict[str, Tuple[str, str]] = {
    "--start-timeout 50": ("HOROVOD_START_TIMEOUT", "50.0"),
    "--gloo-timeout-seconds 40": ("HOROVOD_GLOO_TIMEOUT_SECONDS", "40"),
    "--fusion-threshold-mb 32": ("HOROVOD_FUSION_THRESHOLD", str(32 << 20)),
    "--cache-capacity 512": ("HOROVOD_CACHE_CAPACITY", "512"),
    "--cycle-time-ms 0.5": ("HOROVOD_CYCLE_TIME", "0.5"),
    "--no-hierarchical-allreduce": ("HOROVOD_HIERARCHICAL_ALLREDUCE", "0"),
    "--hierarchical-allgather": ("HOROVOD_HIERARCHICAL_ALLGATHER", "1"),
    "--no-torus-allreduce": ("HOROVOD_TORUS_ALLREDUCE", "0"),
    "--autotune": ("HOROVOD_AUTOTUNE", "1"),
    "--autotune-log-file {folder}/tuned.csv": ("HOROVOD_AUTOTUNE_LOG", "{folder}/tuned.csv"),
    "--autotune-warmup-samples 3": ("HOROVOD_AUTOTUNE_WARMUP_SAMPLES", "3"),
    "--autotune-steps-per-sample 10": ("HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE", "10"),
    "--autotune-bayes-opt-max-samples 20": ("HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES", "20"),
    "--autotune-gaussian-process-noise 0.8": ("HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE", "0.8"),
    "--elastic-timeout 600": ("HOROVOD_ELASTIC_TIMEOUT", "600"),
    "--reset-limit 7": ("RONDE_ELASTIC_RESET_LIMIT", "7"),
    "--timeline-filename {folder}/flag.json": ("HOROVOD_TIMELINE", "{folder}/flag.json"),
    "--timeline-mark-cycles": ("HOROVOD_TIMELINE_MARK_CYCLES", "1"),
    "--stall-check": ("HOROVOD_STALL_CHECK_DISABLE", "0"),
    "--stall-check-warning-time-seconds 30": ("HOROVOD_STALL_CHECK_TIME_SECONDS", "30"),
    "--stall-check-shutdown-time-seconds 300": ("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "300"),
    "--mpi-threads-disable": ("HOROVOD_MPI_THREADS_DISABLE", "1"),
    "--num-nccl-streams 1": ("HOROVOD_NUM_NCCL_STREAMS", "1"),
    "--thread-affinity 0": ("HOROVOD_THREAD_AFFINITY", "0"),
    "--log-level warning": ("HOROVOD_LOG_LEVEL", "WARNING"),
    "--log-without-timestamp": ("HOROVOD_LOG_HIDE_TIME", "1"),
}


def command_line(folder: Path) -> List[str]:
    """The words of those flags."""
    return [word.format(folder=folder) for words in FLAGS for word in words.split()]


def check_flags(folder: Path) -> None:
    """Their variables are here."""
    for words, (variable, value) in FLAGS.items():
        expected = value.format(folder=folder)
        assert os.environ.get(variable) == expected, f"{words}: {variable} is {os.environ.get(variable)}"


def squares(count: int, offset: int = 0) -> Dict[str, Any]:
    """What a rank of a started job returns."""
    from horovod.common.basics import HorovodBasics

    basics = HorovodBasics("")
    basics.init()
    return {"rank": basics.rank(), "size": basics.size(), "squares": [each**2 + offset for each in range(count)]}


def expected_of(ranks: int, count: int, offset: int = 0) -> List[Dict[str, Any]]:
    """What all of them return."""
    values = [each**2 + offset for each in range(count)]
    return [{"rank": rank, "size": ranks, "squares": values} for rank in range(ranks)]


@contextlib.contextmanager
def said_by(*words: str) -> Iterator[io.StringIO]:
    """What is printed in the block, in which these are the words of the command line."""
    before, sys.argv = sys.argv, list(words)
    said = io.StringIO()
    try:
        with contextlib.redirect_stdout(said):
            yield said
    finally:
        sys.argv = before


def check_settings(owner: Any, launch: Any) -> None:
    """The settings' object that ``run`` fills, given to what starts ranks."""
    settings = owner._HorovodArgs()
    assert settings.num_proc is None and settings.hosts is None and settings.verbose is None
    settings.num_proc, settings.hosts = 1, "localhost:1"
    settings.run_func = lambda: squares(2)
    assert launch._run(settings) == expected_of(1, 2)


def check_command(owner: Any) -> None:
    """The entry point of ``horovodrun``."""
    with said_by("horovodrun", "--check-build") as said:
        owner.run_commandline()
    assert "[X] PyTorch" in said.getvalue() and "[X] MPI" in said.getvalue()


def check_parsing(parse_args: Callable[..., Any]) -> None:
    """Words become attributes."""
    args = parse_args(["-np", "2", "-H", "localhost:2", "--fusion-threshold-mb", "8", "python", "train.py", "-v"])
    assert (args.num_proc, args.hosts, args.fusion_threshold_mb) == (2, "localhost:2", 8)
    assert args.command == ["python", "train.py", "-v"] and args.timeline_filename is None


def check_launching(modules: Dict[str, Any]) -> None:
    """Jobs of ranks of their own, started from this rank. ``modules``: where the names are found."""
    launch = modules["horovod.runner.launch"]
    check_parsing(launch.parse_args)
    assert modules["horovod"].run(squares, (3,), {"offset": 1}, num_proc=2) == expected_of(2, 3, 1)
    assert modules["horovod.run"].run(squares, args=(1,), num_proc=1, hosts="localhost:1") == expected_of(1, 1)
    with warns("np="):
        assert modules["horovod.run.runner"].run(squares, (2,), np=1) == expected_of(1, 2)
    with raises(ValueError, "needs a function"):
        modules["horovod.runner"].run("squares")
    for owner in (modules["horovod.run.runner"], modules["horovod.runner"]):
        check_settings(owner, launch)
    for owner in (modules["horovod.run.runner"], launch):
        check_command(owner)
