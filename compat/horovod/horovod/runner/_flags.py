"""Every flag of ``horovodrun``, as data: what it is called, what it becomes, and whether it means something here."""

from __future__ import annotations

import argparse
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

#: Kinds of flags beside the types of one value.
SWITCH = "switch"  # --x sets True
PAIR = "pair"  # --x sets True, --no-x False
OFF = "off"  # sets False
PAIR_OF_VALUES = "two values"


class Flag(NamedTuple):
    """One destination of the command line."""

    names: Tuple[str, ...]
    dest: str
    kind: Any
    variable: Optional[str]  # the HOROVOD_* variable that it becomes for the ranks
    means: bool  # False: accepted, without an effect here
    help: str


class Section(NamedTuple):
    """Flags that belong together: a section of the help, and of the configuration file where ``file`` names one."""

    title: str
    file: Optional[str]
    flags: Tuple[Flag, ...]


def _flag(
    names: str, kind: Any, help: str, variable: Optional[str] = None, means: bool = True, dest: Optional[str] = None
) -> Flag:
    every = tuple(names.split())
    return Flag(every, dest or every[-1].lstrip("-").replace("-", "_"), kind, variable, means, help)


def _idle(names: str, kind: Any, help: str, variable: Optional[str] = None, dest: Optional[str] = None) -> Flag:
    return _flag(names, kind, help, variable, False, dest)


