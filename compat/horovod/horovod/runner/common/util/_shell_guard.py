"""Runs a shell command in a session of its own, and ends all of that when told, or when who has started it ends.

Called as _shell_guard.py FD SECONDS COMMAND; FD is the reading end of a pipe. When the other end closes, the session gets
SIGTERM, and SIGKILL so many seconds later. Ends as the command does, with 128 + N where signal N ended it.
"""

import contextlib
import os
import select
import signal
import subprocess
import sys


def _signal(session: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(session, number)


def _run(told: int, grace_s: float, command: str) -> int:
    shell = subprocess.Popen(command, shell=True, start_new_session=True, close_fds=True)
    ended = os.pidfd_open(shell.pid)
    ready, _, _ = select.select([told, ended], [], [])
    if ended not in ready:
        _signal(shell.pid, signal.SIGTERM)
        select.select([ended], [], [], grace_s)
        _signal(shell.pid, signal.SIGKILL)
    code = shell.wait()
    return code if code >= 0 else 128 - code


sys.exit(_run(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]))
