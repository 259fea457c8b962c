"""The example of elastic training does what its first lines promise, started as they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

from launching import launcher

EXAMPLES = Path(__file__).resolve().parents[2] / "examples/torch"


def run_as_it_says(script: str, *more: str, limit_s: float = 120.0) -> list[str]:
    """Runs the command in the script's second line; the lines that ranks have printed, without their prefix."""
    head = (EXAMPLES / script).read_text(encoding="utf-8").splitlines()[1]
    command = re.search(r"ronde run .*$", head)
    assert command is not None, f"{script}: its second line must end with how to start it: {head}"
    places = {"ronde": launcher(), "python": sys.executable}
    words = [places.get(word, word) for word in shlex.split(command[0])]
    ended = subprocess.run([*words, *more], cwd=EXAMPLES, env=os.environ, stdin=subprocess.DEVNULL, text=True,
                           stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=limit_s, check=False)
    assert ended.returncode == 0, ended.stdout
    return [re.sub(r"^\[\d+\] ", "", line) for line in ended.stdout.splitlines()]


def test_elastic():
    lines = run_as_it_says("elastic.py")
    assert "rank 1 gives up at step 37" in lines
    for rank in (0, 1):
        assert f"rank {rank} begins at step 0" in lines and f"rank {rank} begins at step 30" in lines
    ends = sorted(line for line in lines if "steps, error" in line)
    assert [line.split(", error")[0] for line in ends] == [f"rank {rank} of 2: 120 steps" for rank in (0, 1)]
    errors = [float(line.split()[-1]) for line in ends]
    assert errors[0] == errors[1] < 0.1