SECTIONS: Tuple[Section, ...] = (
    Section(
        "basic",
        None,
        (
            _flag("-np --num-proc", int, "how many ranks to start"),
            _flag("-cb --check-build", SWITCH, "print what this installation can do, and end"),
            _flag("--start-timeout", float, "seconds that hosts and ranks have to meet at the start",
                  "HOROVOD_START_TIMEOUT"),
            _flag("--output-filename", str, "folder for what each rank prints: rank.N/stdout and rank.N/stderr"),
            _flag("--verbose", SWITCH, "say what is started"),
            _flag("--config-file", str, "YAML file with settings; flags win over it"),
            _idle("--disable-cache", SWITCH, "no checks of hosts are kept"),
            _flag("--network-interfaces", str, "interfaces to use between hosts", dest="nics"),
            _flag("--network-interface", str, "deprecated: --network-interfaces", dest="nics"),
        ),
    ),
    Section(
        "ssh",
        None,
        (
            _flag("-p --ssh-port", int, "port of ssh on the hosts"),
            _flag("-i --ssh-identity-file", str, "key for ssh"),
        ),
    ),
    Section(
        "tuning",
        "params",
        (
            _flag("--fusion-threshold-mb", int, "most megabytes that small tensors are fused into; 0: none",
                  "HOROVOD_FUSION_THRESHOLD"),
            _idle("--cycle-time-ms", float, "a lone operation waits for no cycle here", "HOROVOD_CYCLE_TIME"),
            _flag("--cache-capacity", int, "0: agree on every operation by messages", "HOROVOD_CACHE_CAPACITY"),
            _idle("--hierarchical-allreduce", PAIR, "the way is chosen by size", "HOROVOD_HIERARCHICAL_ALLREDUCE"),
            _idle("--hierarchical-allgather", PAIR, "the way is chosen by size", "HOROVOD_HIERARCHICAL_ALLGATHER"),
            _idle("--torus-allreduce", PAIR, "the way is chosen by size", "HOROVOD_TORUS_ALLREDUCE"),
        ),
    ),
    Section(
        "autotune",
        "autotune",
        (
            _idle("--autotune", PAIR, "thresholds are measured without being asked", "HOROVOD_AUTOTUNE"),
            _idle("--autotune-log-file", str, "file for what the search tries", "HOROVOD_AUTOTUNE_LOG"),
            _idle("--autotune-warmup-samples", int, "of the search", "HOROVOD_AUTOTUNE_WARMUP_SAMPLES"),
            _idle("--autotune-steps-per-sample", int, "of the search", "HOROVOD_AUTOTUNE_STEPS_PER_SAMPLE"),
            _idle("--autotune-bayes-opt-max-samples", int, "of the search", "HOROVOD_AUTOTUNE_BAYES_OPT_MAX_SAMPLES"),
            _idle("--autotune-gaussian-process-noise", float, "of the search",
                  "HOROVOD_AUTOTUNE_GAUSSIAN_PROCESS_NOISE"),
        ),
    ),
    Section(
        "elastic",
        None,
        (
            _idle("--min-np --min-num-proc", int, "fewest ranks to go on with"),
            _idle("--max-np --max-num-proc", int, "most ranks to grow to"),
            _idle("--slots-per-host", int, "ranks on each host that is found", dest="slots"),
            _idle("--elastic-timeout", int, "seconds to wait for hosts", "HOROVOD_ELASTIC_TIMEOUT"),
            _flag("--reset-limit", int, "how often training may start again", "RONDE_ELASTIC_RESET_LIMIT"),
            _idle("--blacklist-cooldown-range", PAIR_OF_VALUES, "seconds until a failed host is tried again",
                  dest="cooldown_range"),
            _idle("--host-discovery-script", str, "program that lists hosts"),
        ),
    ),
    Section(
        "timeline",
        "timeline",
        (
            _flag("--timeline-filename", str, "file for a trace of each rank", "HOROVOD_TIMELINE"),
            _flag("--timeline-mark-cycles", PAIR, "also mark each batch of operations",
                  "HOROVOD_TIMELINE_MARK_CYCLES"),
        ),
    ),
    Section(
        "stall",
        "stall_check",
        (
            _flag("--no-stall-check", SWITCH, "never report what waits", "HOROVOD_STALL_CHECK_DISABLE",
                  dest="no_stall_check"),
            _flag("--stall-check", OFF, "report what waits", "HOROVOD_STALL_CHECK_DISABLE", dest="no_stall_check"),
            _flag("--stall-check-warning-time-seconds", int, "seconds until what waits is reported",
                  "HOROVOD_STALL_CHECK_TIME_SECONDS"),
            _flag("--stall-check-shutdown-time-seconds", int, "seconds until what waits fails; 0: never",
                  "HOROVOD_STALL_SHUTDOWN_TIME_SECONDS"),
        ),
    ),
    Section(
        "libraries",
        "library_options",
        (
            _idle("--mpi-threads-disable", PAIR, "one thread at a time calls MPI", "HOROVOD_MPI_THREADS_DISABLE"),
            _idle("--mpi-args", str, "with --mpi: more options of its launcher"),
            _idle("--tcp", SWITCH, "there is no Spectrum MPI here", dest="tcp_flag"),
            _idle("--binding-args", str, "with --mpi: how its launcher binds ranks to cores; else they are not bound"),
            _idle("--num-nccl-streams", int, "there is no NCCL here", "HOROVOD_NUM_NCCL_STREAMS"),
            _idle("--thread-affinity", int, "there is no thread to bind", "HOROVOD_THREAD_AFFINITY"),
            _flag("--gloo-timeout-seconds", int, "as --start-timeout, which wins", "HOROVOD_GLOO_TIMEOUT_SECONDS"),
        ),
    ),
    Section(
        "logging",
        "logging",
        (
            _flag("--log-level", str.upper, "TRACE, DEBUG, INFO, WARNING, ERROR or FATAL", "HOROVOD_LOG_LEVEL"),
            _idle("--log-with-timestamp", OFF, "lines of the log have no time", "HOROVOD_LOG_HIDE_TIME",
                  dest="log_hide_timestamp"),
            _idle("--log-without-timestamp", SWITCH, "as it is", "HOROVOD_LOG_HIDE_TIME", dest="log_hide_timestamp"),
            _idle("--log-hide-timestamp", PAIR, "deprecated: --log-without-timestamp", "HOROVOD_LOG_HIDE_TIME"),
            _idle("-prefix-timestamp --prefix-output-with-timestamp", SWITCH, "lines of ranks have no time"),
        ),
    ),
    Section(
        "hosts",
        None,
        (
            _flag("-H --hosts", str, "where, and how many ranks on each: host:slots,..."),
            _flag("-hostfile --hostfile", str, "file with lines `host slots=N`"),
        ),
    ),
    Section(
        "controller",
        None,
        (
            _flag("--gloo", SWITCH, "Ronde's own way, also where RONDE_BACKEND=mpi", dest="use_gloo"),
            _flag("--mpi", SWITCH, "the site's MPI starts the ranks and moves their data", dest="use_mpi"),
            _idle("--jsrun", SWITCH, "Ronde's own launcher is used", dest="use_jsrun"),
        ),
    ),
)

