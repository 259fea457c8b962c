"""The pytest plugin behind ``@pytest.mark.ranks(2, 3)``.

    @pytest.mark.ranks(2, 3)                 # the test runs in jobs of 2 and of 3 ranks
    def test_sum(hvd): ...

The session's own process only reports. A marked test runs at once in all workers of a pool, one pool per world size,
kept from test to test; all workers are forked from one process, so that PyTorch is loaded once (rank_zygote.py), and
from one with TensorFlow too where their tests use the fixture ``tf``. All ranks pass: pass. Any fails: fail, with every
failing rank's text. Any is silent until the deadline, or ends: fail, and the pool is built anew; so it is after any
failure, since the ranks may then be out of step. A warning of Ronde's in a worker's output fails the test too.

Options of the mark: ``deadline`` in seconds; ``fresh=True`` for processes of the test's own, which must also end in
order; ``warnings=True`` if the test means to cause a warning; ``long=(3,)``: with three ranks it carries the mark ``long``.

A test for several sizes is for any: ``RONDE_TEST_RANKS=4,8`` runs all such, and no others, in jobs of 4 and of 8 ranks.
``RONDE_TEST_RANKS=fewest`` runs each test once, in the smallest of its jobs that has more than one rank.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any, Dict, Iterator, List, Optional, Tuple

import pytest

from rank_pool import PoolFailure, RankPool
from zygote_process import ZygoteProcess

_DEADLINE_S = 180.0  # it only ends what hangs
_POOLS = pytest.StashKey[Dict[int, RankPool]]()
_ZYGOTES = pytest.StashKey[Dict[str, ZygoteProcess]]()
_IS_WORKER = "RONDE_TEST_WORKER" in os.environ
_WANTED = os.environ.get("RONDE_TEST_RANKS", "")
_FEWEST = _WANTED == "fewest"
_OTHER_SIZES = () if _FEWEST else tuple(int(size) for size in _WANTED.split(",") if size)


def pytest_configure(config: pytest.Config) -> None:
    """Declares the mark. Jobs of tests leave no measured table in the user's cache."""
    os.environ.setdefault("RONDE_PROBE", "0")
    config.addinivalue_line(
        "markers",
        "ranks(*sizes, fresh=False, deadline=180, warnings=False, long=()): run the test in jobs of so many ranks",
    )
    config.stash[_POOLS] = {}
    config.stash[_ZYGOTES] = {}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test per world size, the same in parent and workers."""
    mark = metafunc.definition.get_closest_marker("ranks")
    if mark is not None:
        if "world" not in metafunc.fixturenames:
            metafunc.fixturenames.append("world")
        metafunc.parametrize("world", [_parameter(size, mark) for size in _sizes(mark)])


def _sizes(mark: pytest.Mark) -> Tuple[int, ...]:
    if _OTHER_SIZES and _is_for_any_size(mark):
        return _OTHER_SIZES
    return (min(mark.args, key=lambda size: (size == 1, size)),) if _FEWEST else mark.args


def _parameter(size: int, mark: pytest.Mark) -> Any:
    marks = [pytest.mark.long] if size in mark.kwargs.get("long", ()) else []
    return pytest.param(size, id=f"r{size}", marks=marks)


@pytest.fixture
def world(request: pytest.FixtureRequest) -> int:
    """How many ranks the job of this test has."""
    return int(request.param)


@pytest.fixture
def hvd() -> Any:
    """``ronde.torch``, initialised in a worker."""
    import ronde.torch

    return ronde.torch


@pytest.fixture
def rank(hvd: Any) -> int:
    """This process's rank."""
    return int(hvd.rank())


def _is_for_any_size(mark: Optional[pytest.Mark]) -> bool:
    return mark is not None and len(mark.args) > 1


def _world_of(item: pytest.Item) -> int:
    return int(item.callspec.params["world"])  # type: ignore[attr-defined]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: List[pytest.Item]) -> None:
    """Tests of one world size follow each other, so that at most one pool of workers is alive."""
    if _OTHER_SIZES:
        others = [item for item in items if not _is_for_any_size(item.get_closest_marker("ranks"))]
        config.hook.pytest_deselected(items=others)
        items[:] = [item for item in items if _is_for_any_size(item.get_closest_marker("ranks"))]
    if not _IS_WORKER:
        items.sort(key=lambda item: _world_of(item) if item.get_closest_marker("ranks") else 0)


def pytest_runtestloop(session: pytest.Session) -> None:
    """The zygote loads while the tests that need no pool run."""
    if not _IS_WORKER and not session.config.option.collectonly:
        marked = [item for item in session.items if item.get_closest_marker("ranks")]
        if marked:
            _zygote(marked[0], _framework_of_pools(session))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item, nextitem: Optional[pytest.Item]) -> Optional[bool]:
    """In the parent, sends a marked test to its pool."""
    mark = item.get_closest_marker("ranks")
    if mark is None or _IS_WORKER:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    for report in _run_in_pool(item, mark):
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


