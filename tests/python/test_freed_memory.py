"""Memory that training frees stays with the process, up to a bound and unless the user has set malloc up otherwise."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch
from torch.nn.parallel import DistributedDataParallel

from distributed_group import default_group
from ronde.torch import _freed_memory

#: Its page faults in a second round of the same allocations, and how many megabytes it holds when all are freed.
PROGRAM = """
import ctypes, os, resource, runpy, sys
libc = ctypes.CDLL(None)
libc.malloc.restype = libc.memset.restype = ctypes.c_void_p
libc.malloc.argtypes, libc.free.argtypes = [ctypes.c_size_t], [ctypes.c_void_p]
libc.memset.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t]

def use(blocks, n_bytes):
    made = [libc.malloc(n_bytes) for _ in range(blocks)]
    for each in made:
        libc.memset(each, 1, n_bytes)
    for each in made:
        libc.free(each)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

module = runpy.run_path(sys.argv[1])
if sys.argv[2] != "leave":
    module["keep_freed_memory"]()
if sys.argv[2] == "fork" and os.fork():
    os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
use(40, 2 << 20)
before = faults()
use(40, 2 << 20)
print(faults() - before, int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() >> 20)
"""


def measure(what: str = "keep", **variables: str) -> tuple[int, int]:
    inherited = {name: value for name, value in os.environ.items() if "MALLOC" not in name and "TUNABLES" not in name}
    command = [sys.executable, "-c", PROGRAM, _freed_memory.__file__, what]
    done = subprocess.run(
        command, env={**inherited, **variables}, capture_output=True, text=True, check=True, timeout=180
    )
    faults, megabytes = done.stdout.split()
    return int(faults), int(megabytes)


PAGES = 40 * (2 << 20) // 4096


def test_what_is_freed_is_not_mapped_anew():
    without, _ = measure("leave")
    faults, held = measure()
    assert without > PAGES / 2, "glibc has become better at it: is this still needed?"
    assert faults < PAGES / 50
    assert held >= 80


def test_beyond_the_bound_it_goes_back():
    faults, held = measure(RONDE_KEEP_FREED=str(40 << 20))
    assert faults > PAGES / 4
    assert held < 80


@pytest.mark.parametrize(
    "variable",
    [
        "MALLOC_TOP_PAD_=1000",
        "MALLOC_TRIM_THRESHOLD_=131072",
        "GLIBC_TUNABLES=glibc.malloc.top_pad=1000",
        "RONDE_KEEP_FREED=0",
    ],
)
def test_what_the_user_has_set_stands(variable):
    name, _, value = variable.partition("=")
    faults, _ = measure(**{name: value})
    assert faults > PAGES / 4


def test_our_own_variable_wins_and_must_be_a_number():
    assert measure(RONDE_KEEP_FREED="99999999999", MALLOC_TRIM_THRESHOLD_="131072")[0] < PAGES / 50
    done = subprocess.run(
        [sys.executable, "-c", "import ronde.torch as hvd; hvd.init()"],
        env={**os.environ, "RONDE_KEEP_FREED": "1G"},
        capture_output=True,
        text=True,
        timeout=180,
    )
    assert done.returncode == 1
    assert "InitializationError: RONDE_KEEP_FREED is '1G'; expected a number of bytes" in done.stderr


def test_a_forked_child_gives_back():
    faults, held = measure("fork")
    assert faults > PAGES / 50
    assert held < 80


@pytest.mark.ranks(1, 2)
@pytest.mark.parametrize("how", ["ddp", "optimizer"])
def test_training_asks_for_it_where_there_are_ranks(hvd, rank, world, how, monkeypatch):
    asked = []
    monkeypatch.setattr(_freed_memory, "_is_done", False)
    monkeypatch.setattr(_freed_memory, "bytes_to_keep", lambda: asked.append(True) or 0)
    model = torch.nn.Linear(200, 200)
    with default_group(rank, world):
        if how == "ddp":
            model = DistributedDataParallel(model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        if how == "optimizer":
            optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
        model(torch.ones(1, 200)).sum().backward()
        optimizer.step()
    assert bool(asked) == (world > 1)
