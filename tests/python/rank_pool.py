"""N worker processes under `ronde run` that run tests together, as the parent of the session sees them."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Dict, List, Optional, Sequence

from launching import launcher
from zygote_process import STAND_IN, ZygoteProcess

#: How long PyTorch and the tests may take to load and workers to meet, in seconds.
_START_LIMIT_S = 120.0
#: How long they may take to write their stacks.
_STACKS_LIMIT_S = 20.0
#: How long they may take to leave in order. Only what hangs takes longer: stages of the tests run beside each other.
_END_LIMIT_S = 180.0


class PoolFailure(Exception):
    """The pool is of no use any more: a rank was silent or has ended. The text says which, with the log's end."""


def _told_by(rank: int, answer: Any) -> str:
    """What went wrong on a rank that has answered, and is most likely why others wait; empty if nothing has."""
    reports = answer if isinstance(answer, list) else []
    failed = [report for report in reports if report.get("outcome") == "failed"]
    texts = [str(report.get("longrepr", {})["reprcrash"]["message"]) for report in failed if _has_crash(report)]
    return f"; rank {rank} failed: {' / '.join(texts)}" if texts else ""


def _has_crash(report: Dict[str, Any]) -> bool:
    long = report.get("longrepr")
    return isinstance(long, dict) and isinstance(long.get("reprcrash"), dict)


class RankPool:
    """The workers of one world size. They run one test after the other; between two tests all of them have reported,
    which is the barrier before and after each."""

    def __init__(self, ranks: int, zygote: ZygoteProcess, config_root: Path) -> None:
        self._zygote = zygote
        self.ranks = ranks
        self._folder = Path(tempfile.mkdtemp(prefix="ronde-pytest-"))
        self._log = self._folder / "log"
        self._log_seen = 0
        self._connections: Dict[int, Connection] = {}
        self._pids: Dict[int, int] = {}
        address = str(self._folder / "socket")
        with socket.socket(socket.AF_UNIX) as listener, open(self._log, "wb") as log:
            listener.bind(address)
            listener.listen(ranks)
            self._process = subprocess.Popen(
                [launcher(), "run", "-n", str(ranks), "--", sys.executable, STAND_IN, zygote.address, address],
                cwd=config_root,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                self._meet(listener)
            except BaseException:
                self.kill()
                raise

    def _meet(self, listener: socket.socket) -> None:
        until = time.monotonic() + _START_LIMIT_S
        listener.settimeout(0.2)
        while len(self._connections) < self.ranks:
            try:
                accepted, _ = listener.accept()
            except socket.timeout:
                if self._process.poll() is not None or time.monotonic() > until:
                    raise PoolFailure(self._say("workers did not start") + self._zygote.say()) from None
                continue
            connection = Connection(accepted.detach())
            rank, pid = connection.recv()
            self._connections[rank] = connection
            self._pids[rank] = pid
        for rank, answer in self._answers(until - time.monotonic(), "to start").items():
            if answer != "ready":
                raise PoolFailure(self._say(f"rank {rank} could not start: {answer}"))

    def run(self, node: str, limit_s: float) -> Dict[int, List[Dict[str, Any]]]:
        """Runs one test on all ranks; each rank's reports. PoolFailure if one is silent until the limit, or ends."""
        for rank, connection in self._connections.items():
            try:
                connection.send(("run", node))
            except OSError:
                raise PoolFailure(self._say(f"rank {rank} has ended before the test")) from None
        return self._answers(limit_s, f"to run {node}")

    def _answers(self, limit_s: float, what: str) -> Dict[int, Any]:
        answers: Dict[int, Any] = {}
        ended: List[int] = []
        until = time.monotonic() + limit_s
        rank_of = {connection: rank for rank, connection in self._connections.items()}
        while len(answers) + len(ended) < self.ranks and not ended:
            ready = wait([c for c, rank in rank_of.items() if rank not in answers], max(0.0, until - time.monotonic()))
            if not ready:
                silent = sorted(set(self._connections) - set(answers))
                self._ask_for_stacks(silent)
                told = "".join(_told_by(rank, answer) for rank, answer in sorted(answers.items()))
                raise PoolFailure(self._say(f"no answer from rank {silent} within {limit_s:.0f} s, asked {what}" + told))
            for connection in ready:
                assert isinstance(connection, Connection)
                try:
                    answers[rank_of[connection]] = connection.recv()
                except (EOFError, OSError):
                    ended.append(rank_of[connection])
        if ended:
            raise PoolFailure(self._say(f"rank {ended} has ended, asked {what}"))
        return answers

    def _ask_for_stacks(self, ranks: Sequence[int]) -> None:
        """faulthandler in the workers answers SIGABRT with every thread's stack, in the log; then they end."""
        for rank in ranks:
            try:
                os.kill(self._pids[rank], signal.SIGABRT)
            except ProcessLookupError:
                pass
        until = time.monotonic() + _STACKS_LIMIT_S
        for rank in ranks:
            self._wait_for_end(rank, until)

    def _wait_for_end(self, rank: int, until: float) -> None:
        """Until the connection of the worker is at its end: what it still has to say is dropped."""
        connection = self._connections[rank]
        try:
            while wait([connection], max(0.0, until - time.monotonic())):
                connection.recv_bytes()
        except (EOFError, OSError):
            pass

    def _say(self, what: str) -> str:
        tail = self._log.read_text(errors="replace").splitlines()[-80:]
        return f"{what}. The end of the workers' log:\n" + "\n".join(tail)

    def quit(self, whole: bool) -> Optional[str]:
        """Ends the workers in order; None, or what was wrong with that. ``whole``: the way that any program of Python
        ends. Else what is registered for the end is run, and the objects of hundreds of tests are left to the kernel:
        to take them apart one by one has cost seconds, on a busy machine tens of them."""
        for connection in self._connections.values():
            try:
                connection.send(("quit", "whole" if whole else "short"))
            except OSError:
                pass
        try:
            code = self._process.wait(timeout=_END_LIMIT_S)
        except subprocess.TimeoutExpired:
            left = [str(rank) for rank, pid in sorted(self._pids.items()) if os.path.exists(f"/proc/{pid}")]
            self._ask_for_stacks(sorted(self._connections))
            problem: Optional[str] = self._say(
                f"the {self.ranks} workers did not end within {_END_LIMIT_S:.0f} s "
                f"(still there: {', '.join(left) or 'none, only the launcher'})"
            )
        else:
            problem = None if code == 0 else self._say(f"the {self.ranks} workers ended with code {code}")
        self.kill()
        return problem

    def kill(self) -> None:
        """Ends the workers at once: the launcher's guardian ends what the launcher leaves."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for connection in self._connections.values():
            connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)
