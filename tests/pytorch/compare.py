"""PyTorch's suite over Gloo and over Ronde: what passes over Gloo must pass over Ronde but for differences.py. Writes the
results as pytest does, for tools/test.

    compare.py [--junit FILE] [--worlds 2,3,4,8]

With two and with three ranks all tests run that the machine can run, with more ranks those that need more. Those for
GPUs run in host memory, with two ranks.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Dict, List, Sequence, Set, Tuple

from differences import DIFFERENCES

_HERE = Path(__file__).resolve().parent
_CORES = len(os.sched_getaffinity(0))

#: For all tests with one number of ranks over one backend, in seconds.
_LIMIT_S = 600

#: Of a test that is skipped for how many ranks there are: it may run with others.
_NEEDS_OTHERS = ("small world size", "world size of")

#: What ends the reason of one that is for GPUs.
_FOR_GPUS = ("CUDA is not available.", "CUDA devices")

#: One that fails if the profiler's events are not taken for asynchronous (suite.py).
_ASKS_ASYNC = "test_all_reduce_sum"

Results = Dict[str, Tuple[str, str, float]]


def suite(backend: str, world: int, *options: str, **environment: str) -> Results:
    """Runs tests that are named, or all; how they went."""
    at_once = max(1, (_CORES + 1) * 2 // world)
    with tempfile.NamedTemporaryFile(suffix=".json") as results:
        subprocess.run(
            [sys.executable, str(_HERE / "suite.py"), backend, str(world), *options]
            + ["--at-once", str(at_once), "--json", results.name],
            check=True,
            timeout=_LIMIT_S,
            env={**os.environ, "RONDE_PROBE": "0", **environment},
        )
        told: Results = json.loads(Path(results.name).read_bytes())
    return told


class Comparison:
    """The results, and the tests that more ranks may run."""

    def __init__(self) -> None:
        self.cases = ElementTree.Element("testsuite", name="pytorch-suite")
        self.failed = 0
        self.passed_over_gloo: Set[str] = set()
        self.passed_over_ronde: Set[str] = set()
        self.listed = 0
        self._with_three: List[str] = []
        self._with_more: List[str] = []
        self._for_gpus: List[str] = []

    def compare(self, world: int) -> None:
        """With so many ranks."""
        began = time.monotonic()
        gloo = suite("gloo", world, *(self._with_more if world > 3 else self._with_three))
        # What is for MPI only Gloo may not do, and Ronde does.
        chosen = [name for name, (outcome, _, _) in gloo.items() if outcome == "passed" or "all_to_all" in name]
        ronde = suite("ronde", world, *chosen) if chosen else {}
        self._for_gpus = self._for_gpus or [name for name, (_, text, _) in gloo.items() if text.endswith(_FOR_GPUS)]
        for name, (outcome, text, seconds) in ronde.items():
            if outcome != "skipped" or gloo[name][0] == "passed":
                self._add(name, world, outcome, text, seconds)
        passed = {name for name in gloo if gloo[name][0] == "passed"}
        ours = {name for name in ronde if ronde[name][0] == "passed"}
        self.passed_over_gloo |= passed
        self.passed_over_ronde |= ours
        self._with_more = [
            name
            for name, (outcome, text, _) in gloo.items()
            if outcome == "skipped" and any(words in text for words in _NEEDS_OTHERS)
        ]
        self._with_three = [name for name, each in gloo.items() if each[0] != "skipped"] + self._with_more
        print(f"{world} ranks: {len(passed)} pass over Gloo, {len(ours)} over Ronde, {len(passed & ours)} over both; "
              f"{sum(each[0] == 'failed' for each in gloo.values())} fail over Gloo; "
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip

    def compare_on_the_host(self, world: int) -> None:
        """What is for GPUs, as far as Gloo does it without."""
        began = time.monotonic()
        gloo = suite("gloo", world, *self._for_gpus, "--on-the-host")
        passed = [name for name, (outcome, _, _) in gloo.items() if outcome == "passed"]
        ronde = suite("ronde", world, *passed, "--on-the-host")
        for name, (outcome, text, seconds) in ronde.items():
            self._add(name, world, outcome, text, seconds)
        ours = [name for name in passed if ronde[name][0] == "passed"]
        print(f"{world} ranks, tests for GPUs on the host: {len(passed)} of {len(gloo)} pass over Gloo, {len(ours)} of these "
              f"over Ronde; {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip

    def check_list(self, worlds: Sequence[int]) -> None:
        """Whether what is listed was run."""
        run = {case.get("name") for case in self.cases}
        listed = [f"{name}[r{world}]" for name, each in DIFFERENCES.items() for world in each.worlds if world in worlds]
        strays = [name for name in listed if name not in run]
        self._write("differences_are_of_the_suite", f"listed, but not run: {', '.join(strays)}" if strays else "", 0.0)

    def check_async(self) -> None:
        """Whether the profiler's events still cannot say that they are asynchronous."""
        [(outcome, _, seconds)] = suite("ronde", 2, _ASKS_ASYNC, RONDE_SUITE_ASKS_ASYNC="1").values()
        problem = "" if outcome == "failed" else "events are asynchronous now: remove _see_as_asynchronous from suite.py"
        self._write("profiler_events_cannot_be_marked_asynchronous", problem, seconds)

    def _add(self, name: str, world: int, outcome: str, text: str, seconds: float) -> None:
        difference = DIFFERENCES.get(name)
        is_listed = difference is not None and world in difference.worlds
        if outcome == "passed":
            problem = f"passes, though it is listed for {world} ranks: remove it from differences.py" if is_listed else ""
        else:
            problem = "" if is_listed else f"{outcome} over Ronde, and passes over Gloo:\n{text}"
            self.listed += is_listed
        self._write(f"{name}[r{world}]", problem, seconds)

    def _write(self, name: str, problem: str, seconds: float) -> None:
        case = ElementTree.SubElement(
            self.cases, "testcase", classname="pytorch_suite", name=name, time=f"{seconds:.3f}"
        )
        if problem:
            ElementTree.SubElement(case, "failure").text = problem
            print(f"{name}: {problem}", flush=True)
            self.failed += 1


def main() -> int:
    """0: nothing fails that should not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--junit", type=Path)
    parser.add_argument("--worlds", default="2,3,4,8")
    told = parser.parse_args()
    comparison = Comparison()
    worlds = [int(world) for world in told.worlds.split(",")]
    for world in worlds:
        comparison.compare(world)
        if world == 2:
            comparison.compare_on_the_host(world)
    comparison.check_list(worlds)
    comparison.check_async()
    if told.junit:
        told.junit.parent.mkdir(parents=True, exist_ok=True)
        ElementTree.ElementTree(comparison.cases).write(told.junit)
    both = comparison.passed_over_gloo & comparison.passed_over_ronde
    print(f"in all {len(comparison.passed_over_gloo)} tests pass over Gloo and {len(comparison.passed_over_ronde)} over Ronde, "
          f"{len(both)} of them over both; {comparison.listed} results are listed as different")  # fmt: skip
    return 1 if comparison.failed else 0


if __name__ == "__main__":
    sys.exit(main())
