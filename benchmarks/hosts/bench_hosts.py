"""Measures Ronde between hosts beside its peers, round by round, each work by all of them one after the other. The hosts
are namespaces of this machine (tests/hosts), with links that are as fast as the processor or shaped; making them needs
root.

    make bench-hosts                       everything, the better part of an hour
    make bench-hosts ARGS=--quick          a few minutes: fewer sizes, one round
    make bench-hosts ARGS="--only gloo --works 'bare' --rounds 3"
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "peers"))

import install  # noqa: E402: benchmarks/peers has it
import run  # noqa: E402
from folders import RESULTS  # noqa: E402

PACKAGES = ["iproute2", "nftables", "openssh-server", "openssh-client", "iperf3"]


def arguments_of(words):
    parser = argparse.ArgumentParser(prog="bench-hosts", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer sizes, shorter, one round")
    parser.add_argument("--rounds", type=int, default=0, help="how often everything is measured (7; quick: 1)")
    parser.add_argument("--only", default="", help="contestants, with commas, beside Ronde's")
    parser.add_argument("--works", default="", help="only works whose title has this, such as resnet50 or bare")
    parser.add_argument("--output", type=Path, default=None, help="the file of results; one is named by the date")
    parser.add_argument("--no-page", action="store_true", help="docs/benchmarks.md and its plots are not written anew")
    return parser.parse_args(words)


def why_no_beds() -> str:
    """Why hosts cannot be made here; empty if they can."""
    if os.geteuid() != 0:
        return "bench-hosts makes hosts out of network namespaces with an ssh server in each, which needs root."
    from host_jobs import CORES
    from levels import Level, why_not

    if CORES < 2:
        return "bench-hosts needs two processor cores, one for each of two hosts."
    reason = why_not(Level.ROOT)
    return f"bench-hosts cannot make hosts here: {reason}." if reason else ""


class HostRunner(run.Runner):
    def __init__(self, write, beds):
        super().__init__(write)
        self.beds = beds

    def start(self, contestant, work):
        from host_jobs import start

        return start(contestant, work, self.beds)


def measured(arguments, works, contestants, path: Path):
    from host_contestants import CONTESTANTS, install_ronde_program
    from host_jobs import Beds

    install.install_ronde()
    install_ronde_program()
    with open(path, "w", encoding="utf-8") as file:

        def write(line):
            file.write(json.dumps(line) + "\n")
            file.flush()

        write(run.about_this_run(arguments, CONTESTANTS) | {"about": "ronde and its peers between hosts"})
        with Beds() as beds:
            try:
                HostRunner(write, beds).rounds(run.prepared(contestants, write), works, arguments.rounds)
            except KeyboardInterrupt:
                print("\nstopped; what was measured until now is kept", file=sys.stderr)


def main(words) -> int:
    arguments = arguments_of(words)
    arguments.rounds = arguments.rounds or (1 if arguments.quick else 7)
    if os.geteuid() == 0:
        try:
            install.install_packages(PACKAGES)
        except install.Unavailable as reason:
            sys.exit(str(reason))
    if reason := why_no_beds():
        sys.exit(reason)
    from host_contestants import CONTESTANTS
    from host_works import all_works

    chosen = set(filter(None, arguments.only.split(",")))
    contestants = [each for each in CONTESTANTS if not chosen or not each.is_peer or each.name in chosen]
    works = [work for work in all_works(arguments.quick) if arguments.works in work.title]
    if not works:
        titles = ", ".join(work.title for work in all_works(arguments.quick))
        sys.exit(f"no work's title has '{arguments.works}': {titles}")
    RESULTS.mkdir(exist_ok=True)
    name = time.strftime("%Y-%m-%d-%H%M-hosts") + ("-quick" if arguments.quick else "") + ".jsonl"
    path = arguments.output or RESULTS / name
    measured(arguments, works, contestants, path)
    print(f"results: {os.path.relpath(path)}")
    report(path, arguments)
    return 0


def report(path: Path, arguments):
    # Not before they are needed: Matplotlib takes a second to load.
    import host_page
    from results import load

    results = load(path)
    print(host_page.everything(results))
    if not arguments.no_page and not arguments.quick:
        host_page.write(results, path)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
