"""Every target of the Makefile, each from a clone of its own in which nothing was made before."""

import os
import re
import subprocess
import sys

import pytest

#: What each is given, and what is there afterwards. The longest work of some is left out: that of `test` is what runs
#: this, that of `test-versions`, `test-mpis`, `bench-peers` and `bench-hosts` takes tens of minutes.
TARGETS = {
    "help": ([], None),
    "demo": ([], ".venv/bin/ronde"),
    "test": (["STAGES=setup"], ".venv/bin/ronde"),
    "test-versions": (["ARGS=--list"], ".venv/bin/ronde"),
    "test-mpis": (["ARGS=--collect-only"], ".venv/bin/ronde"),
    "setup": ([], ".venv/bin/ronde"),
    "build": (["PRESET=dev"], "build/dev/src/api/libronde.so"),
    "format": ([], None),
    "lint": ([], "build/lint/build.ninja"),
    "docs": ([], "build/docs/index.html"),
    "dist": (["ARGS=x86_64"], "build/dist/SHA256SUMS"),
    "fuzz": (["ARGS=--help"], ".venv/bin/ronde"),
    "bench-peers": (["ARGS=--help"], "build/peers/venv/bin/python"),
    "bench-hosts": (["ARGS=--help"], "build/peers/venv/bin/python"),
    "bench-check": (["OLD={results}", "NEW={results}"], None),
    "clean": ([], None),
}

LIMIT_S = 1500


def test_every_target_is_tried(root):
    makefile = (root / "Makefile").read_text(encoding="utf-8")
    assert set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE)) == set(TARGETS)


@pytest.mark.parametrize("minutes, says", [
    ("0", "lint             not run, since 0 minutes were over"),
    ("60", "lint             ok"),
])
def test_stages_that_could_not_begin_in_time_are_named(minutes, says, root, tmp_path):
    """In a copy whose only stage does nothing, as `tools/test` writes to the folder that it lies in."""
    copy = tmp_path / "tools" / "test"
    copy.parent.mkdir()
    stage = 'STAGES = [Stage("lint", ["true"], limit_s=10)]\nGROUPS = {'
    text, count = re.subn(r"^STAGES = \[.*?^GROUPS = \{", lambda _: stage, (root / "tools" / "test").read_text(encoding="utf-8"),
                          flags=re.MULTILINE | re.DOTALL)
    assert count == 1
    copy.write_text(text, encoding="utf-8")
    ended = subprocess.run([sys.executable, copy, "lint"], env=os.environ | {"MINUTES": minutes}, stdin=subprocess.DEVNULL,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=60, check=False)
    assert ended.returncode == 0 and says in ended.stdout, ended.stdout
    assert ("; not run, since 0 minutes were over: lint" in ended.stdout) == (minutes == "0"), ended.stdout


@pytest.mark.fresh_clone
@pytest.mark.parametrize("target", TARGETS)
def test_from_a_fresh_clone(target, root, tmp_path):
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", root, clone], check=True)
    arguments, made = TARGETS[target]
    results = sorted((clone / "benchmarks/results").glob("*.jsonl"))[0] if target == "bench-check" else ""
    inherited = {name: value for name, value in os.environ.items() if name not in ("PYTHON", "VIRTUAL_ENV", "MAKEFLAGS")}
    ended = subprocess.run(["make", target, *(each.format(results=results) for each in arguments)], cwd=clone,
                           env=inherited, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           text=True, timeout=LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stdout
    assert made is None or (clone / made).exists(), ended.stdout
    changed = subprocess.run(["git", "status", "--porcelain"], cwd=clone, stdout=subprocess.PIPE, check=True, text=True)
    assert changed.stdout == "", "nothing that is tracked changes, nothing new lies about"
