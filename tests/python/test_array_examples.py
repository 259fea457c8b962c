"""The examples of NumPy and JAX: one rank and several do the same on the same data. And the program of JAX's page."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from launching import run_job

ROOT = Path(__file__).resolve().parents[2]
KMEANS = ROOT / "examples" / "numpy" / "kmeans.py"
MNIST = ROOT / "examples" / "jax" / "mnist.py"


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


def test_without_the_launcher():
    ended = subprocess.run([sys.executable, str(KMEANS), "--steps", "2"], timeout=180, capture_output=True, text=True)
    assert ended.returncode == 0 and "1 ranks" in ended.stdout, ended.stderr


@pytest.mark.long
def test_mnist():
    found = {}
    for ranks in (1, 2):
        ended = run_job(ranks, str(MNIST), "--steps", "21", "--batch", "64")
        assert ended.code == 0, ended.output
        found[ranks] = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in ended.lines("step ")]
    assert len(found[1]) == 3 and found[1][-1] < found[1][0]
    assert found[2] == pytest.approx(found[1], rel=1e-4)


def test_program_of_the_page(tmp_path):
    program = tmp_path / "train.py"
    program.write_text(re.search(r"```python\n(.*?)```", (ROOT / "docs/jax.md").read_text(encoding="utf-8"), re.DOTALL)[1])
    ended = run_job(2, str(program))
    assert ended.code == 0, ended.output
    [first, second] = [float(line.split()[-1]) for line in ended.lines("rank ")]
    assert first == second < 0.01


@pytest.mark.long
def test_benchmark():
    ended = run_job(2, str(ROOT / "benchmarks" / "frameworks" / "arrays.py"), "--quick")
    assert ended.code == 0, ended.output
    assert len(ended.lines("NumPy, ")) == 4 and len(ended.lines("JAX, ")) == 14