#: What has an effect only where MPI's launcher starts the ranks.
_WITH_MPI = ("mpi_args", "binding_args")

_LOG_LEVELS = ("TRACE", "DEBUG", "INFO", "WARNING", "ERROR", "FATAL")


def flags() -> List[Flag]:
    """All of them, in the order of the help."""
    return [flag for section in SECTIONS for flag in section.flags]


class _Given(argparse.Action):
    """Stores the value, and in ``override_args`` that the command line has given it and by which word."""

    def __init__(self, option_strings: Sequence[str], dest: str, const: Any = None, nargs: Any = None, **more: Any):
        if const is not None:
            nargs = 0
        super().__init__(option_strings, dest, nargs=nargs, const=const, default=None, **more)

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any, option_string: Any = None
    ) -> None:
        setattr(namespace, self.dest, self.const if self.const is not None else values)
        given: Dict[str, str] = namespace.__dict__.setdefault("override_args", {})
        given[self.dest] = option_string


def add_flags(parser: argparse.ArgumentParser) -> None:
    """Declares them all; the defaults are None: not given."""
    for section in SECTIONS:
        group = parser.add_argument_group(section.title)
        for flag in section.flags:
            text = flag.help if flag.means else f"(no effect here) {flag.help}"
            more: Dict[str, Any] = {"dest": flag.dest, "action": _Given, "help": text}
            if flag.kind in (SWITCH, PAIR, OFF):
                group.add_argument(*flag.names, const=flag.kind != OFF, **more)
                if flag.kind == PAIR:
                    no = {**more, "help": argparse.SUPPRESS}
                    group.add_argument(*("--no-" + name.lstrip("-") for name in flag.names), const=False, **no)
            elif flag.kind == PAIR_OF_VALUES:
                group.add_argument(*flag.names, nargs=2, type=int, metavar=("MIN", "MAX"), **more)
            elif flag.dest == "log_level":
                group.add_argument(*flag.names, type=flag.kind, choices=_LOG_LEVELS, **more)
            else:
                group.add_argument(*flag.names, type=flag.kind, metavar=flag.dest.upper(), **more)


def _as_text(flag: Flag, value: Any) -> str:
    if isinstance(value, bool):
        return str(int(value))
    if flag.dest == "fusion_threshold_mb":
        return str(int(value) * 1024 * 1024)
    return str(value)


def variables(settings: Any) -> Dict[str, str]:
    """The environment of the ranks for these settings (attributes by destination): only of what was given."""
    found: Dict[str, str] = {}
    for flag in flags():
        value = getattr(settings, flag.dest, None)
        if flag.variable is not None and value is not None:
            found[flag.variable] = _as_text(flag, value)
    return found


def without_meaning(settings: Any) -> List[str]:
    """The names of what was given and has no effect here, each once."""
    found: List[str] = []
    seen = set()
    given = getattr(settings, "override_args", {})
    for flag in flags():
        value = getattr(settings, flag.dest, None)
        has_effect = flag.means or (flag.dest in _WITH_MPI and getattr(settings, "use_mpi", None))
        if has_effect or flag.dest in seen or value is None or value is False and flag.dest not in given:
            continue
        seen.add(flag.dest)
        found.append(given.get(flag.dest, flag.names[-1]))
    return found
