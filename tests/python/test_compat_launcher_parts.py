"""The parts of Horovod's launcher that other programs use: threads, hosts, environment, keys, limits, shell commands."""

from __future__ import annotations

import io
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from horovod.runner.common.util import env, host_hash, hosts, safe_shell_exec, secret, timeout
from horovod.runner.util import threads
from launching import processes_with, wait_until


def test_threads():
    seen = []
    thread = threads.in_thread(seen.append, (1,), name="mine")
    thread.join(10)
    assert seen == [1] and thread.name == "mine" and thread.daemon
    with pytest.raises(ValueError, match="tuple or list"):
        threads.in_thread(print, "x")
    threads.in_thread(lambda: 1 / 0, silent=True).join(10)


def test_what_runs_on_an_event():
    event, stop, seen = threading.Event(), threading.Event(), []
    waiting = threads.on_event(event, seen.append, (1,), stop=stop, check_stop_interval_s=0.01)
    event.set()
    waiting.join(10)
    assert seen == [1]
    stopped = threads.on_event(threading.Event(), seen.append, (2,), stop=stop, check_stop_interval_s=0.01)
    stop.set()
    stopped.join(10)
    assert seen == [1] and not stopped.is_alive()
    with pytest.raises(ValueError, match="needs an event"):
        threads.on_event(None, print)


