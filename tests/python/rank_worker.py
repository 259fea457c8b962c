"""One rank of a pool: runs those of the collected tests that the parent names, one by one."""

from __future__ import annotations

import atexit
import os
import socket
import sys
from multiprocessing.connection import Connection
from typing import Any, Dict, List, NoReturn

import pytest


class Worker:
    """Talks to the pool of the parent (rank_pool.py). A plugin of pytest for the reports' sake."""

    def __init__(self, address: str) -> None:
        client = socket.socket(socket.AF_UNIX)
        client.connect(address)
        self._connection = Connection(client.detach())
        self._connection.send((int(os.environ["RONDE_RANK"]), os.getpid()))
        self._reports: List[Dict[str, Any]] = []

    def run(self, session: pytest.Session) -> None:
        """Runs what the parent asks for until it says quit or goes."""
        import ronde.torch as hvd

        items = {item.nodeid: item for item in session.items}
        try:
            hvd.init()
        except Exception as error:
            self._connection.send(repr(error))
            return
        self._connection.send("ready")
        while True:
            try:
                command, node = self._connection.recv()
            except EOFError:
                return
            if command == "quit":
                if node == "short":
                    _leave()
                return
            self._reports = []
            item = items.get(node)
            if item is None:
                self._connection.send(f"this rank has not collected {node}")
                continue
            item.ihook.pytest_runtest_protocol(item=item, nextitem=None)
            self._connection.send(self._reports)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keeps the outcome of a phase for the parent."""
        self._reports.append(report._to_json())


def _leave() -> NoReturn:
    """What is registered for the end of the process is run; what Python holds is not taken apart."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
