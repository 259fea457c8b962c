"""Who am I: topology, life cycle, errors before init. The checks of one rank; jobs are tested in the other files."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest


@pytest.mark.ranks(1, 2, 3, 5)
def test_topology(hvd, rank, world):
    assert hvd.is_initialized()
    assert hvd.size() == world and 0 <= rank < world
    assert hvd.local_rank() == rank and hvd.local_size() == world
    assert hvd.cross_rank() == 0 and hvd.cross_size() == 1
    assert sorted(hvd.allgather_object(rank)) == list(range(world))


ALONE = "import ronde.numpy as hvd; hvd.init(); print(hvd.size())"


@pytest.mark.parametrize(
    "variable", ["HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS", "WORLD_SIZE", ""]
)
def test_a_job_of_one_rank_that_another_launcher_has_started_warns(variable):
    """As one of several; silently each would train for itself."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("RONDE_")}
    others = {variable: "2"} if variable else {"PMI_SIZE": "1", "WORLD_SIZE": "all"}
    command = [sys.executable, "-c", ALONE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=180, env=environment | others, check=True)
    assert done.stdout == "1\n"
    if variable:
        assert f"{variable} is 2" in done.stderr and "ronde run -n 2" in done.stderr
    else:
        assert "ronde run" not in done.stderr
