"""What the installation tests share: folders, and a way to run a command that shows its output when it fails."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
os.environ.setdefault("RONDE_PROBE", "0")  # jobs of tests leave no measured table in the user's cache


def run_command(*command, cwd=ROOT, env=None, limit_s=300):
    """Returns what the command printed; fails the test, with that, when it does not exit with 0."""
    result = subprocess.run([str(part) for part in command], cwd=cwd, env={**os.environ, **(env or {})},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, timeout=limit_s, check=False)
    assert result.returncode == 0, f"{' '.join(map(str, command))} exited with {result.returncode}:\n{result.stdout}"
    return result.stdout


@pytest.fixture(scope="session")
def root():
    return ROOT


@pytest.fixture(scope="session")
def run():
    return run_command
