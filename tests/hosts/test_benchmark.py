"""`ronde bench` between hosts, and a tiny part of `make bench-hosts`: that hosts are made, contestants are started in them and what
they say is read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bed import ROOT, plain_environment
from launched import RONDE, Launched

PROGRAM = ROOT / "benchmarks/hosts/bench_hosts.py"
SIZES = [8, 1 << 10, 64 << 10]


@pytest.mark.hosts(2, "ssh")
def test_ronde_bench_between_hosts(bed):
    """Its ranks share no memory in which they could start together."""
    words = [RONDE, "bench", "allreduce", "--bytes", "8,64K", "--iterations", "5", "--json"]
    job = Launched(bed, "rh1:2,rh2:1", *words, options=["--no-prefix"])
    assert job.end() == 0, job.err
    measured = [json.loads(line) for line in job.out.splitlines()]
    assert [(each["ranks"], each["bytes"], each["calls"]) for each in measured] == [(3, 8, 5), (3, 65536, 5)]
    assert all(0 < each["min_us"] <= each["median_us"] <= each["p99_us"] for each in measured)


@pytest.mark.hosts(2, "ssh")
def test_ronde_bench_measures_a_table_between_hosts(bed):
    job = Launched(bed, "rh1:1,rh2:1", RONDE, "bench", "--table", options=["--no-prefix"])
    assert job.end() == 0, job.err
    assert "measured between 2 hosts of 2 ranks" in job.out and job.out.splitlines()[-1].startswith("hosts 2: one_turn "), job.out


@pytest.mark.hosts(1, "ssh", "rate")
@pytest.mark.long
def test_one_work_of_a_quick_round(bed, tmp_path):
    before = set(Path("/dev/shm").glob("ronde-bench-hosts-*"))
    results = tmp_path / "results.jsonl"
    words = ["--quick", "--only", "gloo", "--works", "8 B-64 KiB, 2 hosts x 1, 10 Gbit/s", "--output", str(results)]
    done = subprocess.run([sys.executable, str(PROGRAM), *words], cwd=ROOT, env=plain_environment(), text=True,
                          stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    about, *lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    assert about["rounds"] == 1 and "ronde_off" in about["contestants"]
    assert [(line["contestant"], line.get("bytes"), line.get("failure")) for line in lines] == [
        (name, size, None) for name in ("ronde", "ronde_off", "ronde_mac", "ronde_encrypt", "gloo") for size in SIZES]
    assert all(line["kind"] == "sweep 2x1 10 Gbit/s" and line["ranks"] == 2 and line["median_us"] > 0 for line in lines)
    assert all(line["control_messages"] == 0 for line in lines if line["contestant"] != "gloo")
    assert "8 B to 64 KiB, 2 hosts, 10 Gbit/s" in done.stdout
    assert set(Path("/dev/shm").glob("ronde-bench-hosts-*")) == before
