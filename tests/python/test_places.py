"""What jobs have in common whose ranks a scheduler places. With real schedulers: tests/schedulers."""

from __future__ import annotations

import json
import os
import pickle
import socket
import subprocess
import sys

import pytest

from launching import launcher
from ronde._schedulers.failures import Failure, RankTraceback, cause_of_status, failure_of, first_of
from ronde._schedulers.places import Place, Reservation, Seat, environment_of, new_key, own_place, seats_of
from ronde.exceptions import MismatchError, PeerLostError, RankFailedError
from ronde.ray._exit_status import WatchedProcess
from ronde.ray._ranks import Wanted
from ronde.spark._task import _written, failure_in


def at(*hosts: str, devices: dict = {}) -> list[Place]:
    return [Place(f"name-{host}", host, f"10.0.0.{ord(host)}", 100 + i, devices.get(i, ())) for i, host in enumerate(hosts)]


@pytest.mark.parametrize(
    "hosts, seats",
    [
        ("a", [(0, 1, 0, 1, 0, 1)]),
        ("aa", [(0, 2, 0, 2, 0, 1), (1, 2, 1, 2, 0, 1)]),
        ("ab", [(0, 2, 0, 1, 0, 2), (1, 2, 0, 1, 1, 2)]),
        ("aba", [(0, 3, 0, 2, 0, 2), (2, 3, 0, 1, 1, 2), (1, 3, 1, 2, 0, 1)]),
        ("baab", [(0, 4, 0, 2, 0, 2), (2, 4, 0, 2, 1, 2), (3, 4, 1, 2, 1, 2), (1, 4, 1, 2, 0, 2)]),
        # The second and third rank of a host count only the hosts that have as many.
        ("abccc", [(0, 5, 0, 1, 0, 3), (1, 5, 0, 1, 1, 3), (2, 5, 0, 3, 2, 3), (3, 5, 1, 3, 0, 1), (4, 5, 2, 3, 0, 1)]),
    ],
)
def test_seats(hosts, seats):
    assert seats_of(at(*hosts)) == [Seat(*seat) for seat in seats]


def test_seats_are_those_of_ronde_run():
    """The same for the same layout."""
    names = "RANK SIZE LOCAL_RANK LOCAL_SIZE CROSS_RANK CROSS_SIZE"
    told = f"' '.join(os.environ['RONDE_' + name] for name in '{names}'.split())"
    program = f"import os; os.write(1, ({told} + chr(10)).encode())"  # a line at once
    command = [launcher(), "run", "-n", "3", "--", sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    lines = sorted(line.rpartition("] ")[2] for line in ended.stdout.splitlines())
    assert lines == [" ".join(map(str, seat)) for seat in seats_of(at(*"aaa"))]


def test_environment_on_one_host():
    key = new_key()
    variables = environment_of(1, at("a", "a"), (4711, 4712), key, {"MINE": "x", "MASTER_PORT": "1"})
    assert variables["RONDE_STORE"] == "tcp:127.0.0.1:4711", "nothing is open to other hosts"
    assert (variables["RONDE_RANK"], variables["RONDE_SIZE"], variables["RONDE_KEY"]) == ("1", "2", key)
    assert (variables["MINE"], variables["MASTER_PORT"], variables["RONDE_MASTER"]) == ("x", "1", "127.0.0.1:4712")
    assert "CUDA_VISIBLE_DEVICES" not in variables


def test_environment_is_that_of_ronde_run():
    """Every variable that `ronde run` sets for who a rank is (src/launch/environment.cc) is there."""
    program = "import os, json; print(json.dumps(dict(os.environ)))"
    command = [launcher(), "run", "-n", "1", "--", sys.executable, "-c", program]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("RONDE_")}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, env=kept)
    launched = set(json.loads(ended.stdout[ended.stdout.index("{"):])) - set(kept)
    ours = set(environment_of(0, at("a"), (1, 2), "k", {}))
    assert launched - ours <= {"OMP_NUM_THREADS", "PYTHONUNBUFFERED"}, "these Ray and Spark decide themselves"
    assert ours - launched == set()


@pytest.mark.parametrize(
    "address, store", [("10.0.0.7", "tcp:10.0.0.7:5"), ("fe80::1", "tcp:[fe80::1]:5"), ("node7", "tcp:node7:5")]
)
def test_environment_on_several_hosts(address, store):
    places = [Place("x", "x", address, 1), Place("y", "y", "10.0.0.9", 1)]
    for index in (0, 1):
        variables = environment_of(index, places, (5, 6), "k", {})
        assert (variables["RONDE_STORE"], variables["MASTER_ADDR"]) == (store, address)


def test_devices():
    """Each rank sees those of its host, the one that it was given at its local rank."""
    places = at("a", "b", "a", devices={0: ("3",), 1: ("0",), 2: ("1",)})
    seen = [environment_of(index, places, (5, 6), "k", {})["CUDA_VISIBLE_DEVICES"] for index in range(3)]
    assert seen == ["3,1", "0", "3,1"]


def test_own_place(monkeypatch):
    monkeypatch.delenv("RONDE_HOST_ID", raising=False)
    place = own_place("10.0.0.7", ["0"])
    assert (place.host, place.address, place.pid, place.devices) == (socket.gethostname(), "10.0.0.7", os.getpid(), ("0",))
    monkeypatch.setenv("RONDE_HOST_ID", "another")
    assert own_place("10.0.0.7").network != place.network


def listener(port):
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    made.bind(("127.0.0.1", port))
    made.listen()
    return made


