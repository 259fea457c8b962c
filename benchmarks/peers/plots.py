"""The plots of docs/benchmarks.md, as SVG files whose text does not change where the numbers do not."""

from __future__ import annotations

from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt  # noqa: E402: the backend is chosen before
from matplotlib.ticker import FuncFormatter, NullFormatter  # noqa: E402

from results import BOUND, Cell, Results, is_peer  # noqa: E402
from works import TRAINERS, size_text  # noqa: E402

matplotlib.rcParams.update({"svg.hashsalt": "ronde", "svg.fonttype": "none", "font.size": 9, "axes.grid": True,
                            "grid.alpha": 0.3, "axes.spines.top": False, "axes.spines.right": False})
LEFT_OUT = ("ronde_slot", "ronde_shared_slot", "openmpi5_persistent", "mpich5_persistent")
STYLES = {
    "ronde": {"color": "#c0392b", "linewidth": 2.4}, "ronde_shared": {"color": "#e67e22", "linewidth": 2.4},
    "ronde_name": {"color": "#c0392b", "linewidth": 1.2, "linestyle": "--"},
    "ronde_python": {"color": "#e6a0a0", "linewidth": 1.2, "linestyle": "--"},
    "ronde_off": {"color": "#c0392b", "linewidth": 1.2, "linestyle": ":"},
    "ronde_mac": {"color": "#c0392b", "linewidth": 1.2, "linestyle": "--"},
    "ronde_encrypt": {"color": "#c0392b", "linewidth": 1.2, "linestyle": "-."},
    "ronde_slot": {"color": "#d98880"}, "ronde_shared_slot": {"color": "#f0b27a"},
    BOUND: {"color": "black", "linewidth": 1.2, "linestyle": ":"},
}
PEER_COLOURS = ["#1f77b4", "#17becf", "#2ca02c", "#8c9f2c", "#9467bd", "#7f7f7f", "#bcbd22", "#8c564b", "#e377c2",
                "#34495e"]


def style(results: Results, contestant: str) -> dict:
    peers = [name for name in results.about["contestants"] if is_peer(name)]
    if contestant in STYLES:
        return STYLES[contestant]
    return {"color": PEER_COLOURS[peers.index(contestant) % len(PEER_COLOURS)], "linewidth": 1}


def time_text(microseconds: float) -> str:
    for unit, least in (("s", 1e6), ("ms", 1e3), ("us", 1.0)):
        if microseconds >= least:
            return f"{microseconds / least:.3g} {unit}"
    return f"{microseconds * 1e3:.3g} ns"


def save(figure, path: Path):
    figure.tight_layout()
    figure.savefig(path, metadata={"Date": None, "Creator": None})
    plt.close(figure)


def times_over_sizes(results: Results, cells: list[Cell], title: str, path: Path) -> bool:
    """A line for each contestant. False if nothing of it was measured."""
    cells = sorted(cells, key=lambda cell: cell.bytes)
    if not cells:
        return False
    figure, axes = plt.subplots(figsize=(8, 4.6))
    for name in results.about["contestants"]:
        points = [(cell.bytes, time) for cell in cells if (time := results.time(cell, name)) is not None]
        if points and name not in LEFT_OUT:
            axes.plot(*zip(*points), marker=".", label=results.title(name), **style(results, name))
    axes.set(xscale="log", yscale="log", xlabel="a rank's input")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.set_xticks([cell.bytes for cell in cells], [size_text(cell.bytes) for cell in cells], rotation=45)
    axes.minorticks_off()
    axes.set_title(title, loc="left")
    axes.legend(fontsize=7, ncols=2)
    save(figure, path)
    return True


def sweep(results: Results, ranks: int, place: str, path: Path) -> bool:
    cells = results.cells(kind="sweep", ranks=ranks, place=place)
    return times_over_sizes(results, cells, f"All-reduce float32, {ranks} ranks, {place.replace('_', ' ')}", path)


def sets(results: Results, name: str, path: Path) -> bool:
    """A point for each contestant's best way to reduce a set of tensors; bars would need a zero, and times span 1000."""
    cells: list[Cell] = results.cells(kind="set", set=name)
    best = []
    for contestant in results.about["contestants"]:
        times = [(time, cell.mode) for cell in cells if (time := results.time(cell, contestant)) is not None]
        if times:
            best.append((*min(times), contestant))
    if not best:
        return False
    best.sort(reverse=True)
    figure, axes = plt.subplots(figsize=(8, 0.3 * len(best) + 1.2))
    for row, (time, mode, contestant) in enumerate(best):
        axes.plot([time], [row], marker="o", markersize=7, color=style(results, contestant)["color"])
        axes.annotate(f"{time_text(time)}, {mode}", (time, row), xytext=(8, -3), textcoords="offset points", fontsize=8)
    axes.set_yticks(range(len(best)), [results.title(contestant) for *_, contestant in best])
    axes.set(xscale="log", xlim=(best[-1][0] / 1.5, best[0][0] * 4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: time_text(value)))
    axes.xaxis.set_minor_formatter(NullFormatter())
    axes.set_title(f"{name}, each contestant's best way", loc="left")
    save(figure, path)
    return True


def training(results: Results, path: Path) -> bool:
    """Computing and exposed communication of a step, one on the other."""
    rows = [(f"{cell.set}: {who}", results.time(cell, name, "compute_us"), results.time(cell, name, "exposed_us"))
            for cell in results.cells(kind="training_step") for name, who in TRAINERS.items()]
    rows = [row for row in rows if None not in row]
    if not rows:
        return False
    figure, axes = plt.subplots(figsize=(8, 0.4 * len(rows) + 1.2))
    names, computing, exposed = zip(*rows[::-1])
    axes.barh(names, [each / 1e3 for each in computing], color="#b0b0b0", label="computing alone")
    axes.barh(names, [each / 1e3 for each in exposed], left=[each / 1e3 for each in computing], color="#c0392b",
              label="exposed communication")
    axes.set(xlabel="milliseconds of a step")
    axes.legend(fontsize=8)
    save(figure, path)
    return True


def draw(results: Results, folder: Path) -> list[tuple[str, str]]:
    """All that can be drawn: [(file's name, what it shows)]."""
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for ranks in (2, 4):
        for place in ("in_place", "out_of_place"):
            name = f"allreduce-{ranks}-{place.replace('_', '-')}.svg"
            if sweep(results, ranks, place, folder / name):
                drawn.append((name, f"All-reduce on {ranks} ranks, {place.replace('_', ' ')}"))
    for set_name in ("resnet50", "3000x1K"):
        if sets(results, set_name, folder / f"{set_name}.svg"):
            drawn.append((f"{set_name}.svg", f"The tensors of {set_name}, each contestant's best way"))
    if training(results, folder / "training-step.svg"):
        drawn.append(("training-step.svg", "A training step"))
    return drawn
