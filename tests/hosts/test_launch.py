"""`ronde run -H`: several hosts by real ssh. What the job is told, how it ends, and that nothing is left anywhere."""

from __future__ import annotations

import os
import re
import signal
import time

import pytest

from bed import ROOT, wait_until
from launched import RONDE, Launched, Strays, command

needs_ssh = "ssh"


def run(bed, hosts, *words, options=(), on=0, limit_s=180.0, **more):
    return bed.hosts[on].run(*command(bed, hosts, *words, options=options), limit_s=limit_s, **more)


def shell(bed, hosts, script, **more):
    return run(bed, hosts, "sh", "-c", script, **more)


def lines(text):
    """Lines without their ranks' prefixes, in order of ranks."""
    return [line.partition("] ")[2] for line in sorted(text.splitlines())]


# ---- What ranks are told


@pytest.mark.hosts(3, needs_ssh)
def test_places_addresses_and_the_callers_environment(bed):
    strays = Strays(bed)
    script = ('echo $RONDE_RANK/$RONDE_SIZE local $RONDE_LOCAL_RANK/$RONDE_LOCAL_SIZE cross $RONDE_CROSS_RANK/'
              '$RONDE_CROSS_SIZE on $(hostname) at $RONDE_ADDRESS master $MASTER_ADDR in $PWD "$COLOUR" $HOST_ONLY $X')
    done = shell(bed, "rh1:1,rh2:2,10.77.0.3:1", script, options=["--env", "X=of all"], cwd="/usr/share",
                 env={"COLOUR": "a 'b' \"c\" $d é", "SSH_TTY": "/dev/pts/7", "HOST_ONLY": "1"})
    assert done.returncode == 0, done.stderr
    end = "master 10.77.0.1 in /usr/share a 'b' \"c\" $d é 1 of all"
    assert lines(done.stdout) == [
        f"0/4 local 0/1 cross 0/3 on rh1 at 10.77.0.1 {end}",
        f"1/4 local 0/2 cross 1/3 on rh2 at 10.77.0.2 {end}",
        f"2/4 local 1/2 cross 0/1 on rh2 at 10.77.0.2 {end}",
        f"3/4 local 0/1 cross 2/3 on rh3 at 10.77.0.3 {end}",
    ]
    assert done.stderr == ""
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
def test_a_host_file_fills_hosts_in_order(bed):
    file = bed.folder / "hosts.txt"
    file.write_text("rh2 slots=2  # the faster one\nrh1:4\n")
    done = bed.hosts[0].run(RONDE, "run", "-n", 3, "--hostfile", file, "--ssh", bed.ssh, "--", "hostname")
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["rh2", "rh2", "rh1"]


@pytest.mark.hosts(3, needs_ssh)
def test_from_a_host_that_takes_no_part_and_over_ipv6(bed):
    for host in bed.hosts:
        host.check("ip", "-4", "addr", "flush", "dev", "eth0")
    program = "import ronde.numpy as r, numpy as np; r.init(); print(r.allreduce(np.ones(1), r.Sum)[0])"
    done = run(bed, "rh2-6:2,rh3-6:1", RONDE.with_name("python"), "-c", program, options=["-v"])
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["3.0"] * 3
    assert "ranks 0 to 1 on rh2-6, at fd77::2: ssh reached the host there" in done.stderr


@pytest.mark.hosts(2, needs_ssh)
def test_the_key_is_in_no_command_line(bed):
    job = Launched(bed, "rh1:1,rh2:1", "sh", "-c", "echo $RONDE_KEY; sleep 100")
    keys = job.wait_for_lines(2)
    assert keys[0] == keys[1] and re.fullmatch("[0-9a-f]{64}", keys[0])
    seen = [bytes_of(pid) for host in bed.hosts for pid in host.processes()]
    assert any(b"agent" in each for each in seen)
    assert not any(keys[0].encode() in each for each in seen)
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143


