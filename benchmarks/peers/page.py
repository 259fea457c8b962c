"""Writes docs/benchmarks.md: a page of prose (page.md beside this file) with the tables and plots of a file of results.

    python benchmarks/peers/page.py benchmarks/results/FILE.jsonl
"""

from __future__ import annotations

import sys
from pathlib import Path

from folders import ROOT, SOURCES
from results import Results, load
from tables import SECTIONS, cell_text, columns, missing, section_cells, time_text
from targets import rows as target_rows
from works import TRAINERS

PAGE = ROOT / "docs/benchmarks.md"
PLOTS = ROOT / "docs/plots"
HOSTS_BEGIN = "<!-- hosts: begin -->"
HOSTS_END = "<!-- hosts: end -->"


def escaped(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def markdown(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] + ["---:"] * (len(head) - 1), *rows]
    return "\n".join("| " + " | ".join(escaped(text) for text in line) + " |" for line in lines)


def left_aligned(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(escaped(text) for text in line) + " |" for line in lines)


def section(results: Results, wanted: dict) -> str:
    cells = section_cells(results, wanted)
    names = columns(results, cells)
    rows = []
    for cell in cells:
        best = results.best_peer([cell])
        texts = [(name, time_text(results.time(cell, name))) for name in names]
        rows.append([cell_text(cell), *(f"**{text}**" if best and name == best[0] else text for name, text in texts)])
    return markdown(["", *names], rows)


def training_table(results: Results) -> str:
    rows = []
    for cell in results.cells(kind="training_step"):
        for name, who in TRAINERS.items():
            values = [results.time(cell, name, value) for value in ("median_us", "compute_us", "exposed_us")]
            if None not in values:
                rows.append([cell.set, who, *(f"{value / 1e3:.1f}" for value in values)])
    return markdown(["model", "", "step, ms", "computing, ms", "exposed, ms"], rows)


def tables(results: Results) -> str:
    parts = []
    for title, wanted in SECTIONS:
        if wanted["kind"] == "training_step" or not section_cells(results, wanted):
            continue
        parts.append(f"### {title}\n\n{section(results, wanted)}\n")
    if results.cells(kind="training_step"):
        parts.append(f"### Training step, 2 ranks\n\n{training_table(results)}\n")
    return "\n".join(parts)


def about(results: Results) -> str:
    each = results.about
    return (f"Measured on {each['date']} at commit {each['commit']}, {each['rounds']} rounds, "
            f"on {each['cores']} cores of a {each['processor']}, Linux {each['kernel'].split('-')[0]}.")


def disturbed(results: Results) -> str:
    lines = [line for by_name in results.lines.values() for lines in by_name.values() for line in lines]
    count = sum(line.get("others", 0) > 0.1 for line in lines)
    if count == 0:
        return "During no measurement did other programs take more than a tenth of the cores."
    return f"During {count} of {len(lines)} measurements other programs took more than a tenth of the cores."


def text(results: Results, source: str, plots: list[tuple[str, str]]) -> str:
    filled = {
        "about": about(results) + " " + disturbed(results),
        "source": source,
        "targets": left_aligned(["work", "target", "measured", ""], target_rows(results)),
        "plots": "\n".join(f"![{shows}](plots/{name})" for name, shows in plots),
        "tables": tables(results),
        "contestants": left_aligned(["in the tables", "what", "settings"],
                                    [[f"`{name}`", each["title"], each["settings"]]
                                     for name, each in results.about["contestants"].items()]),
        "missing": "\n".join(f"- {line}" for line in missing(results)) or "Nothing.",
    }
    return filled_in((SOURCES / "page.md").read_text(encoding="utf-8"), filled)


def filled_in(template: str, values: dict[str, str]) -> str:
    for name, value in values.items():
        template = template.replace("{{" + name + "}}", value)
    return template


def with_hosts(page: str, section: str) -> str:
    """The page with this section between the marks, which benchmarks/hosts writes."""
    before, rest = page.split(HOSTS_BEGIN)
    _, after = rest.split(HOSTS_END)
    return f"{before}{HOSTS_BEGIN}\n{section}{HOSTS_END}{after}"


def hosts_section(page: str) -> str:
    """What is between the marks."""
    return page.partition(HOSTS_BEGIN)[2].partition(HOSTS_END)[0].lstrip("\n")


def write(results: Results, path: Path):
    """The page and its plots; `path` is the file of results, named on the page."""
    import plots

    drawn = plots.draw(results, PLOTS)
    hosts = hosts_section(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else ""
    PAGE.write_text(with_hosts(text(results, path.name, drawn), hosts), encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}, and {len(drawn)} plots")


if __name__ == "__main__":
    write(load(Path(sys.argv[1])), Path(sys.argv[1]))
