"""Writes the tables of docs/plan.md: how far the built-in models scale, by `ronde plan`.

    .venv/bin/python benchmarks/plan/scaling_table.py            a minute or two
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass

MODELS = {"resnet50": "ResNet-50", "inception3": "Inception V3", "resnet101": "ResNet-101", "vgg16": "VGG-16",
          "hepcnn": "HEP-CNN", "cosmogan": "CosmoGAN"}
HOSTS = (2, 8, 32, 128, 512, 1024, 4096)


@dataclass(frozen=True)
class Table:
    title: str
    words: tuple[str, ...]


WEAK = ("--batch", "64", "--ranks-per-host", "4")
TABLES = (
    Table("TCP, 25 Gbit/s, weak scaling, 4 ranks a host", (*WEAK, "--fabric", "tcp-25g")),
    Table("The same with messages of 16 MiB (`--chunk 16M`)", (*WEAK, "--fabric", "tcp-25g", "--chunk", "16M")),
    Table("RDMA, 25 Gbit/s, weak scaling, 4 ranks a host", (*WEAK, "--fabric", "rdma-25g")),
    Table("The same with messages of 16 MiB (`--chunk 16M`)", (*WEAK, "--fabric", "rdma-25g", "--chunk", "16M")),
    Table("RDMA, 100 Gbit/s, weak scaling, 4 ranks a host", (*WEAK, "--fabric", "rdma-100g")),
    Table("TCP, 25 Gbit/s, strong scaling, one rank a host, 8192 samples",
          ("--batch", "8192", "--scaling", "strong", "--fabric", "tcp-25g")),
    Table("RDMA, 100 Gbit/s, strong scaling, one rank a host, 8192 samples",
          ("--batch", "8192", "--scaling", "strong", "--fabric", "rdma-100g")),
)
#: What bounds a step, as a letter behind its efficiency.
LETTERS = {"compute": "", "bandwidth": " b", "messages": " m", "processor": " p"}


def lines_of(program: str, model: str, table: Table, hosts: str) -> list[dict]:
    words = [program, "plan", "--json", "--model", model, "--hosts", hosts, *table.words]
    done = subprocess.run(words, stdout=subprocess.PIPE, check=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ronde", default="ronde", help="the program that plans")
    parser.add_argument("--hosts", default=",".join(map(str, HOSTS)))
    arguments = parser.parse_args(words)
    for table in TABLES:
        columns = {model: lines_of(arguments.ronde, model, table, arguments.hosts) for model in MODELS}
        print(f"{table.title}:\n\n| hosts | ranks | {' | '.join(MODELS.values())} |\n|{'---|' * (len(MODELS) + 2)}")
        for row in zip(*columns.values()):
            cells = [f"{100 * each['efficiency']:.0f}{LETTERS[each['bound']]}" for each in row]
            print(f"| {row[0]['hosts']} | {row[0]['ranks']} | {' | '.join(cells)} |")
        print(flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
