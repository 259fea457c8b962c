"""How a process has ended that is nobody's child here: Linux tells it through a pidfd."""

from __future__ import annotations

import fcntl
import os
import select
import struct
import time
from typing import Optional

#: struct pidfd_info of linux/pidfd.h: mask, cgroupid, eleven ids, exit_code.
_INFO = struct.Struct("=QQ11Ii")
_PIDFD_GET_INFO = (3 << 30) | (_INFO.size << 16) | (0xFF << 8) | 11
_PIDFD_INFO_EXIT = 1 << 3

_LOOK_EVERY_S = 0.01


class WatchedProcess:
    """A process of this host, from now on. OSError if there is none, or the kernel is older than 5.3."""

    def __init__(self, pid: int) -> None:
        self._fd = os.pidfd_open(pid)

    def has_ended(self, limit_s: Optional[float]) -> bool:
        """Whether it has, within so many seconds; None: waits until it has."""
        looked = select.poll()  # the number of a descriptor may be above what select() takes
        looked.register(self._fd, select.POLLIN)
        return bool(looked.poll(None if limit_s is None else limit_s * 1000))

    def status(self) -> Optional[int]:
        """Of one that has ended: its exit code, or the number of the signal that has killed it, negative. None where the kernel
        does not tell: before Linux 6.15."""
        try:
            return self._asked()
        except OSError:
            return None

    def status_soon(self, limit_s: float) -> Optional[int]:
        """The same. Linux tells it when the parent has taken note of the end: for that this waits up to so many seconds."""
        until = time.monotonic() + limit_s
        try:
            while True:
                status = self._asked()
                if status is not None or time.monotonic() > until:
                    return status
                time.sleep(_LOOK_EVERY_S)  # no descriptor tells
        except OSError:  # the kernel will not tell
            return None

    def _asked(self) -> Optional[int]:
        data = bytearray(_INFO.size)
        _INFO.pack_into(data, 0, _PIDFD_INFO_EXIT, *[0] * 13)
        fcntl.ioctl(self._fd, _PIDFD_GET_INFO, data)
        values = _INFO.unpack(data)
        return os.waitstatus_to_exitcode(values[-1]) if values[0] & _PIDFD_INFO_EXIT else None

    def close(self) -> None:
        """No more questions. Raises nothing."""
        os.close(self._fd)
