"""Ranks that nobody has launched: each is told who it is, where rank 0 serves the store, and the job's key.

Between hosts of their own: tests/hosts.
"""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys

import pytest

PROGRAM = """
import numpy as np, ronde.numpy as rnp
for round in range(2):  # they meet again after a shutdown
    rnp.init()
    rank, size = rnp.rank(), rnp.size()
    for step in range(5):
        for count in (1, 1000, 300_000):
            values = np.full(count, float(rank + step))
            rnp.allreduce_(values, rnp.Sum, name=f"of {count}")
            assert (values == sum(range(size)) + step * size).all(), (step, count, values[:3])
    some = rnp.add_process_set(range(0, size, 2))
    if some.included():
        assert rnp.allreduce(np.ones(3), rnp.Sum, process_set=some)[0] == some.size()
    rnp.shutdown()
print("right")
"""


def free_port():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


@pytest.fixture
def strangers():
    """Begins to flood a port of this host with connections that say nothing, or something that is no greeting."""
    processes = []

    def flood(port):
        program = (
            "import os, socket, time\nkept = []\n"
            "while True:\n"
            "    try:\n"
            f"        kept.append(socket.create_connection(('127.0.0.1', {port}), 1))\n"
            "        len(kept) % 2 and kept[-1].send(os.urandom(len(kept) % 100))\n"
            "    except OSError:\n"
            "        time.sleep(0.01)\n"
            "    if len(kept) > 300:\n"
            "        kept.pop(0).close()\n"
        )
        processes.append(subprocess.Popen([sys.executable, "-c", program], stderr=subprocess.DEVNULL))

    yield flood
    for process in processes:
        process.kill()
        process.wait()


def start(rank, size, port, key, program=PROGRAM, **more):
    mine = {name: value for name, value in os.environ.items() if not name.startswith(("RONDE_", "HOROVOD_"))}
    mine.update(
        RONDE_RANK=str(rank),
        RONDE_SIZE=str(size),
        RONDE_LOCAL_RANK="0",  # as on hosts of their own
        RONDE_LOCAL_SIZE="1",
        RONDE_CROSS_RANK=str(rank),
        RONDE_CROSS_SIZE=str(size),
        RONDE_STORE=f"tcp:127.0.0.1:{port}",
        RONDE_KEY=key,
        **more,
    )
    command = [sys.executable, "-c", program]
    return subprocess.Popen(command, env=mine, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def ends_of(processes, limit=60):
    try:
        return [(*process.communicate(timeout=limit), process.returncode) for process in processes]
    finally:
        for process in processes:
            process.kill()


@pytest.mark.parametrize("size", [2, 3, 5])
def test_they_meet_over_tcp(size):
    port, key = free_port(), secrets.token_hex(32)
    processes = [start(rank, size, port, key) for rank in reversed(range(size))]
    for out, err, code in ends_of(processes):
        assert (out, code) == ("right\n", 0), err


SHARING = PROGRAM.replace(
    "rnp.shutdown()",
    """shared = len({line.split()[4] for line in open("/proc/self/maps") if "/memfd:ronde" in line})
    rnp.shutdown()""",
).replace('print("right")', "print(shared)")


def test_ranks_of_one_host_share_its_memory():
    port, key = free_port(), secrets.token_hex(32)
    for out, err, code in ends_of([start(rank, 3, port, key, SHARING) for rank in range(3)]):
        assert (out, code) == ("3\n", 0), err


def test_host_ids_keep_them_apart():
    port, key = free_port(), secrets.token_hex(32)
    processes = [start(rank, 5, port, key, SHARING, RONDE_HOST_ID="aabba"[rank]) for rank in range(5)]
    for rank, (out, err, code) in enumerate(ends_of(processes)):
        assert (out, code) == (f"{'aabba'.count('aabba'[rank])}\n", 0), err
        assert err == "", "nobody was promised that they are of one host"


def test_strangers_do_not_keep_them_apart(strangers):
    port, key = free_port(), secrets.token_hex(32)
    strangers(port)
    for out, err, code in ends_of([start(rank, 3, port, key) for rank in range(3)]):
        assert (out, code) == ("right\n", 0), err


def test_a_child_that_rank_0_has_forked_does_not_keep_the_port():
    program = """
import os, time, numpy as np, ronde.numpy as rnp
rnp.init()
if rnp.rank() == 0 and os.fork() == 0:
    os.close(1), os.close(2)
    time.sleep(30)
    os._exit(0)
assert rnp.allreduce(np.ones(3), rnp.Sum)[0] == 2
os.kill(os.getpid(), 9)
"""
    port, key = free_port(), secrets.token_hex(32)
    ends_of([start(rank, 2, port, key, program) for rank in range(2)])
    for out, err, code in ends_of([start(rank, 2, port, key) for rank in range(2)]):
        assert (out, code) == ("right\n", 0), err


def test_another_key_is_refused_and_the_others_say_who_is_missing():
    port = free_port()
    processes = [start(rank, 2, port, secrets.token_hex(32), RONDE_INIT_TIMEOUT_S="3") for rank in range(2)]
    (_, first, code_of_first), (_, second, code_of_second) = ends_of(processes)
    assert (code_of_first, code_of_second) == (1, 1)
    assert "missing: rank 1" in first
    assert "another job's key" in second


def test_a_job_without_its_first_rank_says_who_is_to_serve():
    process = start(1, 2, free_port(), secrets.token_hex(32), RONDE_INIT_TIMEOUT_S="1")
    ((_, err, code),) = ends_of([process])
    assert code == 1
    assert "nobody serves the job's store at tcp:127.0.0.1:" in err and "Rank 0 does" in err


def test_memory_cannot_be_shared_so():
    port, key = free_port(), secrets.token_hex(32)
    processes = [start(rank, 2, port, key, RONDE_TRANSPORT="shm", RONDE_INIT_TIMEOUT_S="5") for rank in range(2)]
    for _, err, code in ends_of(processes):
        assert code == 1
        assert "RONDE_TRANSPORT=tcp" in err


def test_a_rank_that_dies_is_named():
    program = """
import os, signal, numpy as np, ronde.numpy as rnp
rnp.init()
try:
    for step in range(1000):
        rnp.allreduce(np.ones(3), name="x")  # what it has got, others may be about to get when it dies
        if rnp.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
except Exception as error:
    print(type(error).__name__, error)
"""
    port, key = free_port(), secrets.token_hex(32)
    ends = ends_of([start(rank, 3, port, key, program) for rank in range(3)])
    assert ends[2][2] == -9
    for out, err, _ in ends[:2]:
        assert out.startswith("PeerLostError") and "rank 2" in out, (out, err)
