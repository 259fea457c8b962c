"""PyTorch's own tests of ``torch.distributed``, which are inside its wheel, over a backend that is named.

The suite asks the name of the backend which tests there are and what they expect: it is loaded as if for Gloo, and for
any backend its tables answer as for Gloo. Each test has a process of its own, forked from one that has loaded PyTorch,
and that forks the ranks.
"""

from __future__ import annotations

import argparse
import collections
import io
import json
import os
import selectors
import signal
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Dict, List, NamedTuple, Sequence, Tuple

#: For one test, in seconds: first PyTorch's own, which ends with every rank's stack, then the harness's.
LIMIT_S = 45
_HARD_LIMIT_S = LIMIT_S + 20.0

os.environ["BACKEND"] = "gloo"
os.environ["WORLD_SIZE"] = next(iter(sys.argv[2:]), "2")  # which tests there are depends on it
os.environ["INIT_METHOD"] = "file:///set/for/each/test"
os.environ["DISTRIBUTED_TESTS_DEFAULT_TIMEOUT"] = str(LIMIT_S)

import ronde.torch  # noqa: E402, F401  loaded, not initialised
import torch  # noqa: E402
import torch._dynamo  # noqa: E402, F401  which every optimizer loads, and takes as long as the rest
import torch.multiprocessing  # noqa: E402
from torch.testing._internal import common_distributed  # noqa: E402

import on_the_host  # noqa: E402

_IS_ON_THE_HOST = "--on-the-host" in sys.argv
if _IS_ON_THE_HOST:
    on_the_host.ask_for_no_gpu()

from torch.testing._internal.distributed import distributed_test  # noqa: E402

_TABLES = (
    "PROFILING_SUPPORTED_BACKENDS",
    "CUDA_PROFILING_SUPPORTED_BACKENDS",
    "SEND_RECV_PROFILING_SUPPORTED_BACKENDS",
)

common_distributed.TIMEOUT_OVERRIDE.clear()
torch.set_num_threads(1)


class _Named(str):
    """A backend's name for the suite's own questions, which it answers as Gloo's does."""

    def __eq__(self, other: object) -> bool:
        return other == "gloo" or str.__eq__(self, other)

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = str.__hash__


class Result(NamedTuple):
    """Of one test."""

    outcome: str  # "passed", "failed" or "skipped"
    text: str  # why not passed
    seconds: float


class SuiteOfPyTorch(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):  # type: ignore[misc, name-defined]
    """The suite, as PyTorch's test_distributed_spawn.py makes it."""

    def setUp(self) -> None:
        super().setUp()
        self._start_processes(torch.multiprocessing.get_context("fork").Process)

    @classmethod
    def _run(cls, *arguments: Any, **settings: Any) -> None:
        if _IS_ON_THE_HOST:
            on_the_host.begin()
        super()._run(*arguments, **settings)


#: Which instance methods are meant is asked by pytest as well, which is not to collect the class itself.
SuiteOfPyTorch.__test__ = False  # type: ignore[attr-defined]


def names() -> List[str]:
    """Of all tests of the suite, those too that are skipped."""
    return unittest.TestLoader().getTestCaseNames(SuiteOfPyTorch)


def skip_reason(name: str) -> str:
    """Why the suite runs the test nowhere, as far as it says beforehand; otherwise empty. What is for MPI only is run:
    it asks for calls that Gloo lacks on the CPU, or lacked."""
    method = getattr(SuiteOfPyTorch, name)
    reason = str(method.__unittest_skip_why__) if getattr(method, "__unittest_skip__", False) else ""
    return "" if reason.startswith("Only MPI") else reason


def _answer_as_gloo(backend: str) -> None:
    distributed_test.BACKEND = _Named(backend)
    for table in _TABLES:
        getattr(distributed_test, table).append(backend)
    for backends in common_distributed.DistTestCases.backend_feature.values():
        if "gloo" in backends:
            backends.add(backend)


def _see_as_asynchronous(backend: str) -> None:
    """PyTorch has no way for Python to tell its profiler that a call is asynchronous (at::RecordFunction::_setAsync is in
    C++ only): the suite is told so of what is Ronde's. Names, sizes and counts are as the profiler has them."""
    event: Any = torch.autograd.profiler_util.FunctionEvent
    begin = event.__init__

    def init(self: Any, *arguments: Any, **settings: Any) -> None:
        begin(self, *arguments, **settings)
        if self.name.startswith(f"{backend}:"):
            self.is_async = True

    event.__init__ = init


