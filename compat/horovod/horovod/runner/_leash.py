"""Becomes a command that is told to end (SIGTERM) when the process that started it ends, even by kill -9.

Called as _leash.py PID COMMAND...; PID is the process that starts it.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1

ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
if os.getppid() == int(sys.argv[1]):  # else it has ended before we could ask
    os.execv(sys.argv[2], sys.argv[2:])