def test_one_function_on_many_threads():
    together = threading.Barrier(3)
    done = threads.execute_function_multithreaded(lambda x, y: (together.wait(10), x * y)[1], [(1, 2), (3, 4), (5, 6)])
    assert done == {0: 2, 1: 12, 2: 30}
    running, most = [], []

    def note(_: int) -> None:
        running.append(1)
        most.append(len(running))
        running.pop()

    threads.execute_function_multithreaded(note, [(i,) for i in range(20)], max_concurrent_executions=1)
    assert most == [1] * 20
    with pytest.raises(ZeroDivisionError):
        threads.execute_function_multithreaded(lambda x: 1 // x, [(1,), (0,)])


def test_hosts():
    parsed = hosts.parse_hosts("one:4, two.example:2")
    assert [(host.hostname, host.slots) for host in parsed] == [("one", 4), ("two.example", 2)]
    assert hosts.HostInfo.from_string("10.0.0.1:3").slots == 3
    assert hosts.parse_hosts_and_slots("a:1,b:2") == (["a", "b"], {"a": 1, "b": 2})
    with pytest.raises(ValueError):
        hosts.parse_hosts("one:many")


def test_a_file_of_hosts(tmp_path):
    (tmp_path / "hosts").write_text("one slots=2\n\ntwo slots=3  # the other\n")
    assert hosts.parse_host_files(str(tmp_path / "hosts")) == "one:2,two:3"


def test_places():
    places = hosts.get_host_assignments(hosts.parse_hosts("one:2,two:1,three:2"), 4, 4)
    assert [(p.hostname, p.rank, p.local_rank, p.cross_rank, p.size, p.local_size, p.cross_size) for p in places] == [
        ("one", 0, 0, 0, 4, 2, 3),
        ("one", 1, 1, 0, 4, 2, 1),
        ("two", 2, 0, 1, 4, 1, 3),
        ("three", 3, 0, 2, 4, 1, 3),
    ]
    assert places[1].to_response_string() == "1,4,1,2,0,1"
    assert len(hosts.get_host_assignments(hosts.parse_hosts("one:2,two:3"), 2)) == 5
    with pytest.raises(ValueError, match=r"more processes \(6\) than there are available slots \(5\)"):
        hosts.get_host_assignments(hosts.parse_hosts("one:2,two:3"), 6)
    assert hosts.INVALID_SLOT_INFO.rank == -1


def test_environment(monkeypatch):
    for name in ("HOROVOD", "RONDE", "OMPI_COMM_WORLD", "PMI"):
        monkeypatch.delenv(f"{name}_RANK", raising=False)
        monkeypatch.delenv(f"{name}_SIZE", raising=False)
    assert env.get_env_rank_and_size() == (0, 1)
    monkeypatch.setenv("PMI_RANK", "3")
    with pytest.raises(RuntimeError, match="only one of PMI_RANK and PMI_SIZE"):
        env.get_env_rank_and_size()
    monkeypatch.setenv("PMI_SIZE", "4")
    assert env.get_env_rank_and_size() == (3, 4)
    monkeypatch.setenv("RONDE_RANK", "1")
    monkeypatch.setenv("RONDE_SIZE", "2")
    assert env.get_env_rank_and_size() == (1, 2)
    assert env.is_exportable("PATH") and not env.is_exportable("BASH_FUNC_x%%")
    assert not env.is_exportable(secret.HOROVOD_SECRET_KEY) and not env.is_kubeflow_mpi()


def test_keys():
    key = secret.make_secret_key()
    assert len(key) == secret.SECRET_LENGTH and key != secret.make_secret_key()
    digest = secret.compute_digest(key, b"message")
    assert len(digest) == secret.DIGEST_LENGTH
    assert secret.check_digest(key, b"message", digest) and not secret.check_digest(key, b"massage", digest)


def test_hash_of_the_host():
    elsewhere = subprocess.run(
        [sys.executable, "-c", "from horovod.runner.common.util.host_hash import host_hash; print(host_hash())"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert elsewhere.stdout.strip() == host_hash.host_hash() != host_hash.host_hash(salt="x")


def test_limits():
    limit = timeout.Timeout(1000, "waited for {activity}")
    limit.check_time_out_for("nothing")
    assert 0 < limit.remaining() <= 1000 and not limit.timed_out()
    over = timeout.Timeout(-1, "waited for {activity}")
    assert over.timed_out() and over.remaining() == 0
    with pytest.raises(timeout.TimeoutException, match=r"waited for ranks\. Timeout after -1 seconds\."):
        over.check_time_out_for("ranks")


def test_a_command():
    out, err = io.StringIO(), io.StringIO()
    command = "echo one; printf 'two\\rhalf'; echo other >&2; exit 3"
    assert safe_shell_exec.execute(command, stdout=out, stderr=err) == 3
    assert out.getvalue() == "one\ntwo\rhalf" and err.getvalue() == "other\n"
    out = io.StringIO()
    assert safe_shell_exec.execute("echo $MINE", env={"MINE": "yes"}, stdout=out, index=5) == 0
    assert out.getvalue() == "[5]<stdout>:yes\n"
    assert safe_shell_exec.execute("kill -9 $$") == 128 + signal.SIGKILL


@pytest.mark.parametrize("make", [threading.Event, multiprocessing.Event])
def test_a_command_ends_on_an_event_with_all_that_it_has_started(make):
    marker = f"SAFE_SHELL_{os.getpid()}_EVENT={time.monotonic_ns()}"
    event = make()
    name, value = marker.split("=")
    codes = []
    command = "trap '' HUP; (sleep 1000 & sleep 1000) & sleep 1000"
    execute = threads.in_thread(
        lambda: codes.append(safe_shell_exec.execute(command, env={**os.environ, name: value}, events=[event]))
    )
    wait_until(lambda: len(processes_with(marker)) >= 4, 30, "the command and its children")
    event.set()
    execute.join(30)
    assert codes and codes[0] != 0
    wait_until(lambda: not processes_with(marker), 10, "their end")


def test_a_command_ends_with_who_has_started_it():
    marker = f"SAFE_SHELL_{os.getpid()}_PARENT={time.monotonic_ns()}"
    name, value = marker.split("=")
    program = "from horovod.runner.common.util.safe_shell_exec import execute; execute('sleep 1000 & sleep 1000')"
    parent = subprocess.Popen([sys.executable, "-c", program], env={**os.environ, name: value})
    wait_until(lambda: len(processes_with(marker)) >= 4, 30, "the command and its children")
    parent.kill()
    parent.wait()
    wait_until(lambda: not processes_with(marker), 10, "their end")
