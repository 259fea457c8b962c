"""What Ronde costs when nothing is to be done: init and shutdown, a rank that waits, the import.

Through the C interface by ctypes, in the ranks of one job; prints JSON lines."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time

from ranks import Rank, summary

BARRIER = 10
WAIT_S = 1.0


class Request(ctypes.Structure):
    """ronde_request, as far as a barrier fills it."""

    _fields_ = [
        ("struct_size", ctypes.c_size_t), ("op", ctypes.c_int32), ("group", ctypes.c_int32), ("name", ctypes.c_char_p),
        ("name_bytes", ctypes.c_size_t), ("inputs", ctypes.c_void_p), ("outputs", ctypes.c_void_p),
        ("count", ctypes.c_size_t), ("reduce_op", ctypes.c_int32), ("root", ctypes.c_int32),
        ("prescale", ctypes.c_double), ("postscale", ctypes.c_double), ("timeout_s", ctypes.c_double),
        ("splits", ctypes.c_void_p), ("splits_count", ctypes.c_size_t), ("reserved", ctypes.c_int64),
        ("tag", ctypes.c_int32), ("call_site", ctypes.c_int32), ("on_done", ctypes.c_void_p), ("user", ctypes.c_void_p),
    ]


def checked(library, status):
    if status != 0:
        raise RuntimeError(library.ronde_last_error().decode())


def barrier(library):
    name = b"bench.idle"
    request = Request(struct_size=ctypes.sizeof(Request), op=BARRIER, name=name, name_bytes=len(name))
    checked(library, library.ronde_execute(None, ctypes.byref(request), ctypes.c_double(-1), None))


def import_seconds() -> float:
    """Of `import ronde`, the fastest of five new interpreters."""
    code = "import time; a = time.perf_counter(); import ronde; print(time.perf_counter() - a)"
    return min(float(subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, check=True).stdout)
               for _ in range(5))


def main():
    place = Rank()
    library = ctypes.CDLL(os.environ["RONDE_LIBRARY"])
    library.ronde_last_error.restype = ctypes.c_char_p

    def life():
        checked(library, library.ronde_init(None))
        checked(library, library.ronde_shutdown())

    lives = [place.timed(life) for _ in range(11)]
    checked(library, library.ronde_init(None))
    barrier(library)
    place.meet()
    before = time.process_time()
    if place.rank == place.size - 1:
        time.sleep(WAIT_S)
    barrier(library)
    shares = place.everyone((time.process_time() - before) / WAIT_S)
    checked(library, library.ronde_shutdown())
    if place.rank == 0:
        head = {"peer": "ronde", "ranks": place.size}
        print(json.dumps(head | {"op": "init_shutdown"} | summary(lives)))
        print(json.dumps(head | {"op": "waiting_rank", "core_share": round(max(shares), 5)}))
        print(json.dumps({"peer": "ronde", "ranks": 1, "op": "import", "median_us": round(import_seconds() * 1e6, 1)}))


if __name__ == "__main__":
    main()
