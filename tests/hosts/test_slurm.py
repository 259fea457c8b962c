"""Slurm in the bed starts tasks on its hosts, and says to each which it is."""

from __future__ import annotations

import pytest

from slurm import Slurm
from bed import wait_until

SHOW = "echo $SLURM_PROCID/$SLURM_NTASKS $SLURM_LOCALID $(hostname) step=$SLURM_STEP_ID pmi=$PMI_RANK pmix=${PMIX_RANK-}"


@pytest.fixture
def slurm(bed):
    with Slurm(bed) as running:
        yield running


@pytest.mark.hosts(3, "slurm")
def test_srun_starts_tasks(slurm):
    said = slurm.check("srun", "-N3", "--ntasks-per-node=2", "sh", "-c", SHOW).splitlines()
    assert sorted(said) == [f"{rank}/6 {rank % 2} rh{rank // 2 + 1} step=0 pmi= pmix=" for rank in range(6)]
    with_pmi = slurm.check("srun", "--mpi=pmi2", "-N2", "-n2", "sh", "-c", SHOW).splitlines()
    assert sorted(with_pmi) == [f"{rank}/2 0 rh{rank + 1} step=0 pmi={rank} pmix=" for rank in range(2)]
    assert slurm.run("srun", "-N2", "-n2", "sh", "-c", "exit $((SLURM_PROCID * 7))").returncode == 7

    # A batch script has a task's variables, but for the step's.
    script, out = slurm.folder / "script", slurm.folder / "out"
    script.write_text(f"#!/bin/sh\n{SHOW}\n")
    slurm.check("sbatch", "--wait", "-N2", "-n5", "-o", out, script, limit_s=60)
    wait_until(lambda: out.exists() and out.read_text(), "what the script has written")
    assert out.read_text() == "0/5 0 rh1 step= pmi= pmix=\n"
