"""Beds of hosts for tests, and a word on what the run could test.

    @pytest.mark.hosts(3, "ssh", "faults")      # three hosts; the test needs these of levels.NEEDS
    def test_x(bed): ...

Every test with that mark gets a bed of its own. Where the machine lacks what a test needs, it is skipped with the reason, and
the run ends with a section that says which level of hosts it used and what it could not test. RONDE_HOSTS_LEVEL=root makes
that an error instead.
"""

from __future__ import annotations

from typing import Any, Iterator

import pytest

from bed import Bed
from levels import NEEDS, level, missing


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "hosts(count, *needs): with a bed of so many hosts that has these of levels.NEEDS")


def pytest_terminal_summary(terminalreporter: Any) -> None:
    lacks = missing(level())
    terminalreporter.section(f"hosts of level {level().value}")
    for need, why in lacks.items():
        terminalreporter.write_line(f"not tested: {NEEDS[need]}: {why}")
    if not lacks:
        terminalreporter.write_line("all could be tested")


@pytest.fixture
def bed(request: pytest.FixtureRequest) -> Iterator[Bed]:
    """The hosts that the test's mark asks for, at their best."""
    mark = request.node.get_closest_marker("hosts")
    count, *needs = mark.args
    assert set(needs) <= NEEDS.keys(), needs
    lacks = missing(level())
    for need in needs:
        if need in lacks:
            pytest.skip(f"needs {NEEDS[need]}: {lacks[need]}")
    with Bed(count, ssh="ssh" in needs, **mark.kwargs) as made:
        yield made
