"""The targets between hosts, and what was measured. Ratios are within a round: of a round's two figures, the median over
rounds; a round in which one of both is missing has none.

A row is (work, target, measured, met | missed | not measured). A target over several sizes or peers is met if it is at
each; the worst is shown.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from host_works import BARE, KIB, MIB, ONE_GBIT, TEN_GBIT, Network, kind_of
from results import Cell, Results
from targets import Ratio, Row, verdict, worst_below
from works import size_text

OURS = ("ronde", "ronde_slot")
MPI = ("openmpi", "mpich")
PEERS = (*MPI, "gloo")
LARGE = (16 * MIB, 256 * MIB)
SMALL = (8, 64 * KIB)
LIST_MODES = ("async", "blocking", "packed")  # ways to reduce a list; in one buffer from the start it is none


def by_round(results: Results, cell: Cell, contestant: str, value: str = "median_us") -> dict[int, float]:
    return {line["round"]: line[value] for line in results.lines.get(cell, {}).get(contestant, []) if value in line}


def best_by_round(results: Results, cells: Iterable[Cell], contestants: Iterable[str]) -> dict[int, float]:
    """The least time of a round."""
    best: dict[int, float] = {}
    for cell in cells:
        for name in contestants:
            for number, time in by_round(results, cell, name).items():
                best[number] = min(time, best.get(number, time))
    return best


def median_ratio(ours: dict[int, float], theirs: dict[int, float]) -> float | None:
    ratios = [ours[number] / theirs[number] for number in ours if number in theirs]
    return statistics.median(ratios) if ratios else None


def sweep(results: Results, network: Network, between: tuple[int, int], per_host: int = 1) -> list[Cell]:
    cells = results.cells(kind=kind_of("sweep", network, per_host))
    return [cell for cell in cells if between[0] <= cell.bytes <= between[1]]


def to_peers(results: Results, cells: list[Cell], peers: Iterable[str], ours: str = "ronde") -> list[Ratio]:
    """Our time over each peer's, of each size."""
    ratios = []
    for cell in cells:
        for name in peers:
            value = median_ratio(by_round(results, cell, ours), by_round(results, cell, name))
            if value is not None:
                ratios.append(Ratio(value, f"{value:.2f}x {name} ({size_text(cell.bytes)})"))
    return ratios


def to_wire(results: Results, network: Network) -> list[Ratio]:
    """iperf3's bytes a second over ours, 2n/T, so that less is better here too."""
    wire = [cell for cell in results.cells(kind=kind_of("wire", network))]
    iperf = {number: value for cell in wire for number, value in by_round(results, cell, "iperf3", "bytes_per_s").items()}
    ratios = []
    for cell in sweep(results, network, LARGE):
        rates = {number: 2 * cell.bytes / time * 1e6 for number, time in by_round(results, cell, "ronde").items()}
        if value := median_ratio(rates, iperf):
            ratios.append(Ratio(1 / value, f"{value:.2f} of iperf3 ({size_text(cell.bytes)})"))
    return ratios


def large(results: Results) -> list[Row]:
    rows = []
    for network in (BARE, TEN_GBIT):
        work = f"16 to 256 MiB, 2 hosts, {network.name}"
        rows += [
            worst_below(work, ">= 0.9 of iperf3 -P 1 --bidir", 1 / 0.9, to_wire(results, network)),
            worst_below(work, "never slower than any peer", 1.0, to_peers(results, sweep(results, network, LARGE), PEERS)),
        ]
    gloo = to_peers(results, sweep(results, BARE, LARGE), ("gloo",))
    return [*rows, worst_below("16 to 256 MiB, 2 hosts, bare", ">= 1.15x as fast as Gloo", 1 / 1.15, gloo)]


def small(results: Results) -> list[Row]:
    rows = []
    for network in (BARE, TEN_GBIT):
        rows.append(worst_below(f"8 B to 64 KiB, 2 hosts, {network.name}", "not slower than Open MPI and MPICH", 1.0,
                                to_peers(results, sweep(results, network, SMALL), MPI)))
    gloo = to_peers(results, sweep(results, BARE, (8, 8)), ("gloo",))
    return [*rows, worst_below("8 B, 2 hosts, bare", ">= 15x as fast as Gloo", 1 / 15, gloo)]


def four_hosts(results: Results) -> list[Row]:
    cells = sweep(results, ONE_GBIT, (64 * MIB, 64 * MIB), per_host=2)
    work = "64 MiB, 4 hosts x 2 ranks, 1 Gbit/s"
    rows = [worst_below(work, "faster than every peer", 1.0, to_peers(results, cells, PEERS))]
    needed = 2 * (ONE_GBIT.hosts - 1) / ONE_GBIT.hosts
    sent = [line[value] / (needed * cell.bytes) for cell in cells for line in results.lines[cell].get("ronde", [])
            for value in ("sent_most", "sent_least") if value in line]
    target = "payload bytes a host sends: 2(H-1)/H n within 2 %"
    if not sent:
        return [*rows, [work, target, "-", verdict(None)]]
    worst = max(sent, key=lambda each: abs(each - 1))
    return [*rows, [work, target, f"{worst - 1:+.2%}", verdict(abs(worst - 1) <= 0.02)]]


def lists(results: Results) -> list[Row]:
    rows = []
    for name, work in (("resnet50", "ResNet-50's 161 gradients, 2 hosts"), ("3000x1K", "3000 tensors of 1 KiB, 2 hosts")):
        cells = [cell for cell in results.cells(kind=kind_of("set", BARE), set=name) if cell.mode in LIST_MODES]
        ours = best_by_round(results, [cell for cell in cells if cell.mode != "packed"], OURS)
        value = median_ratio(ours, best_by_round(results, cells, PEERS))
        ratios = [Ratio(value, f"{value:.2f}x the best of the round")] if value is not None else []
        rows.append(worst_below(work, "faster than the best peer's best way, packed too", 1.0, ratios))
        sent = [line["control_messages"] for cell in cells if cell.mode != "packed" for contestant in OURS
                for line in results.lines[cell].get(contestant, []) if "control_messages" in line]
        rows.append([work, "0 control messages in replay", str(max(sent)) if sent else "-",
                     verdict(max(sent) == 0 if sent else None)])
    return rows


def integrity(results: Results) -> list[Row]:
    """What the protection of packets costs, beside none at all."""
    rows = []
    for name, what, target in (("ronde", "checksums", "<= 15 % slower than without"),
                               ("ronde_mac", "MACs on data", "<= 15 % slower than without"),
                               ("ronde_encrypt", "encryption", "stated")):
        for network in (TEN_GBIT, BARE):
            ratios = to_peers(results, sweep(results, network, LARGE), ("ronde_off",), name)
            row = worst_below(f"{what}, 16 to 256 MiB, {network.name}", target, 1.15, ratios)
            has_limit = network is TEN_GBIT and target != "stated"
            rows.append(row if has_limit else [row[0], "stated", row[2].partition(";")[0], "-"])
    return rows


PARTS: list[Callable[[Results], list[Row]]] = [large, small, four_hosts, lists, integrity]


def rows(results: Results) -> list[Row]:
    return [row for part in PARTS for row in part(results)]
