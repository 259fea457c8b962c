"""The bed itself: that its hosts are hosts, that its faults do what they say, and that nothing of it is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import bed as bed_module
from bed import Bed, wait_until
from levels import NEEDS, Level, level, missing, why_not


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.mark.hosts(3, "namespaces")
def test_hosts_reach_each_other_and_share_nothing_else(bed):
    one, two, _ = bed.hosts
    for address in (two.address, two.address6, "rh2", "rh2-6"):
        one.check(sys.executable, "-c", f"import socket; socket.getaddrinfo('{address}', 22)")
    for address in (two.address, two.address6):
        refused = one.run(sys.executable, "-c", f"import socket; socket.create_connection(('{address}', 9), 5)")
        assert "ConnectionRefusedError" in refused.stderr  # the host answers
    assert [host.check("hostname").strip() for host in bed.hosts] == ["rh1", "rh2", "rh3"]
    assert len({host.check("cat", "/proc/sys/kernel/random/boot_id") for host in bed.hosts}) == 3
    for folder in ("/tmp", "/dev/shm", "/run"):
        one.check("touch", f"{folder}/mine")
        assert two.run("test", "-e", f"{folder}/mine").returncode == 1
        assert not os.path.exists(f"{folder}/mine")
    one.check("touch", one.folder / "shared")
    assert (one.folder / "shared").exists()
    two.check("test", "-e", one.folder / "shared")
    one.check(sys.executable, "-c", "import ronde")


@pytest.mark.hosts(1, "namespaces")
def test_a_container_of_a_host_shares_its_network_alone(bed):
    (host,) = bed.hosts
    host.check("touch", "/tmp/mine", "/dev/shm/mine", host.folder / "shared")
    inside = "ls /tmp /dev/shm; test -e $0/shared; hostname apart; hostname; echo $$; "
    inside += "ls /sys/class/net; ip -4 -o addr show eth0"
    said = host.check(*host.in_container("sh", "-ec", inside, host.folder))
    assert "mine" not in said and "\napart\n1\neth0\nlo\n" in said and f"inet {host.address}/24" in said
    assert host.check("hostname") == "rh1\n"


@pytest.mark.hosts(1)
def test_a_command_that_does_not_end_is_a_failure(bed):
    (host,) = bed.hosts
    with pytest.raises(AssertionError, match="did not end within 0.2 s"):
        host.run("sleep", "100", limit_s=0.2)
    assert not bed.has_namespaces or host.processes() == []
    process = host.start("sleep", "100")
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == -signal.SIGTERM
    assert host.run("sh", "-c", "exit 7").returncode == 7


@pytest.mark.hosts(3, "ssh")
def test_ssh_takes_known_hosts_only(bed):
    one = bed.hosts[0]
    assert one.check(bed.ssh, "rh2", "hostname") == "rh2\n"
    assert one.check(bed.ssh, "rh3-6", "hostname") == "rh3\n"
    assert one.run(bed.ssh, "rh2", "exit 7").returncode == 7
    known = bed.folder / "known_hosts"
    kept = [line for line in known.read_text().splitlines(keepends=True) if not line.startswith("rh3,")]
    known.write_text("".join(kept))
    unknown = one.run(bed.ssh, "rh3", "hostname")
    assert (unknown.returncode, unknown.stdout) == (255, "") and "Host key verification failed" in unknown.stderr


# ---- Faults

SERVER = """
import socket, sys
with socket.create_server((sys.argv[1], 5000)) as listening:
    print("ready", flush=True)
    connection, _ = listening.accept()
    while got := connection.recv(1 << 16):
        print(len(got), got[:16], flush=True)
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000), 10) as connection:
    for line in sys.stdin:
        connection.sendall(line.rstrip("\\n").encode())
        print("sent", flush=True)
