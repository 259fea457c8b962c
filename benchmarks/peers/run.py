"""Measures Ronde and its peers, round by round, each work by all of them one after the other.

    make bench-peers                       everything, tens of minutes
    make bench-peers ARGS=--quick          a few minutes: fewer sizes, one round
    make bench-peers ARGS="--only impi --works resnet50"
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

from tqdm import tqdm

import install
from contestants import CONTESTANTS, CORES, Contestant
from folders import RESULTS, ROOT
from started import Outcome, start
from works import Work, all_works


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="bench-peers", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter, one round")
    parser.add_argument("--rounds", type=int, default=0, help="how often everything is measured (5; quick: 1)")
    parser.add_argument("--only", default="", help="contestants, with commas, beside Ronde's and the memory bound")
    parser.add_argument("--works", default="", help="only works whose title has this, such as resnet50 or '2 ranks'")
    parser.add_argument("--output", type=Path, default=None, help="the file of results; one is named by the date")
    parser.add_argument("--no-page", action="store_true", help="docs/benchmarks.md and its plots are not written anew")
    return parser.parse_args(words)


def about_this_run(arguments, contestants) -> dict:
    """The first line of a file of results."""
    model = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                  if line.startswith("model name")), platform.machine())
    commit = subprocess.run(["git", "describe", "--always", "--dirty"], cwd=ROOT, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, check=False).stdout.strip()
    return {
        "about": "ronde and its peers", "date": time.strftime("%Y-%m-%d"), "commit": commit, "processor": model,
        "cores": CORES, "kernel": platform.release(), "quick": arguments.quick, "rounds": arguments.rounds,
        "contestants": {each.name: {"title": each.title, "settings": each.settings} for each in contestants},
    }


def prepared(contestants: list[Contestant], write) -> list[Contestant]:
    """Those that can be measured here; what cannot is written down with the reason."""
    programs: dict[str, str] = {}
    ready = []
    for contestant in contestants:
        reasons = []
        for program in (*contestant.needs, contestant.program):
            if program and program not in programs:
                print(f"installing {program} ... ", end="", flush=True)
                try:
                    install.install(program)
                    programs[program] = ""
                    print("ready")
                except install.Unavailable as reason:
                    programs[program] = str(reason)
                    print(f"not to be had: {reason}")
            if program and programs[program]:
                reasons.append(programs[program])
        if reasons:
            write({"contestant": contestant.name, "unavailable": reasons[0]})
        else:
            ready.append(contestant)
    return ready


class Runner:
    def __init__(self, write):
        self.write = write
        self.given_up: set[tuple[str, Work]] = set()  # what failed before is not waited for again

    def start(self, contestant: Contestant, work: Work) -> Outcome:
        return start(contestant, work)

    def measure(self, contestant: Contestant, work: Work, number: int):
        if (contestant.name, work) in self.given_up:
            return
        outcome = self.start(contestant, work)
        for line in outcome.lines:
            self.write(line | {"round": number})
        if outcome.failure:
            self.given_up.add((contestant.name, work))
            self.write({"contestant": contestant.name, "round": number, "work": work.title, "kind": work.kind,
                        "failure": outcome.failure})
            tqdm.write(f"{contestant.title}: {work.title}: {outcome.failure}", file=sys.stderr)

    def rounds(self, contestants: list[Contestant], works: list[Work], count: int):
        steps = [(number, work, contestant) for number in range(count) for work in works for contestant in contestants
                 if contestant.takes(work)]
        with tqdm(total=len(steps), unit="", smoothing=0.1, dynamic_ncols=True) as bar:
            for number, work, contestant in steps:
                bar.set_description(f"round {number + 1} of {count}, {work.title}: {contestant.name}")
                self.measure(contestant, work, number)
                bar.update()


def main(words) -> int:
    arguments = arguments_of(words)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 5)
    install.install_ronde()
    RESULTS.mkdir(exist_ok=True)
    name = time.strftime("%Y-%m-%d-%H%M") + ("-quick" if arguments.quick else "") + ".jsonl"
    path = arguments.output or RESULTS / name
    chosen = set(filter(None, arguments.only.split(",")))
    contestants = [each for each in CONTESTANTS if not chosen or not each.is_peer or each.name in chosen]
    works = [work for work in all_works(arguments.quick) if arguments.works in work.title]
    if not works:
        titles = ", ".join(work.title for work in all_works(arguments.quick))
        sys.exit(f"no work's title has '{arguments.works}': {titles}")
    with open(path, "w", encoding="utf-8") as file:

        def write(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        write(about_this_run(arguments, CONTESTANTS))
        runner = Runner(write)
        try:
            runner.rounds(prepared(contestants, write), works, arguments.rounds)
        except KeyboardInterrupt:
            print("\nstopped; what was measured until now is kept", file=sys.stderr)
    print(f"results: {os.path.relpath(path)}")
    report(path, arguments)
    return 0


def report(path: Path, arguments):
    # Not before they are needed: Matplotlib takes a second to load.
    import page
    import tables
    from results import load

    results = load(path)
    print(tables.everything(results))
    if not arguments.no_page and not arguments.quick:
        page.write(results, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