def test_reserved_ports_are_rank_0s_alone():
    reservation = Reservation()
    first, second = reservation.ports
    assert first != second
    for port in (first, second):
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port), 5)
        with socket.socket() as stranger, pytest.raises(OSError):
            stranger.bind(("127.0.0.1", port))
        for _ in range(2):  # init, shutdown, init
            with listener(port):
                socket.create_connection(("127.0.0.1", port), 5).close()
    reservation.close()
    with listener(first):
        pass


def test_ports_of_a_range():
    with listener(0) as taken:
        port = taken.getsockname()[1]
        if port > 65530:
            pytest.fail("the kernel gave one of the last ports")
        reservation = Reservation(f"{port}-{port + 5}")
        assert all(port < each <= port + 5 for each in reservation.ports)
        reservation.close()
        with pytest.raises(OSError, match=f"^RONDE_PORT_RANGE={port}-{port} has no two free ports on "):
            Reservation(f"{port}-{port}")
    for wrong in ("5", "9-5", "a-b", "0-4", "5-70000"):
        with pytest.raises(ValueError, match="expected FIRST-LAST"):
            Reservation(wrong)


def raised(error: BaseException) -> BaseException:
    try:
        raise error
    except BaseException as caught:
        return caught


def test_a_failure_is_an_error_with_its_cause():
    failure = failure_of(raised(KeyError("x")), 1, 3, "node2", 42)
    error = failure.error()
    assert str(error) == "rank 1 of 3 (node2, pid 42) raised KeyError: 'x'"
    assert (error.rank, error.host, error.pid, error.code) == (1, "node2", 42, 6)
    assert isinstance(error.__cause__, KeyError) and isinstance(error.__cause__.__cause__, RankTraceback)
    assert "in raised" in str(error.__cause__.__cause__)
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), again.rank, again.host, again.pid) == (RankFailedError, str(error), 1, "node2", 42)


def test_an_exception_that_cannot_be_carried():
    class Local(Exception):
        pass

    error = failure_of(raised(Local()), 0, 1, "h", 1).error()
    assert str(error).endswith("Local") and isinstance(error.__cause__, RankTraceback)
    large = failure_of(raised(ValueError("x" * 100_000)), 0, 1, "h", 1)
    assert large.exception is None and large.traceback


def test_who_has_failed_first():
    lost = failure_of(raised(PeerLostError("rank 1 died", 6, 1)), 0, 3, "h", 1)
    mismatch = failure_of(raised(MismatchError("shapes", 5)), 2, 3, "h", 3)
    killed = Failure(1, 3, "h", 2, "was killed by signal 9")
    assert (lost.follows, mismatch.follows, killed.follows) == (True, False, False)
    assert first_of([lost, killed]) is killed and first_of([killed, lost]) is killed and first_of([lost]) is lost
    assert first_of([]) is None
    wrapped = RuntimeError("mine")
    wrapped.__cause__ = raised(PeerLostError("rank 1 died", 6, 1))
    assert failure_of(raised(wrapped), 0, 3, "h", 1).follows


def test_causes():
    assert cause_of_status(-11) == "was killed by signal 11"
    assert cause_of_status(-9) == "was killed by signal 9 (as the kernel does where memory is used up)"
    assert cause_of_status(3) == "ended with code 3 before its function had returned"


def test_a_failure_travels_in_a_text():
    failure = failure_of(raised(KeyError("x")), 1, 3, "node2", 42)
    assert failure_in(f"Job aborted:\n x {failure.sentence()}\nronde-failure:{_written(failure)}\n at java") == failure
    silent = Failure(1, 3, "h", 2, "was killed by signal 9")
    assert failure_in(f"ronde-failure:{_written(silent)}") == silent
    assert failure_in("Job aborted") is None
    quoting = failure_of(raised(ValueError("ronde-failure:abc ronde-failure:W10= of another job")), 0, 2, "h", 1)
    assert failure_in(f"{quoting.sentence()}\nronde-failure:{_written(quoting)}") == quoting


@pytest.mark.parametrize("ending, status", [("import os; os.kill(os.getpid(), 9)", -9), ("raise SystemExit(3)", 3)])
def test_how_a_process_has_ended(ending, status):
    """Also of one that its parent has asked for already. Linux before 6.15 does not tell."""
    child = subprocess.Popen([sys.executable, "-c", f"input()\n{ending}"], stdin=subprocess.PIPE)
    watched = WatchedProcess(child.pid)
    assert not watched.has_ended(0)
    child.communicate(b"\n", timeout=60)
    assert watched.has_ended(60)
    release = tuple(int(part) for part in os.uname().release.split("-")[0].split(".")[:2])
    assert watched.status() == watched.status_soon(0) == (status if release >= (6, 15) else None)
    watched.close()


def test_what_is_asked_of_ray():
    assert Wanted.of(3, None, 1, 2, 0, True, ("a", "b")) == ([{"CPU": 2.0}] * 3, 1, "PACK", {"CPU": 2.0}, True)
    spread = Wanted.of(None, 2, 3, 1, 0.5, False, ("a", "b"))
    assert spread == ([{"CPU": 3.0, "GPU": 1.5}] * 2, 3, "STRICT_SPREAD", {"CPU": 1.0, "GPU": 0.5}, False)
    assert spread.ranks == 6


def test_imports_are_light():
    code = "import sys, ronde.ray, ronde.spark, horovod.ray, horovod.spark\n" \
           "print([m for m in ('ray', 'pyspark', 'torch', 'numpy', 'ctypes') if m in sys.modules])"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "[]"
