"""Whole jobs: signals, death, forks, exit. Each starts `ronde run` with a program of tests/python/programs."""

from __future__ import annotations

import os
import re
import signal
import socket
import time
import uuid
from pathlib import Path

import pytest

from launching import Job, processes_with, run_job, wait_until

#: The promise is 0.1 s; test machines are busy.
ANSWER_LIMIT_S = 1.0


def test_ctrl_c_in_blocking_calls(record_property):
    calls = ["allreduce", "synchronize", "step", "barrier", "broadcast", "allgather", "shutdown"]
    ended = run_job(2, "interrupted.py", *calls)
    answers = {line.split()[-1]: float(line.split()[2]) for line in ended.lines("answered after")}
    assert list(answers) == calls, ended.output
    for call, seconds in answers.items():
        print(f"{call}: answered after {seconds} s")
        record_property(f"{call}_answered_after_s", seconds)
        assert seconds < ANSWER_LIMIT_S
    assert "returned" not in ended.output


@pytest.mark.parametrize("call", ["init", "allreduce"])
def test_ctrl_c_from_outside(call):
    with Job(2, "interrupted_in_c.py", call) as job:
        pid = int(job.read_until("blocking").split()[-1])
        wait_until(
            lambda: "S" in (Path("/proc") / str(pid) / "stat").read_text().rsplit(")", 1)[1].split()[0],
            30,
            "the rank sleeps in its call",
        )
        sent = time.time()
        os.kill(pid, signal.SIGINT)
        answered = float(job.read_until("answered at").split()[-1])
        print(f"{call}: answered after {answered - sent:.3f} s")
        assert answered - sent < ANSWER_LIMIT_S


def left_by_jobs_in(folder: Path) -> list[str]:
    """Shared memory that has a name, files and sockets; other tests' jobs have theirs elsewhere."""
    sockets = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if str(folder) in line]
    return [*(name for name in os.listdir("/dev/shm") if "ronde" in name), *map(str, folder.iterdir()), *sockets]


def test_a_killed_rank(tmp_path):
    """3 ranks with two DataLoader workers each, one killed: the others say who within a second, nothing is left."""
    marker = f"RONDE_TEST_MARKER={uuid.uuid4().hex}"
    name, value = marker.split("=")
    with Job(3, "count_down.py", **{name: value}, XDG_RUNTIME_DIR=str(tmp_path)) as job:
        pids = {}
        while len(pids) < 3:
            rank, pid = job.read_until("pid ").split()[-2:]
            pids[int(rank)] = int(pid)
        job.read_until("running")
        assert left_by_jobs_in(tmp_path) != []  # so that it is seen what would be left
        killed = time.time()
        os.kill(pids[1], signal.SIGKILL)
        ended = job.end()
    errors = ended.lines("error at")
    assert len(errors) == 2, ended.output
    for line in errors:
        seconds = float(line.split()[2]) - killed
        print(f"told after {seconds:.3f} s: {line}")
        assert seconds < 1.0, line
        assert "PeerLostError code 6 rank 1" in line, line
        assert "allreduce.gradient" in line and re.search(r"\brank 1\b", line) and socket.gethostname() in line, line
    assert ended.code == 137, ended.output
    wait_until(lambda: not processes_with(marker), 5, "no process of the job is left")
    assert left_by_jobs_in(tmp_path) == []


@pytest.mark.parametrize("ranks", [1, 2])
def test_a_forked_child(ranks):
    ended = run_job(ranks, "forks.py")
    assert ended.code == 0, ended.output
    assert len(ended.lines("parent goes on")) == ranks, ended.output
    assert "Exception ignored" not in ended.output, ended.output


@pytest.mark.parametrize("ranks", [1, 3])
def test_workers_of_a_loader_know_their_rank(ranks):
    ended = run_job(ranks, "seeded_workers.py", forked="torch")
    assert ended.code == 0, ended.output
    assert len(ended.lines("workers know their rank")) == ranks, ended.output


def test_a_child_forked_before_init_is_a_rank():
    """As with ``multiprocessing``'s fork, where the parent has loaded Ronde and the children run."""
    ended = run_job(2, "forks_first.py")
    assert ended.code == 0, ended.output
    assert len(ended.lines("nothing is left")) == 2 and "Exception ignored" not in ended.output, ended.output


@pytest.mark.parametrize("how", ["dropped", "kept", "unmatched"])
def test_exit_with_operations_in_flight(how):
    ended = run_job(2, "exits.py", how)
    assert ended.code == 0, ended.output
    assert len(ended.lines("ends")) == 2 and "Traceback" not in ended.output, ended.output


def test_exit_by_an_exception():
    ended = run_job(2, "exits.py", "exception")
    assert ended.code == 1, ended.output
    assert "the script's own error" in ended.output


@pytest.mark.parametrize("how, code", [("exception", 1), ("hard", 3), pytest.param("3", 3, marks=pytest.mark.long),
                                       pytest.param("shut down first", 3, marks=pytest.mark.long)])
def test_the_last_line_names_who_failed_first(how, code):
    """Whose process may well end after those that fail since it has gone."""
    ended = run_job(3, "one_ends.py", how)
    assert ended.code == code, ended.output
    last = ended.output.splitlines()[-1]
    assert re.fullmatch(
        rf"ronde: rank 1 on \S+ ended with code {code} after \S+ s; ranks 0, 2 then ended with code 1", last
    ), ended.output


def test_the_last_line_names_who_left_with_0():
    ended = run_job(3, "one_ends.py", "0")
    assert ended.code == 1, ended.output
    last = ended.output.splitlines()[-1]
    assert re.fullmatch(
        r"ronde: rank [02] on \S+ ended with code 1 after \S+ s; rank [02] then ended with code 1; "
        r"rank 1 had left before",
        last,
    ), ended.output


def test_less_shared_memory_than_gradients_take():
    ended = run_job(2, "little_memory.py", forked="torch")
    assert ended.code == 0, ended.output
    assert ended.lines("shared:") == ["shared: [True, False, False]"] * 2, ended.output
    assert len(ended.lines("Ronde: some gradients stay in private memory")) == 2, ended.output


def test_without_numpy():
    ended = run_job(2, "without_numpy.py")
    assert ended.code == 0, ended.output
    expected = [f"rank {rank}: 0.1 {{'from': 1}} ['', 'x']" for rank in range(2)]
    assert sorted(ended.lines("rank ")) == expected, ended.output
