"""What the example programs have in common: their options, and how they measure what more ranks give.

With ``--scaling`` a program runs itself under ``ronde run`` with 1, 2, 4 and so on ranks. Each job times steps whose gradients
are averaged and steps of a second model whose gradients are not, in turn, and rank 0 writes both to a file of JSON. A table
and a plot are made of these files.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Callable, Iterator, NamedTuple

import numpy as np


class Row(NamedTuple):
    """What was measured with so many ranks."""

    ranks: int
    batch: int  # of all ranks together
    step_s: float  # median
    exposed_s: tuple[float, float, float]  # what a step takes longer than one without averaging: median between quartiles
    efficiency: float


def add_options(parser: argparse.ArgumentParser, batch: int) -> None:
    """Those that all the programs take. ``batch``: how many samples a step takes where nothing is said."""
    parser.add_argument("--batch", type=int, default=batch,
                        help=f"samples a step, of all ranks together; of each rank with --scaling weak (default {batch})")
    parser.add_argument("--steps", type=int, default=100, help="how many steps are trained (default 100)")
    parser.add_argument("--report", type=int, default=10, help="a line every so many steps (default 10)")
    parser.add_argument("--samples", type=int, default=128, help="made samples, from which batches are drawn (default 128)")
    parser.add_argument("--seed", type=int, default=1, help="of weights and data (default 1)")
    parser.add_argument("--threads", type=int, default=1, help="of each rank for computing (default 1)")
    group = parser.add_argument_group("what more ranks give", "The program is started plainly, without ronde run.")
    group.add_argument("--scaling", choices=["weak", "strong"],
                       help="time 1, 2, 4, ... ranks: weak, each has --batch samples; strong, all share --batch samples")
    group.add_argument("--max-ranks", type=int, default=4, help="the most ranks (default 4)")
    group.add_argument("--plot", type=Path, metavar="FILE", help="the picture (default PROGRAM-SCALING.png here)")
    group.add_argument("--rounds", type=int, default=1,
                       help="how often each number of ranks has its turn: more where others use the machine (default 1)")
    group.add_argument("--timed", type=int, default=10, help="steps timed in a job, and as many without averaging (default 10)")
    group.add_argument("--warmup", type=int, default=2, help="steps of both kinds before (default 2)")
    group.add_argument("--result", type=Path, metavar="FILE",
                       help="for the jobs that --scaling starts: do not train, but time, and write it here as JSON")


def is_asked_for(options: argparse.Namespace) -> bool:
    """Whether this process is to start jobs, not to be a rank of one."""
    return options.scaling is not None and options.result is None


def check_shares(options: argparse.Namespace, ranks: int) -> None:
    """Ends the program where the ranks cannot share a batch equally."""
    if options.batch % ranks != 0:
        raise SystemExit(f"{ranks} ranks cannot share {options.batch} samples equally: give another --batch")


def measure(
    options: argparse.Namespace,
    hvd: Any,
    shares: Iterator[Any],
    averaged: Callable[[Any], object],
    alone: Callable[[Any], object],
) -> None:
    """Times both kinds of steps in turn, on the same batches; rank 0 writes ``options.result``.

    The ranks begin each step together, and a step takes as long as the slowest rank's: so the difference of the two kinds is
    what averaging adds, and not what ranks take from each other by sharing the machine's memory and cores.
    """
    kinds = (averaged, alone)
    own = np.zeros((options.warmup + options.timed, len(kinds)))
    for number, seconds in enumerate(own):
        batch = next(shares)
        for kind in ((0, 1), (1, 0))[number % 2]:  # what comes second may find the caches warmer, or the core hotter
            seconds[kind] = _seconds(hvd, kinds[kind], batch)
    of_ranks = hvd.allgather_object(own[options.warmup :])
    if hvd.rank() == 0:
        with_averaging, without = np.max(of_ranks, axis=0).T
        found = {
            "ranks": hvd.size(),
            "batch": options.batch,
            "steps_s": with_averaging.tolist(),
            "exposed_s": (with_averaging - without).tolist(),
        }
        options.result.write_text(json.dumps(found), encoding="utf-8")


def _seconds(hvd: Any, step: Callable[[Any], object], batch: Any) -> float:
    hvd.allgather_object(None)
    began = time.perf_counter()
    step(batch)
    return time.perf_counter() - began


def run(options: argparse.Namespace, title: str) -> None:
    """Runs this program with more and more ranks, prints the table and saves the plot."""
    if "RONDE_RANK" in os.environ:
        raise SystemExit("--scaling starts jobs of its own: start the program plainly, without ronde run")
    if min(options.timed, options.rounds) < 1:
        raise SystemExit(f"--timed is {options.timed} and --rounds {options.rounds}: 1 or more")
    counts = rank_counts(options)
    plot_file = options.plot or Path(f"{Path(sys.argv[0]).stem}-{options.scaling}.png")
    has_plots = importlib.util.find_spec("matplotlib") is not None
    if not has_plots:
        print("There will be a table and no plot, since matplotlib is not installed: pip install matplotlib", flush=True)
    cores = len(os.sched_getaffinity(0))
    print(f"{title}, {options.scaling} scaling, threads of each rank: {options.threads}, cores: {cores}", flush=True)
    jobs = len(counts) * options.rounds
    found: dict[int, list[dict[str, Any]]] = {ranks: [] for ranks in counts}
    with tempfile.TemporaryDirectory() as folder:
        for number, ranks in enumerate(counts * options.rounds):
            batch = options.batch * ranks if options.scaling == "weak" else options.batch
            more = " (more threads than cores)" if ranks * options.threads > cores else ""
            print(f"job {number + 1} of {jobs}: ranks: {ranks}, samples a step: {batch}{more}", flush=True)
            found[ranks].append(_measured(ranks, batch, Path(folder) / f"{number}.json"))
    rows = rows_of(found, options.scaling)
    print(table(rows), flush=True)
    if has_plots:
        plot(rows, f"{title}, {options.scaling} scaling", plot_file)
        print(f"plot: {plot_file}", flush=True)


def rank_counts(options: argparse.Namespace) -> list[int]:
    """1, 2, 4 and so on, and the most."""
    if options.max_ranks < 1:
        raise SystemExit(f"--max-ranks is {options.max_ranks}: 1 or more")
    counts = [1 << power for power in range(options.max_ranks.bit_length()) if 1 << power < options.max_ranks]
    counts.append(options.max_ranks)
    if options.scaling == "strong":
        for ranks in counts:
            check_shares(options, ranks)
    return counts


def _measured(ranks: int, batch: int, file: Path) -> dict[str, Any]:
    """Runs this program as a job that writes the file. Ends the program, with the job's output, where that fails."""
    beside = Path(sys.executable).with_name("ronde")
    launcher = os.environ.get("RONDE_LAUNCHER") or (str(beside) if beside.exists() else shutil.which("ronde"))
    if not launcher:
        raise SystemExit("the command ronde is not there: install Ronde's wheel for this Python")
    command = [launcher, "run", "-n", str(ranks), "--", sys.executable, *sys.argv]
    command += ["--batch", str(batch), "--result", str(file)]
    ended = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if ended.returncode != 0 or not file.exists():
        raise SystemExit(f"{ended.stdout}\nthe job with {ranks} ranks ended with code {ended.returncode}; its output is above")
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


