"""The targets: what Ronde means to reach, each a time or a ratio to the best peer of the same run, and what it was.

A row is (work, target, measured, met | missed | not measured). A target over several sizes is met if it is at each; the
worst is shown.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from results import BOUND, Cell, Results
from works import COMMUNICATION_BOUND, KIB, MIB, MODELS, size_text

Row = list[str]


@dataclass
class Ratio:
    value: float  # ours / theirs
    text: str


def verdict(is_met: bool | None) -> str:
    return {True: "met", False: "missed", None: "not measured"}[is_met]


def sweep(results: Results, ranks: int, least: int, greatest: int) -> list[Cell]:
    return [cell for cell in results.cells(kind="sweep", ranks=ranks) if least <= cell.bytes <= greatest]


PRIVATE = ("ronde", "ronde_slot", "ronde_name")
SHARED = ("ronde_shared", "ronde_shared_slot")


def time_of_ours(results: Results, ours: tuple[str, ...], cell: Cell) -> float | None:
    """Of the quickest of these forms."""
    return min((time for name in ours if (time := results.time(cell, name)) is not None), default=None)


def to_best_peer(results: Results, ours: tuple[str, ...], cells: list[Cell],
                 ways: list[Cell] | None = None) -> list[Ratio]:
    """Of each cell: our time over the best peer's there, or over the best of `ways`, which do the same work."""
    ratios = []
    for cell in cells:
        time, best = time_of_ours(results, ours, cell), results.best_peer(ways or [cell])
        if time is None or best is None:
            continue
        name, way, theirs = best
        where = f"{size_text(cell.bytes)} {cell.place.replace('_', ' ')}" if cell.kind == "sweep" else cell.mode
        how = f" {way.mode}" if way.mode else ""
        ratios.append(Ratio(time / theirs, f"{time / theirs:.2f}x {name}{how} ({where})"))
    return ratios


def to_bound(results: Results, ours: tuple[str, ...], cells: list[Cell]) -> list[Ratio]:
    ratios = []
    for cell in cells:
        time, bound = time_of_ours(results, ours, cell), results.time(cell, BOUND)
        if time is not None and bound is not None:
            where = size_text(cell.bytes) if cell.kind == "sweep" else cell.mode
            ratios.append(Ratio(time / bound, f"{time / bound:.2f}x the bound ({where})"))
    return ratios


def worst_below(work: str, target: str, limit: float, ratios: list[Ratio]) -> Row:
    if not ratios:
        return [work, target, "-", verdict(None)]
    worst = max(ratios, key=lambda ratio: ratio.value)
    within = sum(ratio.value <= limit for ratio in ratios)
    return [work, target, f"worst {worst.text}; {within} of {len(ratios)} within", verdict(worst.value <= limit)]


def time_below(work: str, target: str, limit_us: float, time_us: float | None) -> Row:
    if time_us is None:
        return [work, target, "-", verdict(None)]
    return [work, target, f"{time_us:.3g} us", verdict(time_us < limit_us)]


def eight_bytes(results: Results) -> list[Row]:
    cells = sweep(results, 2, 8, 8)
    best = min(cells, key=lambda cell: results.time(cell, "ronde") or 1e9, default=None)

    def time(contestant):
        times = [results.time(cell, contestant) for cell in cells]
        return min((each for each in times if each is not None), default=None)

    return [
        worst_below("8 B, persistent, 2 ranks", "<= 1.3x the best peer", 1.3,
                    to_best_peer(results, ("ronde",), [best] if best else [])),
        time_below("8 B, persistent, 2 ranks", "< 0.6 us", 0.6, time("ronde")),
        time_below("8 B, by name, 2 ranks", "< 3 us", 3, time("ronde_name")),
        time_below("8 B, from Python, 2 ranks", "< 15 us", 15, time("ronde_python")),
    ]


def private_tensors(results: Results) -> list[Row]:
    all_sizes = sweep(results, 2, KIB, 256 * MIB)
    return [
        worst_below("1 KiB to 256 MiB, private, 2 ranks", "<= 1.0x the best peer", 1.0,
                    to_best_peer(results, PRIVATE, all_sizes)),
        worst_below("16 MiB to 256 MiB, private, 2 ranks", "<= 0.77x (1.3x faster)", 1 / 1.3,
                    to_best_peer(results, PRIVATE, sweep(results, 2, 16 * MIB, 256 * MIB))),
    ]


def shared_buckets(results: Results) -> list[Row]:
    """In place the tensors are reduced where they lie; out of place a bucket is memory like any other, so far."""
    rows = []
    for place, suffix in (("in_place", ""), ("out_of_place", ", out of place")):
        every = [cell for cell in sweep(results, 2, 64 * KIB, 256 * MIB) if cell.place == place]
        middle = [cell for cell in sweep(results, 2, 4 * MIB, 64 * MIB) if cell.place == place]
        rows += [
            worst_below(f"64 KiB to 256 MiB, shared, 2 ranks{suffix}", "<= 0.5x (2x faster)", 1 / 2,
                        to_best_peer(results, SHARED, every)),
            worst_below(f"4 MiB to 64 MiB, shared, 2 ranks{suffix}", "<= 0.33x (3x faster)", 1 / 3,
                        to_best_peer(results, SHARED, middle)),
            worst_below(f"64 KiB to 256 MiB, shared, 2 ranks{suffix}", "<= 1.3x the memory bound", 1.3,
                        to_bound(results, SHARED, every)),
        ]
    return rows


