"""The programs of docs/ray-and-spark.md do what their comments say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from left_behind import LIMIT_S

PAGE = Path(__file__).resolve().parents[2] / "docs/ray-and-spark.md"
BLOCK = re.compile(r"^<!-- file: (\S+) -->\n```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILES = dict(BLOCK.findall(PAGE.read_text(encoding="utf-8")))


@pytest.mark.parametrize("name", ["on_ray.py", "on_spark.py"])
def test_programs(name, tmp_path):
    (tmp_path / name).write_text(FILES[name], encoding="utf-8")
    environment = {each: value for each, value in os.environ.items() if each != "RAY_ADDRESS"}
    ended = subprocess.run([sys.executable, name], cwd=tmp_path, env=environment, capture_output=True, text=True,
                           timeout=3 * LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr
    expected = re.findall(r"print\(.*# (.*)", FILES[name])
    assert expected and ended.stdout.splitlines()[-1:] == expected, ended.stdout
