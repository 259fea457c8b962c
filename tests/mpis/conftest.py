"""The fixtures of test_mpis.py, and at the end of a run a table: one row for each MPI, one column for each cell."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any, Dict, Iterator

import pytest

TESTS = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(TESTS / "hosts"), str(TESTS / "versions")]

from bed import Bed, plain_environment  # noqa: E402  (it is in the folder above)
from levels import NEEDS, level, missing  # noqa: E402
from mpis import CELLS, ENVIRONMENT, IMAGES, WEIGHTS, WORK, Line, load, training  # noqa: E402
from small_images import make as make_images  # noqa: E402


@pytest.fixture(scope="module", params=load(), ids=lambda line: line.name.replace(" ", "-"))
def line(request: pytest.FixtureRequest) -> Line:
    """An MPI, installed."""
    made: Line = request.param
    made.make()
    return made


@pytest.fixture(scope="module")
def bed(line: Line) -> Iterator[Bed]:
    """Two hosts for all tests of a line."""
    lacks = missing(level())
    if "ssh" in lacks:
        pytest.skip(f"needs {NEEDS['ssh']}: {lacks['ssh']}")
    with Bed(2, ssh=True) as made:
        yield made


@pytest.fixture(scope="session")
def images() -> Path:
    """Below build/, since the hosts of a bed have a /tmp of their own."""
    shutil.rmtree(IMAGES, ignore_errors=True)
    shutil.rmtree(WEIGHTS, ignore_errors=True)
    WORK.mkdir(parents=True, exist_ok=True)
    make_images(IMAGES)
    return IMAGES


@pytest.fixture(scope="session")
def ours(images: Path) -> Path:
    """The folder with the weights of four ranks of `ronde run`."""
    folder = WEIGHTS / "ronde run"
    folder.mkdir(parents=True)
    command = [Path(sys.executable).with_name("ronde"), "run", "-n", 4, "--", sys.executable, *training(folder)]
    done = subprocess.run([str(word) for word in command], env=plain_environment({**ENVIRONMENT, "RONDE_BACKEND": "own"}),
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """What is expected to fail is told here with its words, too."""
    found: Dict[str, Dict[str, str]] = {}
    for kind, word in (("passed", "works"), ("xfailed", "fails, as told"), ("failed", "FAILED"), ("error", "FAILED")):
        for report in terminalreporter.stats.get(kind, []):
            properties = dict(getattr(report, "user_properties", ()))
            if "cell" in properties:
                found.setdefault(properties["line"], {})[properties["cell"]] = word
    terminalreporter.section("MPIs")
    for name, cells in found.items():
        for cell in CELLS:
            terminalreporter.write_line(f"{name:<20} {cell:<28} {cells.get(cell, 'not run')}")
