"""Type hints: of what is shipped, and as a program that uses it sees them (typed_use.py)."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.long  # tools/lint does it too
def test_mypy_finds_nothing():
    check = subprocess.run([sys.executable, "-m", "mypy"], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                           check=False, text=True)
    assert check.returncode == 0, check.stdout


def test_what_is_ignored_has_a_code_and_a_reason():
    for folder in ("python/ronde", "compat/horovod/horovod", "tests/python/typed_use.py"):
        for path in [ROOT / folder, *(ROOT / folder).rglob("*.py")]:
            if path.suffix == ".py":
                for line in path.read_text(encoding="utf-8").splitlines():
                    assert "type: ignore" not in line or re.search(r"# type: ignore\[[\w, -]+\] # \S", line), (path, line)
