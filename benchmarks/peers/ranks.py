"""A rank of a Python program that is measured: its place, the start line that the ranks share, and medians.

The start line is the one of `ronde bench` (src/cli/measuring/timing/start_line.h) in Python: a line of shared memory for each
rank, in which it counts its arrivals and leaves its time. A look at another's line costs a tenth of a microsecond here,
so ranks leave it up to a microsecond apart; what is timed in Python takes several.
"""

from __future__ import annotations

import mmap
import os
import statistics
import time
from pathlib import Path

LINE_WORDS = 16  # 128 bytes
MOST_RANKS = 64
MEET_LIMIT_S = 120


class Rank:
    def __init__(self):
        self.rank = int(os.environ.get("PEER_BENCH_RANK") or os.environ["RONDE_RANK"])
        self.size = int(os.environ.get("PEER_BENCH_SIZE") or os.environ["RONDE_SIZE"])
        with open(os.environ["PEER_BENCH_LINE"], "r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 2 * MOST_RANKS * LINE_WORDS * 8)
        self._words = memoryview(self._memory).cast("Q")
        self._seconds = memoryview(self._memory).cast("B").cast("d")
        self._may_spin = self.size <= int(os.environ["PEER_BENCH_CORES"])
        self._round = 0

    def meet(self):
        """Returns when all ranks have called it as often as this one."""
        self._round += 1
        words, arrived = self._words, self._round
        words[self.rank * LINE_WORDS] = arrived
        spins = 20000 if self._may_spin else 0
        deadline = time.monotonic() + MEET_LIMIT_S
        for rank in range(self.size):
            while words[rank * LINE_WORDS] < arrived:
                if spins > 0:
                    spins -= 1
                    continue
                os.sched_yield()
                if time.monotonic() > deadline:
                    raise TimeoutError(f"rank {rank} did not come to the start line within {MEET_LIMIT_S} s")

    def stay_on_own_core(self):
        """After joining: keeps this thread on a core of its own if there is one for each rank, as ronde bench does."""
        cores = sorted(os.sched_getaffinity(0))
        if self.size <= len(cores):
            os.sched_setaffinity(0, {cores[self.rank]})

    def slowest(self, seconds: float) -> float:
        """The longest of what all ranks give; collective."""
        return max(self.everyone(seconds))

    def everyone(self, value: float) -> list[float]:
        """What each rank gives; collective."""
        self._seconds[self.rank * LINE_WORDS + 1] = value
        self.meet()
        values = [self._seconds[rank * LINE_WORDS + 1] for rank in range(self.size)]
        self.meet()
        return values

    def timed(self, call) -> float:
        """Seconds of the slowest rank's call, all having begun together."""
        self.meet()
        begin = time.perf_counter()
        call()
        return self.slowest(time.perf_counter() - begin)

    def rank0_says(self, value: bool) -> bool:
        return self.everyone(float(value))[0] != 0


def summary(seconds: list[float]) -> dict:
    """The fields of a JSON line, in microseconds."""
    ordered = sorted(seconds)
    p99 = ordered[(99 * len(ordered) + 99) // 100 - 1]
    return {
        "calls": len(ordered),
        "min_us": round(ordered[0] * 1e6, 3),
        "median_us": round(statistics.median(ordered) * 1e6, 3),
        "p99_us": round(p99 * 1e6, 3),
    }


def join_torch_gloo(place: Rank):
    """torch.distributed on Gloo over the loopback interface; the ranks meet in a file."""
    import torch.distributed as dist

    os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    store = Path(os.environ["PEER_BENCH_KVS"])
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=place.rank, world_size=place.size)
    return dist