def _run(name: str, backend: str, world: int) -> Tuple[str, str]:
    """In a process of the test's own."""
    os.environ["BACKEND"] = backend
    os.environ["WORLD_SIZE"] = str(world)
    distributed_test.INIT_METHOD = f"file://{tempfile.gettempdir()}/again"
    if backend != "gloo":
        _answer_as_gloo(backend)
        if "RONDE_SUITE_ASKS_ASYNC" not in os.environ:
            _see_as_asynchronous(backend)
    if not skip_reason(name):
        getattr(SuiteOfPyTorch, name).__unittest_skip__ = False
    result = unittest.TextTestRunner(stream=io.StringIO()).run(SuiteOfPyTorch(name))
    if result.skipped:
        return "skipped", result.skipped[0][1]
    problems = result.failures + result.errors
    return ("failed", "\n".join(text for _, text in problems)) if problems else ("passed", "")


class _Runner:
    """One test under way."""

    def __init__(self, name: str, backend: str, world: int, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._began = time.monotonic()
        self._until = self._began + _HARD_LIMIT_S
        self._pid = os.fork()
        if self._pid == 0:
            self._be(name, backend, world)
        self.ends = os.pidfd_open(self._pid)

    def _be(self, name: str, backend: str, world: int) -> None:
        try:
            os.setsid()
            log = os.open(self._folder / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            os.dup2(log, 1)
            os.dup2(log, 2)
            sys.stdout, sys.stderr = open(1, "w", closefd=False), open(2, "w", closefd=False)
            temporary = self._folder / "tmp"
            temporary.mkdir()
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
            (self._folder / "result").write_text(json.dumps(_run(name, backend, world)))
        finally:
            os._exit(0)

    def is_late(self) -> bool:
        return time.monotonic() > self._until

    def end(self) -> Result:
        """Whatever it has left behind in its session goes too."""
        try:
            os.killpg(self._pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        os.waitpid(self._pid, 0)
        os.close(self.ends)
        seconds = time.monotonic() - self._began
        result = self._folder / "result"
        printed = (self._folder / "log").read_text(errors="replace")[-20000:]
        if not result.exists():
            return Result("failed", f"no result after {seconds:.0f} s; printed:\n{printed}", seconds)
        outcome, text = json.loads(result.read_text())
        return Result(outcome, f"{text}\nprinted:\n{printed}" if outcome == "failed" else text, seconds)


def run(names: Sequence[str], backend: str, world: int, at_once: int) -> Dict[str, Result]:
    """Runs tests; returns how they went. Takes no longer than their limits allow. The calling process must have one
    thread only, and PyTorch must have been loaded for so many ranks."""
    waiting, runners, results = list(names)[::-1], {}, {}
    with tempfile.TemporaryDirectory(prefix="suite-") as folder, selectors.DefaultSelector() as selector:
        try:
            while waiting or runners:
                while waiting and len(runners) < at_once:
                    place = Path(folder, str(len(waiting)))
                    place.mkdir()
                    runner = _Runner(waiting.pop(), backend, world, place)
                    selector.register(runner.ends, selectors.EVENT_READ)
                    runners[runner.ends] = runner
                ready = {key.fd for key, _ in selector.select(timeout=1.0)}
                for descriptor in [fd for fd, each in runners.items() if fd in ready or each.is_late()]:
                    selector.unregister(descriptor)
                    runner = runners.pop(descriptor)
                    results[runner.name] = runner.end()
        finally:
            for runner in runners.values():
                runner.end()
    return results


def main() -> None:
    """suite.py BACKEND RANKS [NAME...]: tests by hand, all or some, and what they print when they fail."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("backend")
    parser.add_argument("ranks", type=int)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--at-once", type=int, default=3, help="so many tests")
    parser.add_argument("--on-the-host", action="store_true", help="those too that are for GPUs")
    parser.add_argument("--json", type=Path, help="where to write the results, by name: outcome, text, seconds")
    told = parser.parse_args()
    skipped = {name: Result("skipped", skip_reason(name), 0.0) for name in told.names or names() if skip_reason(name)}
    chosen = [name for name in told.names or names() if name not in skipped]
    results = {**run(chosen, told.backend, told.ranks, told.at_once), **skipped}
    if told.json:
        told.json.write_text(json.dumps(results))
        return
    for name, result in results.items():
        print(f"{result.outcome:<8} {result.seconds:6.1f} {name} {result.text}")
    counts = collections.Counter(result.outcome for result in results.values())
    print(", ".join(f"{counts[outcome]} {outcome}" for outcome in ("passed", "failed", "skipped")))


if __name__ == "__main__":
    main()
