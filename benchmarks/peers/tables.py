"""The tables of a file of results, as text for a terminal; page.py puts the same into Markdown."""

from __future__ import annotations

from collections import defaultdict

from results import Cell, Results
from works import size_text


def time_text(microseconds: float | None) -> str:
    if microseconds is None:
        return "-"
    if microseconds >= 1e5:
        return f"{microseconds / 1e3:.0f}m"
    if microseconds >= 1e3:
        return f"{microseconds / 1e3:.3g}m" if microseconds >= 1e4 else f"{microseconds / 1e3:.2f}m"
    return f"{microseconds:.3g}"


def cell_text(cell: Cell) -> str:
    place = cell.place.replace("_", " ")
    if cell.kind == "set":
        return f"{cell.set} {cell.mode}"
    if cell.kind == "training_step":
        return f"step of {cell.set}"
    if cell.kind == "dtypes":
        return f"{size_text(cell.bytes)} {cell.dtype}"
    return f"{size_text(cell.bytes)} {place}"


def columns(results: Results, cells: list[Cell]) -> list[str]:
    """Contestants that measured any of these, in their order."""
    order = list(results.about.get("contestants", {}))
    there = {name for cell in cells for name in results.lines[cell]}
    return [name for name in order if name in there]


def grid(results: Results, cells: list[Cell]) -> list[list[str]]:
    """A head, then a row for each cell: each one's time, the best peer's with a star."""
    names = columns(results, cells)
    rows = [["", *names]]
    for cell in cells:
        best = results.best_peer([cell])
        row = [cell_text(cell)]
        for name in names:
            text = time_text(results.time(cell, name))
            row.append(text + "*" if best and best[0] == name else text)
        rows.append(row)
    return rows


def aligned(rows: list[list[str]]) -> str:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join("  ".join(text.ljust(width) if i == 0 else text.rjust(width)
                               for i, (text, width) in enumerate(zip(row, widths))) for row in rows)


SECTIONS = [
    ("All-reduce float32, 2 ranks", {"kind": "sweep", "ranks": 2}),
    ("All-reduce float32, 4 ranks", {"kind": "sweep", "ranks": 4}),
    ("Sets of tensors, 2 ranks", {"kind": "set", "ranks": 2}),
    ("Types, in place, 2 ranks", {"kind": "dtypes"}),
    ("Training step, 2 ranks", {"kind": "training_step"}),
]


def section_cells(results: Results, wanted: dict) -> list[Cell]:
    return sorted(results.cells(**wanted), key=lambda cell: (cell.place, cell.set, cell.mode, cell.bytes, cell.dtype))


def missing(results: Results) -> list[str]:
    """A line for each contestant that is not in the tables, and for each reason for which works of one are not."""
    lines = [f"{results.title(name)}: not measured: {reason}" for name, reason in results.unavailable.items()]
    works: dict[tuple[str, str], list[str]] = defaultdict(list)
    for each in results.failures:
        works[each["contestant"], each["failure"]].append(each["work"])
    for (contestant, failure), titles in works.items():
        more = f" and {len(titles) - 1} more" if len(titles) > 1 else ""
        lines.append(f"{results.title(contestant)}: {titles[0]}{more}: {failure}")
    return lines


def everything(results: Results) -> str:
    from targets import rows as target_rows

    text = []
    for title, wanted in SECTIONS:
        cells = section_cells(results, wanted)
        if cells:
            text += [f"\n{title}: median us of the slowest rank, median over rounds (m: ms; *: the best peer)\n",
                     aligned(grid(results, cells))]
    text += ["\nTargets\n", aligned([["work", "target", "measured", ""], *target_rows(results)])]
    text += ["", *missing(results)]
    return "\n".join(text)
