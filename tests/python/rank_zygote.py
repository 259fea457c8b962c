"""The process that the ranks of the pools are forked from: it loads PyTorch and collects the tests, both once.

That is four seconds of a processor per rank saved. A fork of it becomes the rank that a *stand-in* started by
`ronde run` asks for (rank_stand_in.py): with the stand-in's environment, folder and output. It meets its job like any
other process, ends like any other (the interpreter ends in order), and its exit code becomes the stand-in's. What is
not as in a process of its own: ranks share the seed of Python's hashes. Tests of whole jobs (launching.py) start real ones.

Called as rank_zygote.py LISTENER FILE... where LISTENER is the descriptor of a listening Unix socket. Ends, with all
ranks, once its standard input is closed, so that it cannot survive the session that started it.
"""

from __future__ import annotations

import array
import ctypes
import faulthandler
import gc
import json
import os
import random
import selectors
import signal
import socket
import sys
from typing import Dict, NoReturn, Optional

import pytest

from rank_worker import Worker

_PR_SET_PDEATHSIG = 1


class Zygote:
    """Takes the place of pytest's own loop over the collected tests; in a fork, becomes a rank's."""

    def __init__(self, listener: socket.socket, session_ends: int) -> None:
        self._listener = listener
        self._session_ends = session_ends  # a descriptor: readable at its end
        self._asking: Dict[int, socket.socket] = {}  # by the process that was forked for it
        self._worker: Optional[Worker] = None

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Forks when asked; returns in the forks when their work is done, in the zygote when the session is."""
        gc.freeze()  # what is there is not looked at again: pages stay common
        wake, wakes = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        signal.set_wakeup_fd(wakes)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # so that the wake-up is written
        with selectors.DefaultSelector() as selector:
            for ready in (self._session_ends, wake, self._listener):
                selector.register(ready, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    if key.fileobj == self._session_ends:
                        self._end_all()
                        return True
                    if key.fileobj == wake:
                        os.read(wake, 4096)
                        self._reap(selector)
                    elif key.fileobj is self._listener:
                        asking, _ = self._listener.accept()
                        if self._fork_for(asking):
                            selector.close()
                            os.close(wake)
                            os.close(wakes)
                            return self._be_a_rank(session)
                        selector.register(asking, selectors.EVENT_READ)
                    elif key.fileobj in self._asking.values():
                        self._kill_forks_of(key.fileobj)  # the stand-in has ended

    def _fork_for(self, asking: socket.socket) -> bool:
        """True in the fork, which then is what the stand-in would have been."""
        message, descriptors = _receive(asking)
        parent = os.getpid()
        pid = os.fork()
        if pid != 0:
            for descriptor in descriptors:
                os.close(descriptor)
            self._asking[pid] = asking
            return False
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        asking.close()
        self._listener.close()
        os.close(self._session_ends)
        for other in self._asking.values():
            other.close()
        self._asking.clear()
        for number, descriptor in enumerate(descriptors):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.environ.clear()
        os.environ.update(message["environment"])
        os.chdir(message["folder"])
        random.seed()
        self._worker = Worker(message["pool"])
        return True

    def _be_a_rank(self, session: pytest.Session) -> bool:
        assert self._worker is not None
        capture = session.config.pluginmanager.getplugin("capturemanager")
        # The zygote's files for what is printed are all its forks'.
        capture.stop_global_capturing()
        capture.start_global_capturing()
        capture.suspend_global_capture(in_=True)
        session.config.pluginmanager.register(self._worker)
        self._worker.run(session)
        return True

    def _reap(self, selector: selectors.BaseSelector) -> None:
        for pid in list(self._asking):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended == 0:
                continue
            asking = self._asking.pop(pid)
            selector.unregister(asking)
            try:
                asking.sendall(b"%d" % os.waitstatus_to_exitcode(status))
            except OSError:
                pass  # the stand-in was killed
            asking.close()

    def _kill_forks_of(self, asking: object) -> None:
        """They are reaped, and the connection closed, when the kernel tells that they have ended."""
        for pid, connection in self._asking.items():
            if connection is asking:
                os.kill(pid, signal.SIGKILL)

    def _end_all(self) -> None:
        for pid in self._asking:
            os.kill(pid, signal.SIGKILL)
        for pid in self._asking:
            os.waitpid(pid, 0)


def _receive(asking: socket.socket) -> tuple[dict, list[int]]:
    """A line of JSON with three descriptors: the stand-in's standard input, output and error."""
    descriptors = array.array("i")
    data, ancillary, _, _ = asking.recvmsg(1 << 20, socket.CMSG_SPACE(3 * descriptors.itemsize))
    for _, _, content in ancillary:
        descriptors.frombytes(content)
    while not data.endswith(b"\n"):
        more = asking.recv(1 << 20)
        if not more:
            break
        data += more
    return json.loads(data), list(descriptors)


def main() -> NoReturn:
    """Loads what all ranks need and hands over to pytest."""
    faulthandler.enable(all_threads=True)
    descriptor, *files = sys.argv[1:]
    os.environ["RONDE_TEST_WORKER"] = "1"

    import ronde.torch  # noqa: F401  loaded, not initialised
    import torch
    import torch._dynamo  # noqa: F401  which every optimizer loads, and takes as long as the rest

    torch.set_num_threads(1)
    # Standard input is pytest's to replace.
    zygote = Zygote(socket.socket(fileno=int(descriptor)), os.dup(0))
    code = pytest.main([*files, "-q", "-p", "no:cacheprovider", "-p", "no:faulthandler"], plugins=[zygote])
    # A failing test is the parent's to tell, not a failure of the worker.
    sys.exit(0 if code in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED) else int(code))


main()
