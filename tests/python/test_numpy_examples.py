"""The example of NumPy: one rank and several find the same centres."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from launching import run_job

KMEANS = Path(__file__).resolve().parents[2] / "examples" / "numpy" / "kmeans.py"


def test_kmeans():
    found = {}
    for ranks in (1, 2):
        ended = run_job(ranks, str(KMEANS), "--points", "3001", "--steps", "8")
        assert ended.code == 0, ended.output
        inertia = [float(re.search(r"inertia ([\d.]+)", line)[1]) for line in ended.lines("step ")]
        found[ranks] = inertia, ended.lines(f"{ranks} ranks; ")[0].partition(": ")[2]
    assert len(found[1][0]) > 3 and found[1][0][-1] < found[1][0][0]
    assert found[2][0] == pytest.approx(found[1][0], rel=1e-9)
    assert found[2][1] == found[1][1]


def test_without_the_launcher(capfd):
    import subprocess

    ended = subprocess.run([sys.executable, str(KMEANS), "--steps", "2"], timeout=60, capture_output=True, text=True)
    assert ended.returncode == 0 and "1 ranks" in ended.stdout, ended.stderr
