"""One rank of a pool: collects the tests of some files and runs those that the parent names, one by one.

Called as rank_worker.py SOCKET FILE... under `ronde run`; see rank_pool.py.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from multiprocessing.connection import Connection
from typing import Any, Dict, List

import pytest


class Loop:
    """Takes the place of pytest's own loop over the collected tests."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._reports: List[Dict[str, Any]] = []

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Runs what the parent asks for until it says quit or goes."""
        import ronde.torch as hvd

        items = {item.nodeid: item for item in session.items}
        try:
            hvd.init()
        except Exception as error:
            self._connection.send(repr(error))
            return True
        self._connection.send("ready")
        while True:
            try:
                command, node = self._connection.recv()
            except EOFError:
                return True
            if command == "quit":
                return True
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


def main() -> None:
    """Meets the parent and hands over to pytest."""
    faulthandler.enable(all_threads=True)
    address, *files = sys.argv[1:]
    client = socket.socket(socket.AF_UNIX)
    client.connect(address)
    connection = Connection(client.detach())
    connection.send((int(os.environ["RONDE_RANK"]), os.getpid()))
    os.environ["RONDE_TEST_WORKER"] = "1"

    import torch

    torch.set_num_threads(1)
    code = pytest.main([*files, "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"], plugins=[Loop(connection)])
    # A failing test is the parent's to tell, not a failure of the worker.
    sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code))


main()
