"""Compares two installed versions of Ronde on this machine, call by call.

    python benchmarks/versions/compare.py OLD NEW [--only 'list.*1K']

OLD and NEW are virtual environments with Ronde and PyTorch. Both jobs live at once and take turns, a cell at a time,
while the other waits in the kernel: what the machine does meanwhile falls on both. Each turn of a cell gives the median
of its iterations on the slowest rank; two turns side by side give a ratio, and the table their geometric mean with its
95 % interval. The order within a pair changes from pair to pair.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import secrets
import statistics
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, Listener
from pathlib import Path

CELLS = Path(__file__).with_name("cells.py")

#: Of Student's t, two-sided 95 %, by degrees of freedom.
T95 = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 10: 2.23, 15: 2.13, 20: 2.09}


class Job:
    """The ranks of one version, each behind its connection."""

    def __init__(self, ranks: list[Connection]):
        self.ranks = ranks

    def turn(self, cell: str, count: int) -> float:
        """Seconds of an iteration: the median of `count`, on the slowest rank."""
        for rank in self.ranks:
            rank.send((cell, count))
        return max(rank.recv() for rank in self.ranks)

    def end(self) -> None:
        for rank in self.ranks:
            rank.send(None)


def start(environment: Path, which: str, ranks: int, address: str, key: str) -> subprocess.Popen:
    told = {"VERSIONS_ADDRESS": address, "VERSIONS_KEY": key, "VERSIONS_WHICH": which}
    command = [environment / "bin/ronde", "run", "-n", str(ranks), "--", environment / "bin/python", CELLS]
    return subprocess.Popen(command, env={**os.environ, **told})


def connected(listener: Listener, ranks: int) -> tuple[dict[str, Job], list[str]]:
    """Both jobs, and the cells that both know."""
    met: dict[str, dict[int, Connection]] = {"old": {}, "new": {}}
    cells: list[str] = []
    while any(len(job) < ranks for job in met.values()):
        connection = listener.accept()
        _, which, rank, cells = connection.recv()
        met[which][rank] = connection
    return {which: Job([job[rank] for rank in range(ranks)]) for which, job in met.items()}, cells


def iterations(jobs: dict[str, Job], cell: str, seconds: float) -> int:
    """How many fill a turn. Warms both versions up on the way."""
    slowest = max(job.turn(cell, 5) for job in jobs.values())
    count = max(5, min(3000, int(seconds / slowest)))
    slowest = max(job.turn(cell, count) for job in jobs.values())
    return max(5, min(20000, int(seconds / slowest)))


def compare(jobs: dict[str, Job], cell: str, pairs: int, seconds: float) -> dict[str, object]:
    count = iterations(jobs, cell, seconds)
    times: dict[str, list[float]] = {"old": [], "new": []}
    for pair in range(pairs):
        for which in ("old", "new") if pair % 2 == 0 else ("new", "old"):
            times[which].append(jobs[which].turn(cell, count))
    logs = [math.log(new / old) for old, new in zip(times["old"], times["new"])]
    mean = statistics.fmean(logs)
    degrees = max(known for known in T95 if known <= max(1, pairs - 1))
    half = T95[degrees] * statistics.stdev(logs) / math.sqrt(pairs)
    return {"cell": cell, "iterations": count, "old_us": statistics.median(times["old"]) * 1e6,
            "new_us": statistics.median(times["new"]) * 1e6, "ratio": math.exp(mean),
            "low": math.exp(mean - half), "high": math.exp(mean + half)}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path, metavar="OLD", help="folder of the older version's virtual environment")
    parser.add_argument("new", type=Path, metavar="NEW", help="folder of the newer version's")
    parser.add_argument("-n", "--ranks", type=int, default=2, help="ranks of each job (2)")
    parser.add_argument("--pairs", type=int, default=7, help="pairs of turns for each cell (7, at least 2)")
    parser.add_argument("--seconds", type=float, default=0.15, help="length of a turn (0.15)")
    parser.add_argument("--only", default="", metavar="REGEX", help="cells whose name it matches anywhere")
    parser.add_argument("--json", type=Path, metavar="FILE", help="appends each cell's line to this file")
    chosen = parser.parse_args()
    if chosen.pairs < 2:
        parser.error("--pairs: an interval needs at least 2")
    for environment in (chosen.old, chosen.new):
        if not (environment / "bin/ronde").exists():
            parser.error(f"{environment}: no bin/ronde there; name a virtual environment into which Ronde is installed")
    return chosen


def main() -> int:
    chosen = arguments()
    key = secrets.token_hex(16)
    with tempfile.TemporaryDirectory() as folder:
        listener = Listener(os.path.join(folder, "driver"), family="AF_UNIX", authkey=key.encode())
        started = [start(environment.absolute(), which, chosen.ranks, listener.address, key)
                   for which, environment in (("old", chosen.old), ("new", chosen.new))]
        try:
            jobs, cells = connected(listener, chosen.ranks)
            matching = [cell for cell in cells if re.search(chosen.only, cell)]
            print(f"{'cell':32} {'old us':>10} {'new us':>10} {'new/old':>8}  95 %", flush=True)
            began = time.monotonic()
            for number, cell in enumerate(matching, 1):
                row = compare(jobs, cell, chosen.pairs, chosen.seconds)
                print(f"{cell:32} {row['old_us']:10.1f} {row['new_us']:10.1f} {row['ratio']:8.3f}  "
                      f"{row['low']:.3f} to {row['high']:.3f}", flush=True)
                print(f"{number} of {len(matching)} cells, {time.monotonic() - began:.0f} s", end="\r",
                      file=sys.stderr, flush=True)
                if chosen.json:
                    with chosen.json.open("a") as file:
                        print(json.dumps(row), file=file)
            for job in jobs.values():
                job.end()
            return max(job.wait(60) for job in started)
        finally:
            listener.close()
            for job in started:
                job.terminate()
                job.wait()


if __name__ == "__main__":
    sys.exit(main())
