"""Ronde under each MPI of mpis.toml: every operation, a trained network on one host and on two, and mpi4py beside it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Callable, Dict

import numpy as np
import pytest

from mpis import FOLDER, ROOT, WEIGHTS, Line, training

LIMIT_S = 300  # it only ends what hangs: four ranks import PyTorch, on a loaded machine in a minute
BACKENDS = pytest.mark.parametrize("backend", ["mpi", "own"])
#: Of the difference from what `ronde run` makes of the same script. Sums of four numbers differ in their last bits by order.
MAX_DIFFERENCE = 1e-5


@pytest.fixture
def tried(line: Line, request: pytest.FixtureRequest) -> Callable[[str, Callable[[], None]], None]:
    """Does it, as the cell of that name of the table. Where mpis.toml says that it fails, it must, and in these words."""

    def tries(cell: str, does: Callable[[], None]) -> None:
        request.node.user_properties += [("line", line.name), ("cell", cell)]
        words = line.fails.get(cell)
        if words is None:
            does()
            return
        with pytest.raises(AssertionError) as error:
            does()
        assert words in str(error.value)
        pytest.xfail(words)

    return tries


def started(bed: Any, line: Line, backend: str, ranks: int, *command: Any, hosts: int = 1) -> Any:
    """To the end, with success, of ranks that say who carries their data."""
    environment = line.environment(backend)
    done = bed.hosts[0].run(*line.words(bed, hosts, ranks, environment), line.python, *command, env=environment,
                            limit_s=LIMIT_S)
    assert done.returncode == 0, f"code {done.returncode}\n{done.stdout}\n{done.stderr}"
    through_mpi = len(re.findall(re.escape(f"backend mpi: {line.says}"), done.stderr))
    assert (through_mpi >= ranks) if backend == "mpi" else ("backend mpi" not in done.stderr), done.stderr
    return done


@pytest.mark.parametrize("ranks", [2, 3])
def test_every_operation_is_right(bed: Any, line: Line, tried: Any, ranks: int) -> None:
    def does() -> None:
        done = started(bed, line, "mpi", ranks, ROOT / "tests/hosts/programs/operations.py")
        digests = re.findall("[0-9a-f]{64}", done.stdout)
        assert len(digests) >= 3 * ranks
        assert len(set(digests)) == 3, digests  # of three steps: the same bits on all ranks

    tried(f"operations, {ranks} ranks", does)


@BACKENDS
@pytest.mark.parametrize("hosts", [1, 2], ids=["one-host", "two-hosts"])
def test_a_network_trains_as_by_ronde_run(bed: Any, line: Line, tried: Any, ours: Path, backend: str, hosts: int) -> None:
    cell = f"training, {backend}, {('one host', 'two hosts')[hosts - 1]}"
    folder = WEIGHTS / line.name / cell
    folder.mkdir(parents=True)

    def does() -> None:
        done = started(bed, line, backend, 4, *training(folder), hosts=hosts)
        assert f"hosts: {hosts}" in done.stdout, done.stdout
        of_ranks = [weights_of(folder, rank) for rank in range(4)]
        for rank, weights in enumerate(of_ranks):
            different = [name for name in weights if weights[name].tobytes() != of_ranks[0][name].tobytes()]
            assert not different, f"rank {rank} has other bits than rank 0 in {different}"
        expected = weights_of(ours, 0)
        assert of_ranks[0].keys() == expected.keys()
        for name, tensor in of_ranks[0].items():
            difference = np.linalg.norm(tensor - expected[name]) / np.linalg.norm(expected[name])
            assert difference <= MAX_DIFFERENCE, f"{name} differs by {difference:.1e} from what `ronde run` makes of it"

    tried(cell, does)


def weights_of(folder: Path, rank: int) -> Dict[str, Any]:
    with np.load(folder / f"{rank}.npz") as file:
        return {name: file[name].astype(np.float64) for name in file}


@BACKENDS
@pytest.mark.parametrize("first", ["mpi4py", "ronde"])
def test_mpi4py_beside_ronde(bed: Any, line: Line, tried: Any, backend: str, first: str) -> None:
    def does() -> None:
        done = started(bed, line, backend, 3, FOLDER / "programs" / "beside_mpi4py.py", first)
        assert done.stdout.count("both are right") == 3, done.stdout
        assert "rror" not in done.stderr, done.stderr

    tried(f"{first} first, {backend}", does)
