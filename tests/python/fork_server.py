"""Forks processes on demand from one that has loaded what takes long, as fork servers do.

A *stand-in*, started where the process is wanted (rank_stand_in.py), hands over its environment, folder, standard input
and output, and waits; the fork takes them, and its exit code becomes the stand-in's. It meets its job like any other
process and ends like any other. What is not as in a process of its own: all share the seed of Python's hashes.
"""

from __future__ import annotations

import array
import ctypes
import gc
import json
import os
import random
import selectors
import signal
import socket
from typing import Dict, List, NamedTuple, Optional

_PR_SET_PDEATHSIG = 1


class Task(NamedTuple):
    """What a fork is for."""

    words: List[str]
    standard: List[int]  # descriptors of the stand-in's standard input, output and error


class ForkServer:
    """Listens for stand-ins until the session ends."""

    def __init__(self, listener: socket.socket, session_ends: int) -> None:
        self._listener = listener
        self._session_ends = session_ends  # a descriptor: readable at its end
        self._asking: Dict[int, socket.socket] = {}  # by the process that was forked for it

    def serve(self) -> Optional[Task]:
        """Forks when asked. Returns in each fork, with its task, and at the end of the session, with None."""
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
                        return None
                    if key.fileobj == wake:
                        os.read(wake, 4096)
                        self._reap(selector)
                    elif key.fileobj is self._listener:
                        asking, _ = self._listener.accept()
                        task = self._fork_for(asking)
                        if task is not None:
                            selector.close()
                            os.close(wake)
                            os.close(wakes)
                            return task
                        selector.register(asking, selectors.EVENT_READ)
                    elif key.fileobj in self._asking.values():
                        self._kill_forks_of(key.fileobj)  # the stand-in has ended

    def _fork_for(self, asking: socket.socket) -> Optional[Task]:
        """The task in the fork, which then is what the stand-in would have been."""
        message, descriptors = _receive(asking)
        parent = os.getpid()
        pid = os.fork()
        if pid != 0:
            for descriptor in descriptors:
                os.close(descriptor)
            self._asking[pid] = asking
            return None
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
        os.environ.clear()
        os.environ.update(message["environment"])
        os.chdir(message["folder"])
        random.seed()
        return Task(message["task"], descriptors)

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


def take_over(standard: List[int]) -> None:
    """Makes the descriptors of a task this process's standard input, output and error."""
    for number, descriptor in enumerate(standard):
        os.dup2(descriptor, number)
        os.close(descriptor)
