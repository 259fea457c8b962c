"""A rank's process, and the task that has started it.

Run as ``python _rank_process.py FROM TO TOLD PARENT``: two descriptors, from which the rank reads what it is to call and to
which it writes what came of it; one to which its guard writes (:mod:`ronde.spark._guard`); and the process whose child the
guard is.
"""

from __future__ import annotations

import os
import pickle
import struct
import subprocess
import sys
import threading
from types import TracebackType
from typing import Any, BinaryIO, Dict, List, Optional, Type, Union

from ronde._schedulers.failures import Failure, cause_of_status, failure_of
from ronde._schedulers.places import Seat
from ronde.spark._guard import become_guarded, told_by_guard

_LENGTH = struct.Struct("<Q")

#: How long a process may take to be gone once it was told to end or was killed, in seconds; more than the guard's own limit.
_END_LIMIT_S = 10.0


class RankProcess:
    """A process that calls a function as a rank. After ``with`` it and all that it has started are gone, and also where this
    process is killed before."""

    def __init__(self, call: bytes, variables: Dict[str, str], executable: Optional[str], seat: Seat, host: str) -> None:
        """``call``: function and arguments, pickled. ``seat``: who the rank is. Raises OSError if it cannot be started."""
        self._seat = seat
        self._host = host
        request = pickle.dumps(([os.path.abspath(entry) for entry in sys.path], call, tuple(seat), host))
        theirs, self._to = os.pipe()
        self._from, answers = os.pipe()
        self._told_from, told = os.pipe()
        try:
            self._guard = subprocess.Popen(
                [executable or sys.executable, __file__, str(theirs), str(answers), str(told), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                env={**os.environ, **variables},
                pass_fds=(theirs, answers, told),
                start_new_session=True,
            )
        except BaseException:
            for descriptor in (self._to, self._from, self._told_from):
                os.close(descriptor)
            raise
        finally:
            for descriptor in (theirs, answers, told):
                os.close(descriptor)
        # A pipe holds less than a request or an answer may weigh, and a rank may end before it has read or written all.
        self._answer: Optional[bytes] = None
        self._told: Optional[bytes] = None
        self._threads = [
            threading.Thread(target=_write, args=(self._to, request), name="ronde-request", daemon=True),
            threading.Thread(target=self._receive, name="ronde-answer", daemon=True),
        ]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> "RankProcess":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._end()

    def outcome(self) -> Union[bytes, Failure]:
        """The pickled result, or why there is none. Returns when the process has ended, so that it has left the job; how long a
        function may take is its own matter."""
        os.waitid(os.P_PID, self._guard.pid, os.WEXITED | os.WNOWAIT)
        guards = self._end()
        pid, told = told_by_guard(self._told or b"")
        code = guards if told is None else told  # a guard that is killed takes the rank with it
        if self._answer is None:
            return self._failure(pid, cause_of_status(code))
        outcome = pickle.loads(self._answer)
        if isinstance(outcome, bytes) and code != 0:
            how = f"was killed by signal {-code}" if code < 0 else f"ended with code {code}"
            return self._failure(pid, f"{how} after its function had returned")
        assert isinstance(outcome, (bytes, Failure))
        return outcome

    def _failure(self, pid: Optional[int], cause: str) -> Failure:
        return Failure(self._seat.rank, self._seat.size, self._host, pid if pid is not None else self._guard.pid, cause)

    def _receive(self) -> None:
        with open(self._from, "rb") as answers:
            self._answer = _read(answers)

    def _end(self) -> int:
        """The guard's exit code."""
        if self._guard.returncode is None:
            self._guard.terminate()
            try:
                self._guard.wait(_END_LIMIT_S)
            except subprocess.TimeoutExpired:
                self._guard.kill()
        code = self._guard.wait(_END_LIMIT_S)
        for thread in self._threads:
            thread.join(_END_LIMIT_S)
        if self._told is None:
            with open(self._told_from, "rb") as told:
                self._told = told.read()
        return code


def _write(descriptor: int, data: bytes) -> None:
    try:
        with open(descriptor, "wb") as target:
            target.write(_LENGTH.pack(len(data)) + data)
    except BrokenPipeError:  # how the process has ended is told elsewhere
        pass


def _read(source: BinaryIO) -> Optional[bytes]:
    """None if it ends before all has come."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    data = source.read(length)
    return data if len(data) == length else None


def _outcome_of(call: bytes, seat: List[int], host: str) -> Any:
    try:
        from pyspark import cloudpickle

        function, args, kwargs = pickle.loads(call)
        return bytes(cloudpickle.dumps(function(*args, **kwargs)))
    except BaseException as error:  # sys.exit() too: the caller waits for a result
        return failure_of(error, seat[0], seat[1], host, os.getpid())


def main() -> int:
    """The rank's: the exit code is 0 if the function has returned, else 1."""
    source, target, told, parent = (int(word) for word in sys.argv[1:])
    become_guarded(parent, told)
    os.set_inheritable(target, False)  # the end of the pipe is this process's end, whatever it starts
    os.set_inheritable(source, False)
    with open(source, "rb") as requests:
        request = _read(requests)
    if request is None:
        return 1
    path, call, seat, host = pickle.loads(request)
    sys.path[:] = path  # the task's modules are found, this file's folder is not
    outcome = _outcome_of(call, seat, host)
    data = pickle.dumps(outcome)
    with open(target, "wb") as answers:
        answers.write(_LENGTH.pack(len(data)) + data)
    return 0 if isinstance(outcome, bytes) else 1


if __name__ == "__main__":
    sys.exit(main())
