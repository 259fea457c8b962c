"""Writes the section "Between hosts" of docs/benchmarks.md, and what is printed after a run.

    python benchmarks/hosts/host_page.py benchmarks/results/FILE.jsonl
"""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "peers"))

import page  # noqa: E402: benchmarks/peers has it
import tables  # noqa: E402
from folders import ROOT  # noqa: E402
from host_targets import rows as target_rows  # noqa: E402
from host_works import BARE, ONE_GBIT, TEN_GBIT, kind_of, size_text  # noqa: E402
from results import Cell, Results, load  # noqa: E402

SECTIONS = [
    ("All-reduce float32, 2 hosts, bare", kind_of("sweep", BARE)),
    ("All-reduce float32, 2 hosts, 10 Gbit/s", kind_of("sweep", TEN_GBIT)),
    ("All-reduce float32, 4 hosts x 2 ranks, 1 Gbit/s", kind_of("sweep", ONE_GBIT, 2)),
    ("Lists of tensors, 2 hosts, bare", kind_of("set", BARE)),
]
HEAD = ["work", "target", "measured", ""]


def cell_text(cell: Cell) -> str:
    return f"{cell.set} {cell.mode}" if cell.set else size_text(cell.bytes)


def grids(results: Results) -> list[tuple[str, list[list[str]]]]:
    """(title, head and rows) of each table."""
    found = []
    for title, kind in SECTIONS:
        cells = sorted(results.cells(kind=kind), key=lambda cell: (cell.set, cell.mode, cell.bytes))
        if cells:
            head, *rest = tables.grid(results, cells)
            found.append((title, [head, *([cell_text(cell), *row[1:]] for cell, row in zip(cells, rest))]))
    wire = [(network.name, results.time(cell, "iperf3", "bytes_per_s")) for network in (BARE, TEN_GBIT)
            for cell in results.cells(kind=kind_of("wire", network))]
    if wire:
        rows = [[name, f"{value / 1e9:.2f}"] for name, value in wire if value]
        found.append(("The wire: iperf3 -P 1 --bidir, both directions added", [["", "GB/s"], *rows]))
    return found


def everything(results: Results) -> str:
    """For a terminal."""
    text = []
    for title, rows in grids(results):
        text += [f"\n{title}: median us of the slowest rank, median over rounds (m: ms; *: the best peer)\n" if
                 rows[0][-1] != "GB/s" else f"\n{title}\n", tables.aligned(rows)]
    text += ["\nTargets\n", tables.aligned([HEAD, *target_rows(results)])]
    return "\n".join([*text, "", *tables.missing(results)])


def bold(rows: list[list[str]]) -> list[list[str]]:
    return [[f"**{text[:-1]}**" if text.endswith("*") else text for text in row] for row in rows]


def missed(results: Results) -> str:
    """One line for each target that was not reached, so that none is read over."""
    lines = [f"- {work}: {target}: {measured}." for work, target, measured, is_met in target_rows(results)
             if is_met == "missed"]
    return "\n".join(lines) or "None."


def section(results: Results, source: str, plots: list[tuple[str, str]]) -> str:
    shown = [f"### {title}\n\n{page.markdown(rows[0], bold(rows[1:]))}\n" for title, rows in grids(results)]
    filled = {
        "about": page.about(results) + " " + page.disturbed(results),
        "source": source,
        "targets": page.left_aligned(HEAD, target_rows(results)),
        "missed": missed(results),
        "plots": "\n".join(f"![{shows}](plots/{name})" for name, shows in plots),
        "tables": "\n".join(shown),
        "contestants": page.left_aligned(["in the tables", "what", "settings"],
                                         [[f"`{name}`", each["title"], each["settings"]]
                                          for name, each in results.about["contestants"].items()]),
        "missing": "\n".join(f"- {line}" for line in tables.missing(results)) or "Nothing.",
    }
    return page.filled_in((HERE / "section.md").read_text(encoding="utf-8"), filled)


def draw(results: Results, folder: Path) -> list[tuple[str, str]]:
    import plots

    drawn = []
    for network, name in ((BARE, "hosts-bare.svg"), (TEN_GBIT, "hosts-10-gbit.svg")):
        title = f"All-reduce float32 between 2 hosts, {network.name}"
        if plots.times_over_sizes(results, results.cells(kind=kind_of("sweep", network)), title, folder / name):
            drawn.append((name, title))
    return drawn


def write(results: Results, path: Path):
    """The section and its plots; `path` is the file of results, named there."""
    text = section(results, path.name, draw(results, page.PLOTS))
    page.PAGE.write_text(page.with_hosts(page.PAGE.read_text(encoding="utf-8"), text), encoding="utf-8")
    print(f"written: the section of hosts in {page.PAGE.relative_to(ROOT)}")


if __name__ == "__main__":
    write(load(Path(sys.argv[1])), Path(sys.argv[1]))
