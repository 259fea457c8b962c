"""`ronde doctor -H`: what it says of hosts that are well, and of what was done to them."""

from __future__ import annotations

import json
import os
import re

import pytest

from launched import RONDE


def doctor(bed, hosts, *options, limit_s=300.0):
    path = f"{RONDE.parent}:{os.environ['PATH']}"  # whose Python has Ronde
    return bed.hosts[0].run(RONDE, "doctor", "-H", hosts, "--ssh", bed.ssh, *options, limit_s=limit_s, env={"PATH": path})


def block(host, rule):
    """Of what comes in."""
    host.check("nft", "-f", "-", input=f"table inet f {{\nchain i {{\ntype filter hook input priority 0;\n{rule}\n}}\n}}\n")


@pytest.mark.hosts(3, "ssh")
def test_hosts_that_are_well(bed):
    done = doctor(bed, "rh1,rh2,rh3")
    assert done.returncode == 0, done.stdout + done.stderr
    for pair in ("rh1 - rh2", "rh1 - rh3", "rh2 - rh3"):
        line = rf"  ok +{pair} +\d+ us one way, \d+\.\d\d GB/s there, \d+\.\d\d back, clocks -?\d+\.\d{{3}} ms apart"
        assert re.search(line, done.stdout), done.stdout
    assert done.stdout.count("network") == 3 and "eth0 10.77.0.3 (MTU 1500)" in done.stdout
    assert done.stdout.count("deaths") == 3
    assert "0 failures, 0 warnings" in done.stdout, done.stdout
    assert done.stderr == ""


@pytest.mark.hosts(2, "ssh")
def test_for_programs(bed):
    done = doctor(bed, "rh1:4,rh2:4", "--json")
    report = json.loads(done.stdout)
    assert [host["host"] for host in report["hosts"]] == ["rh1", "rh2"]
    assert report["hosts"][1]["packages"]["ronde"]
    assert report["pairs"][0]["grade"] == "ok" and report["together"] == []


@pytest.mark.hosts(2, "ssh", "faults")
@pytest.mark.parametrize("verdict, sentence", [
    ("reject with tcp reset", "no connection to 10.77.0.2:{port}: connect: Connection refused"),
    ("drop", "no connection to 10.77.0.2:{port}: connect: timed out"),
])
def test_a_firewall_on_one_host(bed, verdict, sentence):
    # As firewalls are: who has been called answers, ssh may come in.
    rule = f"tcp dport != 22 ct state new {verdict}"
    block(bed.hosts[1], rule)
    done = doctor(bed, "rh1,rh2")
    assert done.returncode == 1, done.stdout
    pattern = re.escape(sentence).replace(r"\{port\}", r"\d+")
    assert re.search(rf"  failure +rh1 - rh2 +{pattern}", done.stdout), done.stdout
    assert "-> a firewall" in done.stdout and "the other way" not in done.stdout


@pytest.mark.hosts(2, "ssh", "faults")
@pytest.mark.long
def test_large_packets_that_vanish(bed):
    # What a switch of a smaller MTU does, but not to ssh, which would not get in either.
    block(bed.hosts[1], "tcp dport 22 accept\ntcp sport 22 accept\nmeta length > 1000 drop")
    done = doctor(bed, "rh1,rh2")
    assert done.returncode == 1, done.stdout
    assert "connected, but then: timed out" in done.stdout and "MTUs differ on the way" in done.stdout


@pytest.mark.hosts(2, "ssh")
def test_a_host_that_cannot_be_reached(bed):
    done = doctor(bed, "rh1,rh9")
    assert done.returncode == 125
    assert done.stderr.startswith("ronde doctor: host rh9 cannot be reached by ssh: ")
