"""The matrix of versions (tests/versions): it is well-formed, its newest lines are those of `make test`, the page tells it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

VERSIONS = Path(__file__).resolve().parents[1] / "versions"


@pytest.fixture(autouse=True)
def versions_modules(monkeypatch):
    """Its modules have short names: they are importable in these tests only."""
    monkeypatch.syspath_prepend(str(VERSIONS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


def pinned(root):
    """By package, the version that the development environment has."""
    files = ("tools/requirements.txt", "tools/requirements-frameworks.txt")
    text = "".join((root / file).read_text(encoding="utf-8") for file in files)
    return dict(re.findall(r"^([\w-]+)==([\w.]+)", text, flags=re.MULTILINE))


def test_each_line_is_well_formed_and_in_order():
    from matrix import key, load

    lines = load()
    assert {line.framework for line in lines} == {"tensorflow-cpu", "keras", "jax", "numpy", "torch"}
    for framework in {line.framework for line in lines}:
        found = [key(line.version) for line in lines if line.framework == framework]
        assert found == sorted(found), f"{framework}: oldest first"


def test_the_newest_lines_are_what_make_test_runs_with(root):
    from matrix import load, newest

    expected = pinned(root)
    for framework, line in newest(load()).items():
        assert line.version == expected[framework], f"{line.name} in the matrix, {expected[framework]} in tools"
        for package in line.alone:
            name, _, version = package.partition("==")
            assert version == expected[name]
        assert line.beside, f"{line.name} is in .venv"


def test_every_face_has_its_program_and_its_newest_version():
    from matrix import FACES, load, newest

    assert {face.command[0] for face in FACES.values()} == {path.name for path in VERSIONS.glob("programs/face_*.py")}
    assert set(FACES) == {face for line in newest(load()).values() for face in line.expected}


@pytest.mark.parametrize("wrong", [
    'version = "1.0"', 'version = "1.0", jax = "perhaps"', 'version = "1.0", jax = "refused: "',
    'version = "1.x", jax = "works"',
    'version = "1.0", jax = "fails: x"', 'version = "1.0", jax = "works", with = ["jaxlib"]', 'version = "1.0", jaxx = "works"',
    'version = "1.0", jax = "works", beside = "me"', 'version = "1.0", jax = "works" }, { version = "1.0", jax = "works"',
])
def test_a_line_that_is_not_well_formed_is_refused(wrong):
    from matrix import parse

    with pytest.raises(ValueError, match="jax 1"):
        parse(f"[jax]\nversions = [ {{ {wrong} }} ]")


def test_the_page_has_the_tables_of_the_matrix():
    from matrix import load
    from page import PAGE, written

    text = PAGE.read_text(encoding="utf-8")
    assert text == written(text, load()), "python tests/versions/page.py writes them"


@pytest.mark.parametrize("expected, status, output, found", [
    ("works", 0, "", "works"),
    ("refused: needs", 0, "", "works"),
    ("refused: needs", 1, "[0] ImportError: ronde.jax needs JAX 9", "refused: needs"),
    ("refused: needs", 1, "[0] ImportError: jax needs", "fails: ImportError: jax needs"),
    ("works", 1, "[0] ImportError: ronde.jax needs JAX 9", "fails: ImportError: ronde.jax needs JAX 9"),
    ("fails: hook", 1, "[1] AttributeError: no hook", "fails: hook"),
    ("works", 1, "[1] rank 1: 3 checks, 1 failed", "fails: ['[1] rank 1: 3 checks, 1 failed']"),
])
def test_a_finding_is_in_the_words_of_the_expectation_only_where_it_fits(expected, status, output, found):
    from run_matrix import judged

    assert judged(expected, status, output) == found


def two_ranks(root):
    """The command that runs the fastest of the programs."""
    return [root / ".venv/bin/ronde", "run", "-n", "2", "--", root / ".venv/bin/python", VERSIONS / "programs/face_numpy.py"]


@pytest.mark.parametrize("wrong", ["0", "1"])
def test_a_program_passes_and_its_checks_can_fail(run, root, wrong):
    environment = {"RONDE_VERSIONS_WRONG": wrong, "RONDE_TIMEOUT_S": "60"}
    output = run(*two_ranks(root), env=environment)
    assert ("not failed: []" if wrong == "1" else "checks, 0 failed") in output


def test_a_program_fails_with_a_ronde_that_is_wrong(root, tmp_path):
    (tmp_path / "sitecustomize.py").write_text(
        "import ronde.numpy as hvd\n"
        "right = hvd.allgather\n"
        "hvd.allgather = lambda *given, **more: right(*given, **more)[::-1]\n", encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "RONDE_TIMEOUT_S": "60"}
    ended = subprocess.run(two_ranks(root), env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, timeout=300, check=False)
    assert ended.returncode == 1
    assert re.search(r"rank 0: allgather\S*: off by", ended.stdout) and "2 failed" in ended.stdout, ended.stdout
