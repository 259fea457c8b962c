"""A file of results, and what can be asked of it. Needs nothing but Python."""

from __future__ import annotations

import json
import statistics
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

OURS = "ronde"
BOUND = "memory_bound"


def is_peer(contestant: str) -> bool:
    return not contestant.startswith(OURS) and contestant != BOUND


@dataclass(frozen=True, order=True)
class Cell:
    """What was done, whoever did it."""

    kind: str
    ranks: int
    set: str = ""  # of gradients, or the model of a training step
    mode: str = ""
    bytes: int = 0
    place: str = ""
    dtype: str = "float32"
    op: str = "allreduce"


def cell_of(line: dict) -> Cell:
    return Cell(line["kind"], line["ranks"], line.get("set", line.get("model", "")), line.get("mode", ""),
                line.get("bytes", 0), line.get("place", ""), line.get("dtype", "float32"), line["op"])


@dataclass
class Results:
    about: dict
    lines: dict[Cell, dict[str, list[dict]]] = field(default_factory=lambda: defaultdict(lambda: defaultdict(list)))
    unavailable: dict[str, str] = field(default_factory=dict)
    failures: list[dict] = field(default_factory=list)

    def title(self, contestant: str) -> str:
        return self.about.get("contestants", {}).get(contestant, {}).get("title", contestant)

    def times(self, cell: Cell, contestant: str, value: str = "median_us") -> list[float]:
        """One for each round: the median of its calls, each the slowest rank's."""
        return [line[value] for line in self.lines.get(cell, {}).get(contestant, []) if value in line]

    def time(self, cell: Cell, contestant: str, value: str = "median_us") -> float | None:
        """The median over the rounds, in microseconds."""
        times = self.times(cell, contestant, value)
        return statistics.median(times) if times else None

    def best_peer(self, cells: list[Cell]) -> tuple[str, Cell, float] | None:
        """The peer with the least time over these cells: of one cell, or of several ways to do the same."""
        found = [(self.time(cell, name), name, cell) for cell in cells for name in self.lines.get(cell, {})
                 if is_peer(name) and self.time(cell, name) is not None]
        if not found:
            return None
        time, name, cell = min(found, key=lambda each: each[0])
        return name, cell, time

    def cells(self, **wanted) -> list[Cell]:
        """Those whose fields have these values, by size."""
        return sorted(cell for cell in self.lines
                      if all(getattr(cell, name) == value for name, value in wanted.items()))


def load(path: Path) -> Results:
    results = Results({})
    for text in path.read_text(encoding="utf-8").splitlines():
        line = json.loads(text)
        if "about" in line:
            results.about = line
        elif "unavailable" in line:
            results.unavailable[line["contestant"]] = line["unavailable"]
        elif "failure" in line:
            results.failures.append(line)
        else:
            results.lines[cell_of(line)][line["contestant"]].append(line)
    return results
