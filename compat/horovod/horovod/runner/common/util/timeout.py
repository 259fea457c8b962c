"""A limit of time for something that takes several steps."""

from __future__ import annotations

import time


class TimeoutException(Exception):
    """The time is up; ``message`` says for what."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Timeout:
    """So many seconds from now on."""

    def __init__(self, timeout: float, message: str) -> None:
        """``message``: of the exception; ``{activity}`` in it is replaced by what took too long."""
        self._timeout = timeout
        self._until = time.monotonic() + timeout
        self._message = message

    def remaining(self) -> float:
        """The seconds that are left; 0 when none are."""
        return max(0.0, self._until - time.monotonic())

    def timed_out(self) -> bool:
        """Whether none are left."""
        return time.monotonic() > self._until

    def check_time_out_for(self, activity: str) -> None:
        """Raises TimeoutException if none are left."""
        if self.timed_out():
            text = self._message.format(activity=activity).rstrip()
            dot = "" if text.endswith(".") else "."
            raise TimeoutException(f"{text}{dot} Timeout after {self._timeout} seconds.")
