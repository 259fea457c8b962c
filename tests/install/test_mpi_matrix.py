"""The matrix of MPIs (tests/mpis): it is well-formed, and the page tells what it expects."""

import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture(autouse=True)
def mpis_modules(monkeypatch):
    """Its modules have short names: they are importable in these tests only."""
    for folder in ("versions", "mpis"):
        monkeypatch.syspath_prepend(str(TESTS / folder))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def test_the_page_has_the_table(root):
    from mpis import load, rows

    table = "\n".join(rows(load()))
    assert table in (root / "docs/launchers.md").read_text(encoding="utf-8"), f"docs/launchers.md is to have\n{table}"


def test_every_mpi_of_the_promise_is_a_line():
    from mpis import load

    found = {(line.launcher, line.version.split(".")[0]) for line in load()}
    assert found == {("orte", "4"), ("prte", "5"), ("hydra", "4"), ("hydra", "5"), ("intel", "2021")}


GOOD = 'package = "mpich", version = "4.3.2", launcher = "hydra", says = "MPICH"'


@pytest.mark.parametrize("wrong", [
    GOOD.replace("hydra", "hydro"),
    GOOD.replace("4.3.2", "latest"),
    GOOD + ', colour = "blue"',
    GOOD + ', fails = { "no cell" = "words" }, reason = "a reason"',
    GOOD + ', fails = { "ronde first, own" = "" }, reason = "a reason"',
    GOOD + ', fails = { "ronde first, own" = "words" }',
])
def test_a_wrong_line_is_refused(wrong):
    from mpis import parse

    assert parse(f'mpi4py = "4.1.2"\nmpis = [ {{ {GOOD} }} ]')
    with pytest.raises(ValueError, match="mpich"):
        parse(f'mpi4py = "4.1.2"\nmpis = [ {{ {wrong} }} ]')
