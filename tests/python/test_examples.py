"""The examples run. That of Fashion-MNIST needs its data: see test_units.py and tools/demo."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
import torch

from launching import run_job

EXAMPLES = Path(__file__).resolve().parents[2] / "examples" / "torch"
sys.path.insert(0, str(EXAMPLES))


@pytest.mark.parametrize(
    ("depth", "parameters"), [(18, 11_689_512), (34, 21_797_672), (50, 25_557_032), (101, 44_549_160)]
)
def test_the_networks_are_those_of_the_paper(depth, parameters):
    import synthetic_benchmark

    with torch.device("meta"):
        model = synthetic_benchmark.make_resnet(depth, 64, 1000)
        assert sum(parameter.numel() for parameter in model.parameters()) == parameters
        assert model(torch.empty(2, 3, 224, 224)).shape == (2, 1000)


def test_synthetic_benchmark(ranks: int = 2):
    small = "--width 4 --image 32 --batch 4 --warmup 1 --rounds 2 --steps 2".split()
    ended = run_job(ranks, str(EXAMPLES / "synthetic_benchmark.py"), *small, "--compression", "bf16", forked="torch")
    assert ended.code == 0, ended.output
    speeds = [float(re.search(r": ([\d.]+) \+- [\d.]+ images per second", line)[1]) for line in ended.lines("  rank ")]
    [total] = [float(line.split()[1]) for line in ended.lines("  total: ")]
    assert len(speeds) == ranks and all(speed > 0 for speed in speeds)
    assert total == pytest.approx(sum(speeds), abs=0.1 * ranks)
    assert f"ranks: {ranks}," in ended.lines("ResNet-18")[0]


def test_process_sets():
    ended = run_job(4, str(EXAMPLES / "process_sets.py"), "--steps", "20", forked="torch")
    assert ended.code == 0, ended.output
    losses = [float(re.search(r"loss ([\d.]+)", line)[1]) for line in [*ended.lines("sine"), *ended.lines("cosine")]]
    assert len(losses) == 2 and losses[0] != losses[1]
    assert "ranks [0, 2]" in ended.lines("sine")[0]


def test_adasum():
    ended = run_job(2, str(EXAMPLES / "adasum.py"), "--steps", "20", forked="torch")
    assert ended.code == 0, ended.output
    [average], [adasum] = ended.lines("Average: "), ended.lines("Adasum: ")
    assert average.split()[2] != adasum.split()[2]


def test_ddp():
    ended = run_job(2, str(EXAMPLES / "ddp.py"), "--epochs", "6", forked="torch")
    assert ended.code == 0, ended.output
    losses = [float(line.split()[-1]) for line in ended.lines("epoch ")]
    assert len(losses) == 6 and losses[-1] < 0.5 * losses[0]


def test_fsdp(tmp_path):
    ended = run_job(2, str(EXAMPLES / "fsdp.py"), "--steps", "40", TMPDIR=str(tmp_path), forked="torch")
    assert ended.code == 0, ended.output
    losses = [float(line.split()[-1]) for line in ended.lines("step ")]
    assert len(losses) == 4 and losses[-1] < losses[0]
    [saved] = ended.lines("saved in ")
    first, second = re.findall(r"[\d.]+$|loss ([\d.]+),", saved)[0], saved.split()[-1]
    assert first == second