"""


class Pair:
    """A connection between two hosts, over which lines go."""

    def __init__(self, sender, receiver):
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        self.server = receiver.start(sys.executable, "-c", SERVER, receiver.address, **pipes)
        assert self.server.stdout.readline() == "ready\n"
        self.client = sender.start(sys.executable, "-c", CLIENT, receiver.address, **pipes)

    def send(self, line):
        self.client.stdin.write(line + "\n")
        self.client.stdin.flush()
        return self.client.stdout.readline()


@pytest.mark.hosts(2, "faults")
def test_corrupted_bytes_arrive(bed):
    one, two = bed.hosts
    pair = Pair(one, two)
    assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'0123'\n"
    two.faults.corrupt()
    assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'A123'\n"
    two.faults.heal()
    assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'0123'\n"


@pytest.mark.hosts(2, "faults")
def test_a_reset_breaks_the_senders_connection(bed):
    one, two = bed.hosts
    pair = Pair(one, two)
    assert pair.send("0123") == "sent\n"
    two.faults.reset(of=one)
    pair.send("0123")
    pair.client.stdin.write("0123\n" * 3)
    _, err = pair.client.communicate(timeout=180)
    assert "ConnectionResetError" in err or "BrokenPipeError" in err
    assert pair.server.poll() is None


@pytest.mark.hosts(3, "faults")
def test_packets_are_lost(bed):
    one, two, three = bed.hosts
    ping = ("ping", "-q", "-i", "0.002", "-W", "0.1")

    def lost(host, count):
        said = one.run(*ping, "-c", str(count), host.address).stdout
        return float(said.split("% packet loss")[0].split()[-1])

    two.faults.loss(30)
    assert 10 < lost(two, 200) < 60
    two.faults.deaf(of=one)
    assert lost(two, 5) == 100 and lost(three, 5) == 0
    two.faults.heal()
    assert lost(two, 5) == 0
    two.faults.link_down()
    assert lost(two, 5) == 100
    two.faults.link_up()
    wait_until(lambda: lost(two, 1) == 0, "a link that is up again")


DATAGRAMS = """
import socket, sys, time
host, count = sys.argv[2], 150
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as own:
    if sys.argv[1] == "receive":
        own.bind((host, 5000))
        own.settimeout(60)
        print("ready", flush=True)
        numbers = []
        while not numbers or numbers[-1] != count:
            numbers.append(int(own.recv(100)))
            own.settimeout(2)
        print(*numbers)
    else:
        for number in range(count):
            own.sendto(str(number).encode(), (host, 5000))
            time.sleep(0.0005)  # a datagram that waits longer is overtaken by some
        time.sleep(0.3)
        own.sendto(str(count).encode(), (host, 5000))
"""


@pytest.mark.hosts(3, "wire")
def test_a_wire_is_late_and_brings_things_twice_and_in_another_order(bed):
    one, two, three = bed.hosts

    def numbers():
        receiver = two.start(sys.executable, "-c", DATAGRAMS, "receive", two.address, stdout=subprocess.PIPE)
        assert receiver.stdout.readline() == "ready\n"
        one.check(sys.executable, "-c", DATAGRAMS, "send", two.address)
        out, _ = receiver.communicate(timeout=60)
        return [int(word) for word in out.split()]

    def round_trip(host):
        one.check("ping", "-c1", "-w20", host.address)  # who has which address is known then
        said = one.check("ping", "-c3", "-i0.2", "-w20", host.address)
        return float(said.rpartition(" = ")[2].split("/")[0])  # the least of them

    assert numbers() == list(range(151))
    two.faults.wire(delay_ms=30)
    assert 60 <= round_trip(two) < 1000 and round_trip(three) < 30
    assert numbers() == list(range(151)), "they keep their order"
    two.faults.wire(reordered=20, twice=20)
    came = numbers()
    assert sorted(set(came)) == list(range(151)) and len(came) > 160 and came != sorted(came)
    first_times = list(dict.fromkeys(came))
    assert sum(a > b for a, b in zip(first_times, first_times[1:])) > 5
    two.faults.heal()
    assert numbers() == list(range(151)) and round_trip(two) < 30


@pytest.mark.hosts(2, "rate")
def test_a_link_has_a_rate(bed):
    one, two = bed.hosts
    program = """
import socket, sys, time
if sys.argv[1] == "serve":
    with socket.create_server((sys.argv[2], 5000)) as listening:
        print("ready", flush=True)
        connection, _ = listening.accept()
        began = time.monotonic()
        got = 0
        while part := connection.recv(1 << 16):
            got += len(part)
        print(got / (time.monotonic() - began))
else:
    with socket.create_connection((sys.argv[2], 5000)) as connection:
        connection.sendall(bytes(3_000_000))