def name_of(pid):
    try:
        with open(f"/proc/{pid}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def bytes_of(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read()
    except OSError:
        return b""


# ---- What is printed


@pytest.mark.hosts(2, needs_ssh)
def test_output_is_whole_and_files_are_kept(bed):
    folder = bed.folder / "logs"
    script = "i=0; while [ $i -lt 20000 ]; do echo line $i of $RONDE_RANK; i=$((i+1)); done; echo last >&2"
    done = shell(bed, "rh1:1,rh2:2", script, options=["--output-dir", folder])
    assert done.returncode == 0, done.stderr
    for rank in range(3):
        expected = "".join(f"line {i} of {rank}\n" for i in range(20000))
        assert (folder / f"rank.{rank}" / "stdout").read_text() == expected
        assert (folder / f"rank.{rank}" / "stderr").read_text() == "last\n"
    assert len(done.stdout.splitlines()) == 60000
    assert sorted(done.stderr.splitlines()) == ["[0] last", "[1] last", "[2] last"]


@pytest.mark.hosts(2, needs_ssh)
def test_what_start_files_print_is_no_output(bed):
    home = bed.folder / "home"
    home.mkdir()
    (home / ".bashrc").write_text("echo Welcome to this cluster\necho quota: 3 % >&2\n")
    talking = bed.folder / "bin" / "talking-ssh"
    talking.write_text(f'#!/bin/sh\nfor last; do :; done\necho noise before; exec {bed.ssh} "$@"\n')
    talking.chmod(0o755)
    done = bed.hosts[0].run(RONDE, "run", "-H", "rh1:1,rh2:1", "--ssh", talking, "--", "hostname")
    assert (done.returncode, lines(done.stdout), done.stderr) == (0, ["rh1", "rh2"], "")


# ---- What cannot be started


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.parametrize("hosts, words, options, code, sentence", [
    ("rh1:1,rh9:1", ["true"], [], 125, "host rh9 cannot be reached by ssh: ssh: Could not resolve hostname rh9"),
    ("rh1:1,10.77.0.9:1", ["true"], [], 125, "host 10.77.0.9 cannot be reached by ssh: "),
    ("rh1:1,rh2:1", ["no-such-program"], [], 127, ": command not found: 'no-such-program' is in no folder of PATH"),
    ("rh1:1,rh2:1", ["/etc/passwd"], [], 126, ": cannot run '/etc/passwd': Permission denied"),
    ("rh1:1,rh2:1", ["true"], ["--chdir", "/nowhere"], 125, "there is no folder '/nowhere' to work in (--chdir names another)"),
    ("rh1:1,rh2:1", ["true"], ["--remote-python", "/nowhere/python"], 125, "cannot run /nowhere/ronde"),
    ("rh1:1,rh2:1", ["true"], ["--network-interface", "ib"], 125, " has no network interface for 'ib'; it has lo"),
    ("rh1:1,rh2:1", ["true"], ["--network-interface", "=lo"], 0, ""),
    ("rh1:1,rh2", ["true"], ["-n", "3"], 2, "3 ranks are more than the hosts' 2 slots"),
    ("rh1:x", ["true"], [], 2, "'x' is no number of ranks; expected 1 or more, as in node1:4"),
])  # fmt: skip
def test_what_cannot_be_started_is_said_in_one_sentence(bed, hosts, words, options, code, sentence):
    strays = Strays(bed)
    done = run(bed, hosts, *words, options=options)
    assert done.returncode == code, done.stderr
    assert sentence in done.stderr
    assert len(done.stderr.splitlines()) == (1 if code not in (0, 2) else done.stderr.count("\n"))
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
def test_an_unknown_host_key_is_refused(bed):
    known = bed.folder / "known_hosts"
    known.write_text("".join(line for line in known.read_text().splitlines(True) if not line.startswith("rh2,")))
    done = run(bed, "rh1:1,rh2:1", "true")
    assert done.returncode == 125
    assert "host rh2 cannot be reached by ssh: Host key verification failed." in done.stderr


@pytest.mark.hosts(2, needs_ssh)
def test_a_host_that_accepts_and_says_nothing_ends_the_wait(bed):
    mute = bed.folder / "bin" / "mute-ssh"
    mute.write_text("#!/bin/sh\nexec sleep 100\n")
    mute.chmod(0o755)
    began = time.monotonic()
    done = bed.hosts[0].run(RONDE, "run", "-H", "rh1:1,rh2:1", "--ssh", mute, "--start-timeout", 2, "--", "true")
    assert done.returncode == 125
    assert "host rh2 has not answered within 2 s (--start-timeout)" in done.stderr
    assert time.monotonic() - began < 15


# ---- How it ends


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.parametrize("how, code, sentence", [
    ("exit 7", 7, "rank 2 on rh2 ended with code 7 after "),
    ("kill -9 $$", 137, "rank 2 on rh2 was killed by signal 9 (SIGKILL) after "),
])
def test_a_rank_that_fails_is_named_with_its_host(bed, how, code, sentence):
    strays = Strays(bed)
    done = shell(bed, "rh1:2,rh2:1", f"[ $RONDE_RANK = 2 ] && {how}; sleep 100", options=["--grace", 0.2])
    assert done.returncode == code
    assert sentence in done.stderr and "ranks 0, 1 then were killed by signal 15 (SIGTERM)" in done.stderr
    strays.wait_until_gone()


@pytest.mark.hosts(3, needs_ssh)
def test_ranks_that_train_name_who_died(bed):
    strays = Strays(bed)
    steps = ROOT / "tests" / "hosts" / "programs" / "steps.py"
    job = Launched(bed, "rh1:1,rh2:1,rh3:1", RONDE.with_name("python"), steps, 1000)
    assert job.wait_for_lines(3) == ["ready"] * 3
    (victim,) = [pid for pid in strays.of(bed.hosts[2]) if b"steps.py" in bytes_of(pid)]
    os.kill(victim, signal.SIGKILL)
    assert job.end() == 137
    assert "rank 2 on rh3 was killed by signal 9 (SIGKILL)" in job.err
    assert "ranks 0, 1 then ended with code 3" in job.err
    assert len(re.findall(r"failed at [\d.]+: PeerLostError: .*rank 2", job.out)) == 2
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.parametrize("sent, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_all_ranks_in_order(bed, sent, code):
    strays = Strays(bed)
    trap = "trap 'echo saved $RONDE_RANK; exit 0' INT TERM; echo up; while :; do sleep 0.05; done"
    job = Launched(bed, "rh1:1,rh2:2", "bash", "-c", trap)
    assert job.wait_for_lines(3) == ["up"] * 3
    job.process.send_signal(sent)
    assert job.end() == code
    assert sorted(job.out.splitlines()) == ["[0] saved 0", "[1] saved 1", "[2] saved 2"]
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.parametrize("victim", ["launcher", "ssh", "agent", "guardian"])
def test_kill_9_of_anything_leaves_nothing(bed, victim):
    strays = Strays(bed)
    # A daemon whose parent is gone, and a child in a session of its own.
    tree = "(setsid sleep 1000 &); setsid sleep 1000 & echo up; sleep 1000"
    job = Launched(bed, "rh1:1,rh2:1", "sh", "-c", tree)
    assert job.wait_for_lines(2) == ["up", "up"]
    one, two = bed.hosts
    if victim == "launcher":
        job.process.kill()
    else:
        name = {"ssh": "ssh", "agent": "ronde-agent", "guardian": "ronde-guardian"}[victim]
        host = one if victim == "ssh" else two
        (pid,) = [each for each in strays.of(host) if name_of(each) == name]
        os.kill(pid, signal.SIGKILL)
        assert job.end() == 125
        reason = ": the job's guardian process was killed from outside; all ranks there have been ended"
        assert ("host rh2" + (reason if victim == "guardian" else " is lost: the connection to it ended")) in job.err
    strays.wait_until_gone()
    assert not list(two.folder.glob("ronde-*"))


@pytest.mark.hosts(3, needs_ssh)
def test_a_host_without_power_is_named_within_ten_seconds_and_the_others_end(bed):
    strays = Strays(bed)
    job = Launched(bed, "rh1:1,rh2:1,rh3:1", "sh", "-c", "echo up; sleep 1000", options=["--grace", 0.2])
    assert job.wait_for_lines(3) == ["up"] * 3
    bed.hosts[1].faults.cut_power()
    began = time.monotonic()
    assert job.end(20) == 125
    assert 8 < time.monotonic() - began < 13
    assert "host rh2 does not answer any more: nothing came from there for 10 s" in job.err
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.long
def test_ranks_end_where_only_the_launcher_is_out_of_reach(bed):
    """The cable of the launcher's host is pulled: the agent hears nothing, and no end of its connection.

    What stays is the ssh server's process for that connection, which waits for as long as the server is set to.
    """
    strays = Strays(bed)
    job = Launched(bed, "rh1:1,rh2:1", "sh", "-c", "echo up; sleep 1000")
    assert job.wait_for_lines(2) == ["up", "up"]
    bed.hosts[0].faults.link_down()
    wait_until(lambda: {name_of(each) for each in strays.of(bed.hosts[1])} <= {"sshd"}, "the ranks of rh2 to end", 45)
    assert job.end(20) == 125


@pytest.mark.hosts(2, needs_ssh)
def test_a_suspended_launcher_suspends_the_job_on_all_hosts(bed):
    strays = Strays(bed)
    job = Launched(bed, "rh1:1,rh2:1", "bash", "-c", "echo up; while :; do sleep 0.05; done")
    assert job.wait_for_lines(2) == ["up", "up"]

    def states(host):
        return [open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0]
                for pid in strays.of(host) if bytes_of(pid).startswith(b"bash\0-c")]  # fmt: skip

    job.process.send_signal(signal.SIGTSTP)
    wait_until(lambda: all("T" in states(host) for host in bed.hosts), "the ranks to stop")
    job.process.send_signal(signal.SIGCONT)
    os.kill(job.process.pid, signal.SIGCONT)  # the nsenter around it has stopped with it
    wait_until(lambda: all("T" not in states(host) for host in bed.hosts), "the ranks to go on")
    job.process.send_signal(signal.SIGTERM)
    assert job.end() == 143
    strays.wait_until_gone()


@pytest.mark.hosts(2, needs_ssh)
def test_ranks_of_a_host_share_its_memory(bed):
    program = """
import numpy as np, ronde.numpy as rnp
rnp.init()
assert (rnp.allreduce(np.arange(100000.0), rnp.Sum) == 5 * np.arange(100000.0)).all()
print(len({line.split()[4] for line in open("/proc/self/maps") if "/memfd:ronde" in line}))
rnp.shutdown()"""
    done = run(bed, "rh1:2,rh2:3", RONDE.with_name("python"), "-c", program)
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["2", "2", "3", "3", "3"]
    assert done.stderr == ""


# ---- Horovod's names, and a training script


@pytest.mark.hosts(2, needs_ssh)
def test_horovodrun(bed):
    done = bed.hosts[0].run(RONDE.with_name("horovodrun"), "-np", 3, "-H", "rh1:1,rh2:2", "--network-interface", "eth0",
                            "sh", "-c", "echo $HOROVOD_RANK $HOROVOD_HOSTNAME $RONDE_ADDRESS",
                            env={"RONDE_SSH": str(bed.ssh)})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert lines(done.stdout) == ["0 rh1 10.77.0.1", "1 rh2 10.77.0.2", "2 rh2 10.77.0.2"]


@pytest.mark.hosts(2, needs_ssh)
def test_horovod_run_of_a_function(bed):
    program = ROOT / "tests" / "hosts" / "programs" / "run_function.py"
    done = bed.hosts[0].run(RONDE.with_name("python"), program, "rh1:1,rh2:2", env={"RONDE_SSH": str(bed.ssh)}, limit_s=180)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[(0, 0, 'rh1', 6.0), (1, 0, 'rh2', 6.0), (2, 1, 'rh2', 6.0)]",
        "True rank 2 of horovod.run failed:",
    ]


