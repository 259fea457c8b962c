"""Measures all-reduces between hosts with slow links, fits a fabric to some of them, and compares what `ronde plan` says of the
others with what they took. The hosts are namespaces of this machine (tests/hosts); making them and shaping their links needs
root, or a user namespace.

    .venv/bin/python benchmarks/plan/validate.py            some minutes
    .venv/bin/python benchmarks/plan/validate.py --setting quick    one rate, few sizes, two and three hosts
    .venv/bin/python benchmarks/plan/validate.py --setting fast     up to 1 Gbit/s, two to four hosts
    .venv/bin/python benchmarks/plan/validate.py --read benchmarks/results/FILE.jsonl    fits and compares again
"""

from __future__ import annotations

import argparse
import json
import math
import os
import secrets
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(ROOT / "tests/hosts"))

from bed import Bed, Host  # noqa: E402: tests/hosts has it
from by_hand import variables  # noqa: E402

PORT = 29500
#: What a shaper has no room for in its queue is lost, which the planner does not model: the queue is deep unless --queue says
#: otherwise.
QUEUE = "1s"
#: What starts the search of parameters, and by which factors each step of it tries to change them.
START = {"latency_us": 50.0, "overhead_us": 20.0, "link_share": 0.9, "sharing_loss": 0.05}
FACTORS = (2.0, 1.3, 1.08, 1.02)


@dataclass(frozen=True)
class Setting:
    """Of the whole run. A case is held out if its size, its cluster or its rate is not among those that are fitted."""

    rates: tuple[int, ...]  # Mbit/s
    fitted_rates: tuple[int, ...]
    clusters: tuple[tuple[int, int], ...]  # hosts, ranks on each
    fitted_clusters: tuple[tuple[int, int], ...]
    sizes: tuple[int, ...]
    fitted_sizes: tuple[int, ...]
    calls: int


KIB, MIB = 1 << 10, 1 << 20
WHOLE = Setting((20, 50, 100), (20, 100), ((2, 1), (3, 1), (4, 1), (6, 1), (8, 1), (2, 2), (3, 2), (4, 2)),
                ((2, 1), (4, 1), (2, 2), (4, 2)),
                (16 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB), (16 * KIB, 64 * KIB, MIB), 7)
QUICK = Setting((200,), (200,), ((2, 1), (3, 1)), ((2, 1),), (16 * KIB, 256 * KIB, MIB), (16 * KIB, MIB), 5)
FAST = Setting((200, 500, 1000), (200, 1000), ((2, 1), (3, 1), (4, 1), (2, 2), (3, 2)), ((2, 1), (4, 1), (2, 2)),
               (64 * KIB, 256 * KIB, MIB, 4 * MIB, 8 * MIB, 16 * MIB), (64 * KIB, MIB, 8 * MIB), 9)
SETTINGS = {"whole": WHOLE, "quick": QUICK, "fast": FAST}


