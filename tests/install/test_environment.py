"""tools/environment: which Python .venv has, and that nothing in it goes without a word."""

import os
import shutil
import subprocess
import sys

import pytest

#: A stand-in for another Python: it says so when asked for its version, and is this one for all else.
OTHER_PYTHON = """#!/bin/sh
case "$*" in
  *"print(sys.version)"*) echo "3.99.0 (another one)" ;;
  *-V*) echo "Python 3.99.0" ;;
  *) exec {python} "$@" ;;
esac
"""


@pytest.fixture(scope="session")
def made(root, tmp_path_factory):
    """The scripts in a folder of their own, with no packages to install, and their .venv."""
    made = tmp_path_factory.mktemp("made")
    (made / "tools").mkdir()
    for name in ("environment", "content_hash"):
        shutil.copy(root / "tools" / name, made / "tools" / name)
    (made / "tools/requirements.txt").write_text("# none\n")
    ended = make_environment(made)
    assert ended.returncode == 0, ended.stdout
    (made / ".venv/kept").touch()
    return made


@pytest.fixture
def clone(made, tmp_path):
    return shutil.copytree(made, tmp_path / "clone", symlinks=True)


@pytest.fixture
def other(tmp_path):
    """A folder for PATH in which python3 is another Python."""
    folder = tmp_path / "other"
    folder.mkdir()
    (folder / "python3").write_text(OTHER_PYTHON.format(python=sys.executable))
    (folder / "python3").chmod(0o755)
    return folder


def make_environment(clone, **environment):
    return subprocess.run(["tools/environment"], cwd=clone, env={**without_python(), **environment}, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, timeout=120)


def without_python():
    return {name: value for name, value in os.environ.items() if name != "PYTHON"}


def test_another_python_in_the_path_changes_nothing(clone, other):
    ended = make_environment(clone, PATH=f"{other}{os.pathsep}{os.environ['PATH']}")
    assert (ended.returncode, ended.stdout) == (0, "")
    assert (clone / ".venv/kept").exists()


def test_another_python_that_is_asked_for_is_refused_with_what_to_do(clone, other):
    ended = make_environment(clone, PYTHON=str(other / "python3"))
    assert ended.returncode == 1
    assert "PYTHON=" in ended.stdout and "make clean" in ended.stdout and ended.stdout.count("\n") == 1
    assert (clone / ".venv/kept").exists()


def test_the_same_python_by_another_name_is_welcome(clone):
    ended = make_environment(clone, PYTHON=str(clone / ".venv/bin/python"))
    assert (ended.returncode, ended.stdout) == (0, "")
    assert (clone / ".venv/kept").exists()


def test_an_environment_whose_python_is_gone_is_made_anew_and_that_is_said(clone):
    (clone / ".venv/bin/python").unlink()
    ended = make_environment(clone)
    assert ended.returncode == 0, ended.stdout
    assert "making .venv anew" in ended.stdout
    assert not (clone / ".venv/kept").exists()