"""
    two.faults.rate("100mbit")
    server = two.start(sys.executable, "-c", program, "serve", two.address, stdout=subprocess.PIPE)
    assert server.stdout.readline() == "ready\n"
    one.check(sys.executable, "-c", program, "send", two.address)
    out, _ = server.communicate(timeout=180)
    assert 4e6 < float(out) < 20e6  # with a burst that costs nothing


@pytest.mark.hosts(2, "namespaces")
def test_a_power_cut_tells_nobody(bed):
    one, two = bed.hosts
    pair = Pair(two, one)
    assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'0123'\n"
    two.faults.cut_power()
    pair.client.wait(10)
    states = one.check("ss", "-Htn", "state", "established")
    assert len(states.splitlines()) == 1 and pair.server.poll() is None


# ---- Nothing is left

MAKER = """
import signal, sys, time
sys.path.insert(0, {here!r})
from bed import Bed
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
with Bed(2, ssh={ssh}) as bed:
    for host in bed.hosts:
        host.start("sh", "-c", "trap '' TERM HUP INT; setsid sleep 1000 & exec sleep 1000")
        if bed.has_namespaces:
            while len(host.processes()) < 2:
                time.sleep(0.001)
            print(*host.processes(), host.pid, bed.pid, bed._guardian.pid, end=" ")
    print(bed.folder, flush=True)
    time.sleep(1000)
"""


@pytest.mark.hosts(0, "namespaces")
@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_nothing_is_left_of_a_bed_whose_maker_is_killed(bed, sig):
    program = MAKER.format(here=str(Path(bed_module.__file__).parent), ssh=bed.level is Level.ROOT)
    maker = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    *pids, folder = maker.stdout.readline().split()
    pids = [int(pid) for pid in pids]
    assert len(pids) >= 10 and all(lives(pid) for pid in pids) and os.path.exists(folder)
    maker.send_signal(sig)
    maker.wait(10)
    wait_until(lambda: not any(lives(pid) for pid in pids), "the end of all of the bed's processes", 10)
    wait_until(lambda: not os.path.exists(folder), "the end of the bed's folder", 10)


@pytest.mark.hosts(1, "namespaces")
def test_nothing_is_left_of_a_bed_whose_guardian_is_killed(bed):
    process = bed.hosts[0].start("sleep", "1000")
    pid = process.inner_pid()
    os.kill(bed.pid, signal.SIGKILL)
    process.wait(10)
    wait_until(lambda: not lives(pid), "the end of the host's process", 10)


def test_a_folder_that_was_left_is_swept():
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = Path(bed_module.tempfile.gettempdir()) / f"ronde-bed-{gone.pid}-left"
    left.mkdir()
    with Bed(0, level=Level.NONE):
        assert not left.exists()


@pytest.mark.hosts(2, "namespaces")
def test_beds_do_not_meet(bed):
    with Bed(2) as other:
        server = other.hosts[1].start(sys.executable, "-c", SERVER, other.hosts[1].address, stdout=subprocess.PIPE)
        assert server.stdout.readline() == "ready\n"
        connect = f"import socket; socket.create_connection(('{bed.hosts[1].address}', 5000), 5)"
        assert "ConnectionRefusedError" in bed.hosts[0].run(sys.executable, "-c", connect).stderr
        other.hosts[0].check(sys.executable, "-c", connect)


# ---- Levels

@pytest.mark.parametrize("at", list(Level))
def test_each_level_that_can_be_had_works(at):
    if why_not(at):
        pytest.skip(f"no bed of level {at.value} here: {why_not(at)}")
    with Bed(2, level=at) as made:
        one, two = made.hosts
        pair = Pair(one, two)
        assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'0123'\n"
        if "faults" not in missing(at):
            two.faults.corrupt()
            assert pair.send("0123") == "sent\n" and pair.server.stdout.readline() == "4 b'A123'\n"


def test_what_is_missing_is_said(monkeypatch):
    assert "ssh needs root" in missing(Level.USER)["ssh"]
    assert set(missing(Level.NONE)) == set(NEEDS)
    with pytest.raises(RuntimeError, match="has no sshd"):
        Bed(1, ssh=True, level=Level.USER)
    assert level() in Level and socket.gethostname() not in ("rh1", "rh2")
