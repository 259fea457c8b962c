"""The process that the ranks of the pools are forked from: it loads PyTorch and collects the tests, both once.

That is four seconds of a processor per rank saved, and as many again where the tests use TensorFlow. A fork of it becomes
the rank that a stand-in started by `ronde run` asks for (fork_server.py).

Called as rank_zygote.py LISTENER FRAMEWORK FILE... where LISTENER is the descriptor of a listening Unix socket, FRAMEWORK
what is loaded besides, tensorflow or none. Ends, with all ranks, once its standard input is closed, so that it cannot
survive the session that started it.
"""

from __future__ import annotations

import faulthandler
import os
import socket
import sys
from typing import NoReturn, Optional

import pytest

from fork_server import ForkServer, take_over
from rank_worker import Worker


class Zygote:
    """Takes the place of pytest's own loop over the collected tests; in a fork, becomes a rank's."""

    def __init__(self, server: ForkServer) -> None:
        self._server = server
        self._worker: Optional[Worker] = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Returns in the forks when their work is done, in the zygote when the session is."""
        task = self._server.serve()
        if task is not None:
            take_over(task.standard)
            self._worker = Worker(*task.words)
            self._be_a_rank(session)
        return True

    def _be_a_rank(self, session: pytest.Session) -> None:
        assert self._worker is not None
        capture = session.config.pluginmanager.getplugin("capturemanager")
        # The zygote's files for what is printed are all its forks'.
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=True)
        session.config.pluginmanager.register(self._worker)
        self._worker.run(session)


def main() -> NoReturn:
    """Loads what all ranks need and hands over to pytest."""
    faulthandler.enable(all_threads=True)
    descriptor, framework, *files = sys.argv[1:]
    os.environ["RONDE_TEST_WORKER"] = "1"

    import ronde.torch  # noqa: F401  loaded, not initialised
    import torch
    import torch._dynamo  # noqa: F401  which every optimizer loads, and takes as long as the rest

    torch.set_num_threads(1)
    if framework == "tensorflow":
        # TensorFlow has no threads before its first operation: none is lost by forking.
        os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
        import ronde.tensorflow  # noqa: F401
    # Standard input is pytest's to replace.
    zygote = Zygote(ForkServer(socket.socket(fileno=int(descriptor)), os.dup(0)))
    code = pytest.main([*files, "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"], plugins=[zygote])
    # A failing test is the parent's to tell, not a failure of the worker.
    sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code))


main()
