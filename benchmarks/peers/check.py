"""Compares two files of results: what of Ronde's became faster or slower by more than the noise.

    make bench-check OLD=benchmarks/results/A.jsonl NEW=benchmarks/results/B.jsonl

Each figure is a median over rounds. Its noise is how far the rounds lie apart: half of the range that the middle half
of them covers. A change is told if it is above --least (10 %) and above three times the noise of both; with one round
there is no telling, so --least is then 30 %. Each is compared as a ratio to the best peer of its own file too: what
changes only in microseconds, not in the ratio, is the machine's doing, and is told apart. Files of different
processors are compared by ratio only.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path

from results import OURS, Cell, Results, load
from tables import aligned, cell_text, time_text

ONE_ROUND = 0.3
TIMES_NOISE = 3


def spread(values: list[float]) -> float:
    """Half the range of the middle half of the rounds, as a part of the median; 0 of fewer than 3 rounds."""
    if len(values) < 3:
        return 0.0
    low, middle, high = statistics.quantiles(values, n=4)
    return (high - low) / 2 / middle


@dataclass
class Change:
    cell: Cell
    contestant: str
    old_us: float
    new_us: float
    factor: float  # of the time, new / old
    to_peers: float | None  # the same of the ratio to the best peer; None where a file has no peer
    limit: float

    @property
    def is_outside(self) -> bool:
        """Of the noise, judged by the ratio to the peers where there is one."""
        judged = self.factor if self.to_peers is None else self.to_peers
        return judged > 1 + self.limit or judged < 1 / (1 + self.limit)

    @property
    def is_machine(self) -> bool:
        """The time changed, but so did the peers'."""
        return not self.is_outside and (self.factor > 1 + self.limit or self.factor < 1 / (1 + self.limit))


def compared(old: Results, new: Results, least: float) -> list[Change]:
    changes = []
    for cell in sorted(set(old.lines) & set(new.lines)):
        best_old, best_new = old.best_peer([cell]), new.best_peer([cell])
        for name in sorted(set(old.lines[cell]) & set(new.lines[cell])):
            before, after = old.times(cell, name), new.times(cell, name)
            if not name.startswith(OURS) or not before or not after:
                continue
            floor = least if min(len(before), len(after)) >= 3 else max(least, ONE_ROUND)
            factor = statistics.median(after) / statistics.median(before)
            noise = max(spread(before), spread(after))
            to_peers = None
            if best_old and best_new:
                # The peer's own noise is in the ratio as well.
                noise = max(noise, spread(old.times(cell, best_old[0])), spread(new.times(cell, best_new[0])))
                to_peers = factor / (best_new[2] / best_old[2])
            changes.append(Change(cell, name, statistics.median(before), statistics.median(after), factor, to_peers,
                                  max(floor, TIMES_NOISE * noise)))
    return changes


def table(changes: list[Change]) -> str:
    rows = [["", "", "ranks", "old us", "new us", "time", "to best peer", "noise limit"]]
    for each in changes:
        ratio = "-" if each.to_peers is None else f"{each.to_peers:.2f}x"
        rows.append([cell_text(each.cell), each.contestant, str(each.cell.ranks), time_text(each.old_us),
                     time_text(each.new_us), f"{each.factor:.2f}x", ratio, f"{each.limit:.0%}"])
    return aligned(rows)


def said(changes: list[Change]) -> str:
    """The whole report."""
    parts = []
    for title, chosen in (
        ("Slower", [each for each in changes if each.is_outside and (each.to_peers or each.factor) > 1]),
        ("Faster", [each for each in changes if each.is_outside and (each.to_peers or each.factor) < 1]),
        ("Changed, but so did the peers", [each for each in changes if each.is_machine]),
    ):
        if chosen:
            parts.append(f"{title}:\n{table(chosen)}\n")
    inside = sum(not each.is_outside for each in changes)
    parts.append(f"{inside} of {len(changes)} figures within the noise")
    return "\n".join(parts)


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="bench-check", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", type=Path)
    parser.add_argument("new", type=Path)
    parser.add_argument("--least", type=float, default=0.1, help="a smaller change is never told (0.1: 10 %%)")
    arguments = parser.parse_args(words)
    old, new = load(arguments.old), load(arguments.new)
    changes = compared(old, new, arguments.least)
    if old.about.get("processor") != new.about.get("processor"):
        print("The files are of different processors: only ratios to the peers are compared.\n")
        changes = [each for each in changes if each.to_peers is not None]
    if not changes:
        print("The files have no figure of Ronde's in common.")
        return 2
    print(said(changes))
    return 1 if any(each.is_outside and (each.to_peers or each.factor) > 1 for each in changes) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
