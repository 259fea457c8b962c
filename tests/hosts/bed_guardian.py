"""Pid 1 of a bed's outermost pid namespace, in whose network namespace the switch is: ``bed_guardian.py PIDFD FOLDER``.

It ends once the process behind PIDFD has ended, whatever ended that, or its own standard input has: with it the kernel ends
every process of the bed, and then there is nobody left to keep the bed's namespaces. It removes the bed's folder before.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time


def main(pidfd: int, folder: str) -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps orphans then
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    poll.register(0, select.POLLIN | select.POLLHUP)
    print("ready", flush=True)
    poll.poll()
    try:
        os.kill(-1, signal.SIGKILL)  # all of the namespace but this process
    except ProcessLookupError:
        pass
    for _ in range(50):  # who is being killed may still write
        shutil.rmtree(folder, ignore_errors=True)
        if not os.path.exists(folder):
            break
        time.sleep(0.02)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
