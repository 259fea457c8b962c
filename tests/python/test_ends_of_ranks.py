"""What a rank has started ends with it: by the guard between a task of Spark and its rank, and by the witness of a node of
Ray's. With Ray and Spark themselves: tests/schedulers."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ronde.spark._guard import told_by_guard

LIMIT_S = 60.0

#: A rank with a forked child, one that has a session of its own, and one whose parent has ended; then it ends or waits.
RANK = """
import os, signal, subprocess, sys, threading
from ronde.spark._guard import become_guarded
become_guarded(int(sys.argv[1]), int(sys.argv[2]))
def wait():
    threading.Event().wait(120)
    os._exit(0)
child = os.fork()
if child == 0:
    wait()
other = subprocess.Popen([sys.executable, "-c", "import threading; threading.Event().wait(120)"], start_new_session=True)
reading, writing = os.pipe()
if os.fork() == 0:
    orphan = os.fork()
    if orphan == 0:
        os.setsid()
        wait()
    os.write(writing, str(orphan).encode())
    os._exit(0)
os.wait()
print(os.getpid(), os.getppid(), child, other.pid, os.read(reading, 20).decode(), flush=True)
exec(sys.argv[3])
"""

#: What stands for the task: it starts the guard, and has one line to read of what the guard's rank prints.
TASK = """
import os, subprocess, sys
reading, writing = os.pipe()
subprocess.Popen([sys.executable, "-c", sys.argv[1], str(os.getpid()), str(writing), "wait()"], pass_fds=[writing]).wait()
"""


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] not in "ZX"
    except OSError:
        return False


def wait_until_gone(pids: list[int]) -> None:
    until = time.monotonic() + LIMIT_S
    while any(map(lives, pids)):
        assert time.monotonic() < until, f"of {pids} these live: {[pid for pid in pids if lives(pid)]}"
        time.sleep(0.01)


@contextlib.contextmanager
def guarded(ending: str):
    """A guard that this process has started, the numbers of its rank and of what that has started, and what it tells."""
    reading, writing = os.pipe()
    command = [sys.executable, "-c", RANK, str(os.getpid()), str(writing), ending]
    guard = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, pass_fds=[writing])
    os.close(writing)
    try:
        rank, its_parent, *started = map(int, guard.stdout.readline().split())
        assert its_parent == guard.pid and len(started) == 3
        yield guard, rank, started, reading
    finally:
        guard.kill()
        guard.wait(LIMIT_S)
        guard.stdout.close()
        os.close(reading)


@pytest.mark.parametrize(
    "ending, status",
    [("pass", 0), ("sys.exit(3)", 3), ("os._exit(4)", 4), ("os.kill(os.getpid(), 9)", -9), ("os.killpg(0, 15)", -15)],
)
def test_all_ends_with_the_rank(ending, status):
    with guarded(ending) as (guard, rank, started, reading):
        assert guard.wait(LIMIT_S) == 0
        # The guard has waited for all of them: no moment later.
        assert not any(map(lives, [rank, *started]))
        assert told_by_guard(os.read(reading, 100)) == (rank, status)


def test_all_ends_when_the_guard_is_told():
    with guarded("wait()") as (guard, rank, started, reading):
        assert all(map(lives, [rank, *started]))
        guard.terminate()
        assert guard.wait(LIMIT_S) == -signal.SIGTERM
        assert not any(map(lives, [rank, *started]))
        assert told_by_guard(os.read(reading, 100)) == (rank, None), "how the rank would have ended nobody knows"


def test_all_ends_with_the_task():
    """As Spark ends it: by SIGKILL."""
    task = subprocess.Popen([sys.executable, "-c", TASK, RANK], stdout=subprocess.PIPE, text=True)
    rank, guard, *started = map(int, task.stdout.readline().split())
    assert all(map(lives, [rank, guard, *started]))
    task.kill()
    task.wait(LIMIT_S)
    wait_until_gone([rank, guard, *started])
    task.stdout.close()


def test_a_killed_guard_takes_the_rank_along():
    with guarded("wait()") as (guard, rank, started, _):
        guard.kill()
        guard.wait(LIMIT_S)
        wait_until_gone([rank])
        for each in started:  # these nobody ends: whoever kills the guard has to
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)


def test_what_the_guard_did_not_come_to_tell():
    assert told_by_guard(b"") == (None, None)
    assert told_by_guard(b"\x07" + bytes(7)) == (7, None)
    assert told_by_guard(b"\x07" + bytes(7) + b"\xf7" + b"\xff" * 7) == (7, -9)
    assert told_by_guard(b"\x07" + bytes(7) + b"\xf7") == (7, None)


#: A rank of Ray's with a child, which holds its descriptors open, as a connection to Ray; and the witness's process, in which
#: it ends. Prints what the witness tells.
WITNESS = """
import subprocess, sys, threading
from ronde.ray._actors import Witness
rank = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE)
print(int(rank.stdout.readline()))
other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
witness = Witness()
witness.watch([rank.pid, other.pid])
assert witness.lingering(0) == [rank.pid, other.pid] and witness.status(rank.pid, 0) is None
rank.kill()
assert witness.next_end([]) == [rank.pid]
threading.Thread(target=rank.wait).start()  # as Ray does, a moment later
print(witness.status(rank.pid, 60))
other.communicate(b"\\n")
assert witness.next_end([rank.pid]) == [rank.pid, other.pid]
assert witness.lingering(60) == [] and witness.status(1, 60) is None
"""

LEADER = """
import os, threading
from ronde.ray._actors import _lead_a_group
_lead_a_group()
child = os.fork()
if child:
    print(child, flush=True)
threading.Event().wait(120)
"""


def test_a_witness_tells_of_an_end_and_ends_the_children():
    command = [sys.executable, "-c", WITNESS, LEADER]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    status = -signal.SIGKILL if release >= (6, 15) else None
    child, told = ended.stdout.split()
    assert told == str(status)
    wait_until_gone([int(child)])
