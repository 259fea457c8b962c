"""The shared buffers that a test has made. Those of tests before it may still be alive, and go while it looks."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
import weakref
from typing import Any, Callable, Iterator, List

from ronde import _shared_buffer


class MadeBuckets:
    """Those made while :func:`made_buckets` was entered."""

    def __init__(self) -> None:
        self._made: List["weakref.ref[Any]"] = []

    def watched(self, allocate: Callable[..., Any]) -> Callable[..., Any]:
        """``allocate``, which then tells of what it makes."""

        def allocate_and_tell(*arguments: Any) -> Any:
            memory = allocate(*arguments)
            self._made.append(weakref.ref(memory))
            return memory

        return allocate_and_tell

    def count(self) -> int:
        """How many were ever made."""
        return len(self._made)

    def alive(self) -> List[Any]:
        """Those that somebody refers to, as ctypes arrays."""
        gc.collect()  # DDP lies in cycles
        return [memory for memory in (each() for each in self._made) if memory is not None]

    def addresses(self) -> List[int]:
        """Where they lie."""
        return [ctypes.addressof(memory) for memory in self.alive()]

    def n_bytes(self) -> int:
        """Of those that are alive."""
        return sum(ctypes.sizeof(memory) for memory in self.alive())

    def assert_falls_to(self, expected: int) -> None:
        """Within 10 s so many bytes are left: the thread that completes futures lets go of the last ones a bit later."""
        until = time.monotonic() + 10
        while self.n_bytes() > expected and time.monotonic() < until:
            time.sleep(0.001)
        assert self.n_bytes() == expected


@contextlib.contextmanager
def made_buckets() -> Iterator[MadeBuckets]:
    """While it is entered, all buckets that are made are known."""
    made, allocate = MadeBuckets(), _shared_buffer.allocate
    _shared_buffer.allocate = made.watched(allocate)
    try:
        yield made
    finally:
        _shared_buffer.allocate = allocate