@pytest.mark.hosts(2, needs_ssh)
@pytest.mark.long
def test_a_network_trains_to_the_same_weights_as_on_one_host(bed):
    script = ROOT / "examples" / "torch" / "fashion_mnist.py"
    python = RONDE.with_name("python")
    one = bed.hosts[0].run(RONDE, "run", "-n", 4, "--", python, script, "--epochs", 1, limit_s=240)
    two = run(bed, "rh1:2,rh2:2", python, script, "--epochs", 1, limit_s=240)
    weights = [re.findall(r"weights +(\w{12}), the same bits on all ranks", done.stdout) for done in (one, two)]
    assert len(weights[0]) == 1 and weights[0] == weights[1], (one.stdout, two.stdout, two.stderr)


@pytest.mark.hosts(2, needs_ssh)
def test_what_the_readme_says(bed):
    """Its script and its command, with the bed's names of hosts and one rank on each."""
    readme = (ROOT / "README.md").read_text()
    section = readme.partition("## More than one machine")[2].partition("\n## ")[0]
    (line,) = re.findall(r"```sh\n(.*)\n```", section)
    assert line == re.search(r"```sh\n(ronde run.*)\n```", (ROOT / "docs" / "hosts.md").read_text())[1]
    (script,) = re.findall(r"<!-- file: train.py -->\n```python\n(.*?)```", readme, re.DOTALL)
    folder = bed.folder / "project"
    folder.mkdir()
    (folder / "train.py").write_text(script)
    path = f"{RONDE.parent}:{os.environ['PATH']}"
    done = bed.hosts[0].run("sh", "-c", line.replace("node1:4", "rh1:1").replace("node2:4", "rh2:1"), cwd=folder, limit_s=180,
                            env={"RONDE_SSH": str(bed.ssh), "PATH": path})  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = [re.fullmatch(r"rank (\d) of 2: loss 0\.\d+", each) for each in lines(done.stdout)]
    assert [match and match[1] for match in found] == ["0", "1"], done.stdout