def shape(host: Host, rate: int, queue: str) -> None:
    """The host's link in both directions, Mbit/s."""
    # So much passes at once: less than a message, so that small ones feel the rate too; of fast links what takes 160 us.
    burst_kb = max(4, rate // 50)
    words = f"root tbf rate {rate}mbit burst {burst_kb}k latency {queue}".split()
    host.check("tc", "qdisc", "replace", "dev", "eth0", *words)
    host.in_switch("tc", "qdisc", "replace", "dev", host.port, *words)


def measure_cluster(bed: Bed, cluster: tuple[int, int], setting: Setting) -> list[dict]:
    """One job; the lines that its rank 0 writes."""
    count, per_host = cluster
    hosts = [host for host in bed.hosts[:count] for _ in range(per_host)]
    key = secrets.token_hex(32)
    words = [str(setting.calls), *map(str, setting.sizes)]
    ranks = []
    for rank, host in enumerate(hosts):
        told = variables(hosts, rank, f"tcp:{hosts[0].address}:{PORT}", key)
        ranks.append(host.start(sys.executable, HERE / "timed_allreduce.py", *words, env=told, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE))
    deadline = time.monotonic() + 300
    said = [rank.communicate(timeout=max(1.0, deadline - time.monotonic())) for rank in ranks]
    for rank, (process, (_, err)) in enumerate(zip(ranks, said)):
        if process.returncode != 0:
            raise RuntimeError(f"rank {rank} of {count} x {per_host} ended with {process.returncode}: {err.strip()[-400:]}")
    return [json.loads(line) for line in said[0][0].splitlines()]


def measure(setting: Setting, queue: str, write) -> list[dict]:
    cases = []
    with Bed(max(hosts for hosts, _ in setting.clusters)) as bed:
        if not bed.has_namespaces:
            sys.exit("the hosts' links can be shaped in namespaces only, which needs root or user namespaces")
        for rate in setting.rates:
            for host in bed.hosts:
                shape(host, rate, queue)
            for cluster in setting.clusters:
                for line in measure_cluster(bed, cluster, setting):
                    case = {"rate_mbit": rate, "hosts": cluster[0], "per_host": cluster[1], "bytes": line["bytes"],
                            "median_us": statistics.median(line["us"]), "us": line["us"]}
                    cases.append(case)
                    write(case)
    return cases


def forecasts(program: str, cases: list[dict], parameters: dict[str, float]) -> list[float]:
    """What the planner says of each case, in microseconds."""
    said = {}
    for rate, per_host in sorted({(case["rate_mbit"], case["per_host"]) for case in cases}):
        of_these = [case for case in cases if (case["rate_mbit"], case["per_host"]) == (rate, per_host)]
        hosts = ",".join(map(str, sorted({case["hosts"] for case in of_these})))
        sizes = ",".join(map(str, sorted({case["bytes"] for case in of_these})))
        words = [program, "plan", "--json", "--fabric", "tcp-1g", "--bytes", sizes, "--hosts", hosts, "--ranks-per-host",
                 str(per_host), "--set", f"link_gbit={rate / 1000 * parameters['link_share']}"]
        for name in ("latency_us", "overhead_us", "sharing_loss"):
            words += ["--set", f"{name}={parameters[name]}"]
        for line in subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines():
            each = json.loads(line)
            said[rate, per_host, each["hosts"], each["bytes"]] = each["time_us"]
    return [said[case["rate_mbit"], case["per_host"], case["hosts"], case["bytes"]] for case in cases]


def errors(program, cases, parameters) -> list[float]:
    return [predicted / case["median_us"] - 1 for case, predicted in zip(cases, forecasts(program, cases, parameters))]


def fit(program: str, cases: list[dict]) -> dict[str, float]:
    """The parameters with the smallest mean error, as a factor, by trying larger and smaller ones of each in turn."""

    def cost(parameters):
        return statistics.mean(abs(math.log(1 + each)) for each in errors(program, cases, parameters))

    best, least = dict(START), cost(START)
    for factor in FACTORS:
        improved = True
        while improved:
            improved = False
            for name in best:
                for changed in (best[name] * factor, best[name] / factor):
                    trial = {**best, name: changed}
                    if (now := cost(trial)) < least - 1e-6:
                        best, least, improved = trial, now, True
    return best


def kind_of(case: dict, setting: Setting) -> str:
    held_out = [what for what, is_new in (
        ("rate", case["rate_mbit"] not in setting.fitted_rates),
        ("hosts", (case["hosts"], case["per_host"]) not in setting.fitted_clusters),
        ("size", case["bytes"] not in setting.fitted_sizes)) if is_new]
    return " and ".join(held_out) or "fitted"


def report(cases: list[dict], setting: Setting, program: str) -> None:
    fitted = [case for case in cases if kind_of(case, setting) == "fitted"]
    parameters = fit(program, fitted)
    print("fitted:", ", ".join(f"{name} {value:.3g}" for name, value in parameters.items()))
    of_kind: dict[str, list[float]] = {}
    print("\n| rate Mbit/s | hosts x ranks | bytes | measured ms | predicted ms | error | held out |\n" + "|---" * 7 + "|")
    for case, error in zip(cases, errors(program, cases, parameters)):
        kind = kind_of(case, setting)
        of_kind.setdefault(kind, []).append(error)
        if kind != "fitted":
            of_kind.setdefault("all held out", []).append(error)
        measured = case["median_us"] / 1000
        print(f"| {case['rate_mbit']} | {case['hosts']} x {case['per_host']} | {case['bytes']} | {measured:.2f} | "
              f"{measured * (1 + error):.2f} | {error:+.1%} | {kind} |")
    print("\n| cases | number | mean error | median error | nine of ten below | largest |\n|---|---|---|---|---|---|")
    for kind in sorted(of_kind):
        sizes = sorted(abs(error) for error in of_kind[kind])
        print(f"| {kind} | {len(sizes)} | {statistics.mean(sizes):.1%} | {statistics.median(sizes):.1%} | "
              f"{sizes[int(0.9 * (len(sizes) - 1))]:.1%} | {sizes[-1]:.1%} |")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setting", choices=SETTINGS, default="whole", help="what is measured, and which of it is fitted")
    parser.add_argument("--read", type=Path, default=None, help="a file of an earlier run, in place of measuring")
    parser.add_argument("--output", type=Path, default=None, help="where to write what is measured")
    parser.add_argument("--queue", default=QUEUE, help="for how long what does not go at once waits in a link (1s)")
    parser.add_argument("--ronde", default="ronde", help="the program that plans")
    arguments = parser.parse_args(words)
    setting = SETTINGS[arguments.setting]
    if arguments.read:
        cases = [json.loads(line) for line in arguments.read.read_text(encoding="utf-8").splitlines()]
    else:
        path = arguments.output or ROOT / "benchmarks/results" / time.strftime("%Y-%m-%d-%H%M-plan.jsonl")
        with open(path, "w", encoding="utf-8") as file:
            cases = measure(setting, arguments.queue, lambda case: print(json.dumps(case), file=file, flush=True))
        print(f"results: {os.path.relpath(path)}")
    report(cases, setting, arguments.ronde)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