def four_ranks(results: Results) -> list[Row]:
    times = [time_of_ours(results, PRIVATE, cell) for cell in sweep(results, 4, 8, 8)]
    return [
        worst_below("8 B to 64 MiB, 4 ranks on 2 cores", "<= 1.0x the best peer", 1.0,
                    to_best_peer(results, PRIVATE, sweep(results, 4, 8, 64 * MIB))),
        time_below("8 B, 4 ranks on 2 cores", "< 10 us", 10, min((t for t in times if t is not None), default=None)),
    ]


def resnet50(results: Results) -> list[Row]:
    ways = results.cells(kind="set", set="resnet50")
    one_by_one = [cell for cell in ways if cell.mode in ("async", "blocking")]
    measured = [cell for cell in one_by_one if results.time(cell, "ronde_shared_slot") is not None]
    ours = sorted(measured, key=lambda cell: results.time(cell, "ronde_shared_slot"))[:1]
    gloo = [time for cell in one_by_one if (time := results.time(cell, "gloo")) is not None]
    ratios = [Ratio(results.time(cell, "ronde_shared_slot") / min(gloo), "") for cell in ours if gloo]
    work = "ResNet-50's 161 gradients, shared, by slot"
    rows = [
        worst_below(work, "<= 0.7x the best peer's best way", 0.7,
                    to_best_peer(results, ("ronde_shared_slot",), ours, ways)),
        worst_below(work, "<= 1.3x the memory bound", 1.3, to_bound(results, ("ronde_shared_slot",), ours)),
    ]
    faster = [f"{1 / ratio.value:.1f}x faster" for ratio in ratios]
    met = ratios[0].value <= 1 / 5 if ratios else None
    return [*rows, [work, ">= 5x faster than Gloo one by one", *(faster or ["-"]), verdict(met)]]


def many_small(results: Results) -> list[Row]:
    ways = results.cells(kind="set", set="3000x1K")
    packed = [cell for cell in ways if cell.mode == "packed"]
    one_by_one = [cell for cell in ways if cell.mode != "packed"]
    work = "3000 tensors of 1 KiB"
    best = None
    for name in (*PRIVATE, *SHARED):
        for cell in one_by_one:
            time = results.time(cell, name)
            if time is not None and (best is None or time < best[0]):
                best = (time, name, cell)
    if best is None:
        targets = ("<= 1.0x the best hand-packed peer", "<= 0.5x the best peer one by one", "< 0.25 us a tensor")
        return [[work, target, "-", verdict(None)] for target in targets]
    time, name, cell = best
    return [
        worst_below(work, "<= 1.0x the best hand-packed peer", 1.0, to_best_peer(results, (name,), [cell], packed)),
        worst_below(work, "<= 0.5x the best peer one by one", 0.5, to_best_peer(results, (name,), [cell], one_by_one)),
        time_below(work, "< 0.25 us a tensor", 0.25, time / 3000),
    ]


def types(results: Results) -> list[Row]:
    ratios = []
    for cell in results.cells(kind="dtypes"):
        for contestant in (*PRIVATE, *SHARED):
            whole = results.time(Cell(**{**vars(cell), "dtype": "float32"}), contestant)
            time = results.time(cell, contestant)
            if cell.dtype != "float32" and whole and time:
                text = f"{time / whole:.2f}x the time of float32 ({size_text(cell.bytes)} {cell.dtype}, {contestant})"
                ratios.append(Ratio(time / whole, text))
    return [worst_below("bf16 and fp16", "float32's bytes a second, within 15 %", 1 / 0.85, ratios)]


def to_ddp_over_gloo(results: Results, ours: str, value: str, models: tuple[str, ...]) -> list[Ratio]:
    """Of each of these models: this contestant's time over that of DDP over Gloo."""
    ratios = []
    for cell in results.cells(kind="training_step"):
        mine, theirs = (results.time(cell, name, value) for name in (ours, "gloo"))
        if cell.set in models and mine is not None and theirs is not None and theirs > 0:
            ratios.append(Ratio(mine / theirs, f"{mine / theirs:.2f}x DDP over Gloo ({cell.set})"))
    return ratios


def training(results: Results) -> list[Row]:
    return [
        worst_below("training step, exposed communication", "<= 0.33x DDP over Gloo", 1 / 3,
                    to_ddp_over_gloo(results, "ronde", "exposed_us", MODELS)),
        worst_below("training step, DDP over Ronde", "<= 1.0x DDP over Gloo", 1.0,
                    to_ddp_over_gloo(results, "ronde_ddp", "median_us", MODELS)),
        worst_below("training step, DDP over Ronde, mostly communication", "<= 0.5x (2x faster)", 1 / 2,
                    to_ddp_over_gloo(results, "ronde_ddp", "median_us", COMMUNICATION_BOUND)),
    ]


def idle(results: Results) -> list[Row]:
    rows = []
    for op, field, work, target, limit, unit in (
        ("waiting_rank", "core_share", "a waiting rank", "0 % of a core", 0.005, "%"),
        ("init_shutdown", "median_us", "init + shutdown, 4 ranks", "< 20 ms", 20e3, "ms"),
        ("import", "median_us", "import of ronde", "< 100 ms", 100e3, "ms"),
    ):
        cells = results.cells(op=op)
        value = results.time(cells[0], "ronde", field) if cells else None
        if value is None:
            rows.append([work, target, "-", verdict(None)])
        else:
            shown = f"{value:.2%}" if unit == "%" else f"{value / 1e3:.1f} ms"
            rows.append([work, target, shown, verdict(value < limit)])
    return rows


PARTS: list[Callable[[Results], list[Row]]] = [
    eight_bytes, private_tensors, shared_buckets, four_ranks, resnet50, many_small, types, training, idle]


def rows(results: Results) -> list[Row]:
    return [row for part in PARTS for row in part(results)]
