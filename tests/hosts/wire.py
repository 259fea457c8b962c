"""A wire between two interfaces that delays frames, changes their order and delivers some of them twice, for kernels without
netem: ``wire.py ONE OTHER DELAY_MS JITTER_MS REORDERED_PERCENT TWICE_PERCENT``.

What comes in at one interface goes out at the other after the delay and up to the jitter more; frames keep their order
but for those that are reordered: they wait REORDER_S longer, so that later ones come before them. It says "ready" when it works,
and ends with its standard input. Frames must be no larger than the interfaces take, with their checksums in them
(``ethtool -K ... tso off gso off gro off tx off``).
"""

from __future__ import annotations

import heapq
import random
import select
import socket
import sys
import time
from typing import List, Tuple

_EVERY_PROTOCOL = 0x0003  # ETH_P_ALL
_OUTGOING = 4  # PACKET_OUTGOING: what this program has sent itself
_MOST_BYTES = 1 << 16
_ROOM = 8 << 20  # of a socket: what comes while this program does not run

#: How much longer a frame waits that is to come after later ones, in seconds.
REORDER_S = 0.003


def packet_socket(interface: str) -> socket.socket:
    made = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(_EVERY_PROTOCOL))
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _ROOM)
    made.bind((interface, 0))
    made.setblocking(False)
    return made


class Wire:
    """Both directions."""

    def __init__(self, one: str, other: str, delay_s: float, jitter_s: float, reordered: float, twice: float) -> None:
        self._sockets = [packet_socket(one), packet_socket(other)]
        self._delay_s, self._jitter_s, self._reordered, self._twice = delay_s, jitter_s, reordered, twice
        self._random = random.Random(1)
        self._last_due = [0.0, 0.0]  # by direction
        self._number = 0
        self._frames: List[Tuple[float, int, int, bytes]] = []  # when, in which order, to which socket, what

    def run(self) -> None:
        """Until standard input ends."""
        print("ready", flush=True)
        while True:
            left = max(0.0, self._frames[0][0] - time.monotonic()) if self._frames else None
            readable, _, _ = select.select([*self._sockets, sys.stdin], [], [], left)
            if sys.stdin in readable:
                return
            for index, each in enumerate(self._sockets):
                if each in readable:
                    self._take(each, 1 - index)
            self._deliver()

    def _take(self, source: socket.socket, target: int) -> None:
        for _ in range(64):  # then it looks whether something is due
            try:
                frame, about = source.recvfrom(_MOST_BYTES)
            except BlockingIOError:
                return
            if about[2] == _OUTGOING:
                continue
            due = time.monotonic() + self._delay_s + self._random.random() * self._jitter_s
            due = max(due, self._last_due[target])
            self._last_due[target] = due
            if self._random.random() < self._reordered:
                due += REORDER_S
            self._keep(due, target, frame)
            if self._random.random() < self._twice:
                self._keep(due + self._random.random() * REORDER_S, target, frame)

    def _keep(self, due: float, target: int, frame: bytes) -> None:
        self._number += 1
        heapq.heappush(self._frames, (due, self._number, target, frame))

    def _deliver(self) -> None:
        now = time.monotonic()
        while self._frames and self._frames[0][0] <= now:
            _, _, target, frame = heapq.heappop(self._frames)
            try:
                self._sockets[target].send(frame)
            except OSError:  # full, or the interface is down: a wire loses such frames
                pass


def main(one: str, other: str, *numbers: str) -> None:
    delay_ms, jitter_ms, reordered, twice = map(float, numbers)
    Wire(one, other, delay_ms / 1e3, jitter_ms / 1e3, reordered / 100, twice / 100).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
