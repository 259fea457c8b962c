"""`ronde plan` beside what all-reduces between hosts take, a tiny part of benchmarks/plan: that hosts are made and measured,
and a fabric is fitted to them. How far the planner is right is no test's matter, for the machine has other work as well."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bed import ROOT, plain_environment


@pytest.mark.hosts(1, "rate")
@pytest.mark.long
def test_a_quick_validation(bed, tmp_path):
    results = tmp_path / "results.jsonl"
    words = [sys.executable, str(ROOT / "benchmarks/plan/validate.py"), "--setting", "quick", "--output", str(results),
             "--ronde", str(ROOT / ".venv/bin/ronde")]
    done = subprocess.run(words, cwd=ROOT, env=plain_environment(), text=True, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    cases = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    assert [(case["hosts"], case["bytes"]) for case in cases] == [
        (hosts, size) for hosts in (2, 3) for size in (16 << 10, 256 << 10, 1 << 20)]
    # A mebibyte needs 40 ms at least at 200 Mbit/s.
    assert all(case["median_us"] > 40_000 for case in cases if case["bytes"] == 1 << 20)
    assert done.stdout.startswith("results: ")
    assert "\nfitted: latency_us " in done.stdout and "| all held out | 4 |" in done.stdout
