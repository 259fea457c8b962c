"""benchmarks/versions: a version compared with itself."""

import json
import subprocess
import sys
from pathlib import Path

VERSIONS = Path(__file__).resolve().parents[2] / "benchmarks/versions"


def compare(*arguments):
    command = [sys.executable, VERSIONS / "compare.py", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)


def test_a_version_and_itself(tmp_path):
    lines = tmp_path / "cells.jsonl"
    done = compare(sys.prefix, sys.prefix, "--only", "^(hvd named 8B|dist list 3x1K|step hvd 100)", "--pairs", "2",
                   "--seconds", "0.02", "--json", lines)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    assert [row["cell"] for row in rows] == ["hvd named 8B", "dist list 3x1K", "step hvd 100 x 16 KiB"]
    assert all(0 < row["low"] <= row["ratio"] <= row["high"] for row in rows)
    assert all(row["cell"] in done.stdout for row in rows)


def test_what_is_no_environment_is_said(tmp_path):
    done = compare(tmp_path, sys.prefix)
    assert done.returncode == 2 and f"{tmp_path}: no bin/ronde there" in done.stderr
