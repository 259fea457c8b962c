"""The table of limits between hosts: rank 0's is everyone's, whatever it says the sums are right, and `ronde bench --table`
measures one. The hosts are ranks that are told so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

RONDE = str(Path(sysconfig.get_path("scripts")) / "ronde")

#: Each rank is on a host of its own; ranks but the first have a table of their own, which counts for nothing.
AS_HOST = (
    "export RONDE_TRANSPORT=hosts RONDE_HOST_ID=host$((RONDE_RANK / {each})); "
    "[ $RONDE_RANK = 0 ] || export RONDE_TABLE='hosts any: turn 3, one_turn 128'; exec \"$@\""
)

PROGRAM = """
import numpy as np, ronde.numpy as rnp, sys
from ctypes import byref, c_char_p, c_size_t
from ronde._lib import library
rnp.init()
rank, size = rnp.rank(), rnp.size()
row, length = c_char_p(), c_size_t()
assert library().ronde_get_table(None, byref(row), byref(length)) == 0
assert sys.argv[1] in row.value.decode(), row.value
some = rnp.add_process_set(range(0, size, 2))
for step in range(12):
    for count in (1, 40, 300, 3000, 30_000, 400_000 if step % 4 == 3 else 2):
        for kind in (np.float32, np.int64):
            values = (np.arange(count) % 7 + rank + step).astype(kind)
            rnp.allreduce_(values, rnp.Sum, name=f"of {count} {kind.__name__}")
            right = (np.arange(count) % 7 + step).astype(kind) * size + sum(range(size))
            assert (values == right).all(), (step, count, values[:3], right[:3])
    if some.included():
        assert rnp.allreduce(np.ones(3), rnp.Sum, process_set=some)[0] == some.size()
rnp.shutdown()
"""


def run(ranks, each, table, *command):
    environment = {**os.environ, **({"RONDE_TABLE": table} if table else {})}
    for name in [name for name in environment if name in ("RONDE_RANK", "RONDE_SIZE", "RONDE_STORE", "RONDE_HOST_ID")]:
        del environment[name]
    words = [RONDE, "run", "--no-prefix", "-n", str(ranks), "--", "bash", "-c", AS_HOST.format(each=each), "-", *command]
    return subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120, check=False)


@pytest.mark.parametrize("ranks, each", [(6, 2), (8, 1)])
@pytest.mark.parametrize("table, row", [
    (None, "turn 2"),
    ("hosts any: one_turn 0, turn 1000", "one_turn 0, gathered 4194304, turn 1000"),
    ("hosts 2: turn 5; hosts any: one_turn 4194304, gathered 1073741824, turn 0, chunk 128; ranks 2: chunk 4096",
     "one_turn 4194304, gathered 1073741824, turn 0, large_turn"),
    # What is large in turns of one message, of two, and in a ring.
    ("hosts any: one_turn 128, large_turn 0, direct 1073741824", "large_turn 0, direct 1073741824, ring 0"),
    ("hosts any: one_turn 128, large_turn 1, direct 1073741824, chunk 4096", "large_turn 1, direct 1073741824, ring 0"),
    ("hosts any: one_turn 0, ring 1, chunk 65536", "direct 32768, ring 1, chunk 65536"),
])
def test_sums_are_right_whatever_the_table(ranks, each, table, row):
    """It is in force on all ranks."""
    done = run(ranks, each, table, sys.executable, "-c", PROGRAM, row)
    assert done.returncode == 0, done.stdout + done.stderr


def test_bench_measures_a_row_that_ronde_table_takes():
    done = run(4, 2, "hosts 2: turn 9", RONDE, "bench", "--table")
    assert done.returncode == 0, done.stderr
    assert re.fullmatch(
        r"# measured between 2 hosts of 4 ranks, .*\n# before: hosts 2: one_turn 32768, gathered 4194304, turn 9, .*chunk 262144\n"
        r"hosts 2: one_turn \d+, turn \d+\n", done.stdout), done.stdout
    assert "measuring turns, round 3 of 3" in done.stderr
    row = done.stdout.splitlines()[-1]
    again = run(4, 2, done.stdout, sys.executable, "-c", PROGRAM, row.partition("turn ")[0].rpartition(",")[0])
    assert again.returncode == 0, again.stderr


def test_bench_measures_turns_of_large_tensors_between_more_than_two_hosts():
    done = run(5, 1, None, RONDE, "bench", "--table")
    assert done.returncode == 0, done.stderr
    row = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"hosts 5: one_turn \d+, turn \d+, large_turn \d+", row), done.stdout
    assert "measuring turns of large tensors, round 3 of 3" in done.stderr
    again = run(5, 1, done.stdout, sys.executable, "-c", PROGRAM, row.partition(": ")[2].partition(",")[0])
    assert again.returncode == 0, again.stderr


def test_a_wrong_row_is_named():
    done = run(2, 1, "hosts 2: turns 3", sys.executable, "-c", PROGRAM)
    assert done.returncode != 0
    assert 'RONDE_TABLE: in the row "hosts 2: turns 3" "turns" is none of one_turn, gathered, turn, large_turn, ' in done.stderr