def rows_of(found: dict[int, list[dict[str, Any]]], scaling: str) -> list[Row]:
    """Of what the jobs have written, by their ranks; one rank is what the others are compared with."""
    rows: list[Row] = []
    for ranks, jobs in found.items():
        step_s = float(np.median([seconds for job in jobs for seconds in job["steps_s"]]))
        low, middle, high = np.percentile([seconds for job in jobs for seconds in job["exposed_s"]], [25, 50, 75]).tolist()
        gain = (rows[0].step_s if rows else step_s) / step_s
        rows.append(Row(ranks, jobs[0]["batch"], step_s, (low, middle, high), gain if scaling == "weak" else gain / ranks))
    return rows


def table(rows: list[Row]) -> str:
    """One line for each number of ranks. Of exposed communication it has the median, and where half of the steps lie."""
    lines = ["ranks  batch  ms a step  samples/s  efficiency  exposed ms a step"]
    for row in rows:
        low, middle, high = (1e3 * seconds for seconds in row.exposed_s)
        lines.append(f"{row.ranks:5}  {row.batch:5}  {1e3 * row.step_s:9.1f}  {row.batch / row.step_s:9.1f}"
                     f"  {row.efficiency:10.2f}  {middle:.1f} ({low:.1f} to {high:.1f})")  # fmt: skip
    return "\n".join(lines)


def plot(rows: list[Row], title: str, file: Path) -> None:
    """Time of a step, efficiency and exposed communication over ranks, beside each other."""
    import matplotlib

    matplotlib.use("Agg")  # no screen
    from matplotlib import pyplot

    ranks = [row.ranks for row in rows]
    low, middle, high = 1e3 * np.array([row.exposed_s for row in rows]).T
    curves = [
        ("a step, ms (median)", [1e3 * row.step_s for row in rows], None),
        ("efficiency", [row.efficiency for row in rows], None),
        ("exposed communication, ms a step\n(median, and half of the steps)", middle, [middle - low, high - middle]),
    ]
    figure, axes = pyplot.subplots(1, len(curves), figsize=(12, 3.8), layout="constrained")
    for axis, (name, values, spread) in zip(axes, curves):
        axis.errorbar(ranks, values, yerr=spread, fmt="o-", capsize=4)
        axis.set(title=name, xlabel="ranks", xticks=ranks)
        axis.axhline(0.0, color="black", linewidth=0.8)
        axis.grid(alpha=0.3)
    axes[1].axhline(1.0, linestyle=":", color="gray")
    figure.suptitle(title)
    figure.savefig(file, dpi=120, format="png")
    pyplot.close(figure)