def _run_in_pool(item: pytest.Item, mark: pytest.Mark) -> List[pytest.TestReport]:
    size = _world_of(item)
    fresh = bool(mark.kwargs.get("fresh", False))
    deadline = float(mark.kwargs.get("deadline", _DEADLINE_S))
    began = time.time()
    start = time.perf_counter()
    pool: Optional[RankPool] = None
    try:
        pool = _fresh_pool(item, size) if fresh else _kept_pool(item, size)
        outcome, text = _merge(pool.run(item.nodeid, deadline), allow_warnings=bool(mark.kwargs.get("warnings", False)))
    except PoolFailure as failure:
        outcome, text = "failed", str(failure)
    if pool is not None:
        if fresh and outcome != "failed":
            problem = pool.quit(whole=True)
            if problem is not None:
                outcome, text = "failed", problem
        elif fresh or outcome == "failed":
            pool.kill()
            item.config.stash[_POOLS].pop(size, None)
    return _reports(item, outcome, text, began, time.perf_counter() - start)


def _kept_pool(item: pytest.Item, size: int) -> RankPool:
    pools = item.config.stash[_POOLS]
    if size not in pools:
        for other in list(pools):  # tests are sorted by size: no other will be needed again
            problem = pools.pop(other).quit(whole=False)
            if problem is not None:
                raise PoolFailure(problem)
        zygote = _zygote(item, _framework_of_pools(item.session))
        pools[size] = RankPool(size, zygote, item.config.rootpath)
    return pools[size]


def _fresh_pool(item: pytest.Item, size: int) -> RankPool:
    return RankPool(size, _zygote(item, _framework_of(item)), item.config.rootpath)


def _framework_of(item: pytest.Item) -> str:
    """What the process that its ranks are forked from loads besides PyTorch."""
    return "tensorflow" if "tf" in getattr(item, "fixturenames", ()) else "none"


def _framework_of_pools(session: pytest.Session) -> str:
    """That of ranks that are kept: what any of their tests uses."""
    marked = [(item, item.get_closest_marker("ranks")) for item in session.items]
    used = {_framework_of(item) for item, mark in marked if mark is not None and not mark.kwargs.get("fresh")}
    return "tensorflow" if "tensorflow" in used else "none"


def _zygote(item: pytest.Item, framework: str) -> ZygoteProcess:
    zygotes = item.config.stash[_ZYGOTES]
    if framework not in zygotes:
        files = {str(other.path) for other in item.session.items if other.get_closest_marker("ranks")}
        zygotes[framework] = ZygoteProcess("rank_zygote.py", [framework, *sorted(files)], item.config.rootpath)
    return zygotes[framework]


def _merge(answers: Dict[int, Any], allow_warnings: bool) -> Tuple[str, str]:
    """One outcome of all ranks' reports, and the text of those ranks that say something."""
    texts: List[str] = []
    skips: Dict[int, str] = {}
    for rank, reports in sorted(answers.items()):
        if isinstance(reports, str):
            texts.append(f"rank {rank}: {reports}")
            continue
        for data in reports:
            report = pytest.TestReport._from_json(data)
            if report.failed:
                texts.append(f"---- rank {rank}, {report.when} ----\n{report.longreprtext}\n{_printed(report)}")
            elif report.skipped:
                skips[rank] = report.longreprtext
            elif not allow_warnings and report.when == "teardown" and "[ronde rank " in report.capstderr:
                texts.append(f"---- rank {rank}: a warning that the test does not expect ----\n{report.capstderr}")
    if texts:
        return "failed", "\n".join(texts)
    if skips and len(skips) < len(answers):
        return "failed", f"rank {sorted(skips)} skipped the test, others ran it: {skips}"
    return ("skipped", next(iter(skips.values()))) if skips else ("passed", "")


def _printed(report: pytest.TestReport) -> str:
    return "\n".join(f"-- {title} --\n{content}" for title, content in report.sections)


def _reports(item: pytest.Item, outcome: str, text: str, began: float, seconds: float) -> List[pytest.TestReport]:
    def report(when: str, result: str, longrepr: Any, duration: float) -> pytest.TestReport:
        return pytest.TestReport(
            nodeid=item.nodeid,
            location=item.location,
            keywords={name: 1 for name in item.keywords},
            outcome=result,  # type: ignore[arg-type]
            longrepr=longrepr,
            when=when,  # type: ignore[arg-type]
            duration=duration,
            start=began,
            stop=began + duration,
        )

    longrepr: Any = None
    if outcome == "failed":
        longrepr = text
    elif outcome == "skipped":
        longrepr = (str(item.path), 0, text)
    return [
        report("setup", "passed", None, 0.0),
        report("call", outcome, longrepr, seconds),
        report("teardown", "passed", None, 0.0),
    ]


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Ends the last pool and its zygote; workers that do not end in order fail the session."""
    for pool in session.config.stash[_POOLS].values():
        problem = pool.quit(whole=False)
        if problem is not None:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
            print(f"\nERROR: {problem}")
    session.config.stash[_POOLS].clear()
    for zygote in session.config.stash[_ZYGOTES].values():
        zygote.quit()


@pytest.fixture
def job_folder(tmp_path: Path) -> Iterator[Path]:
    """A folder for what a job of the test's own writes."""
    yield tmp_path
