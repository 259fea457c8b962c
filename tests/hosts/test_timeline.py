"""Timelines of a job on hosts whose clocks have nothing in common."""

from __future__ import annotations

import json
import subprocess
from typing import Any, Dict, List

import pytest

from by_hand import ByHand
from launched import RONDE

AHEAD_S = 5000


def span(merged: List[Dict[str, Any]], rank: int) -> List[float]:
    """When the first event of a rank was, and the last, in microseconds."""
    moments = [each["ts"] for each in merged if each["pid"] == rank and "ts" in each]
    return [min(moments), max(moments)]


@pytest.mark.hosts(2, "time")
def test_hosts_find_how_their_clocks_stand_to_each_other(bed, tmp_path):
    one, two = bed.hosts
    ends = ByHand(bed, [one, two], "other_clock.py", "another-boot", AHEAD_S, each=[{}, {"APART": "1"}]).ends()
    assert [end.code for end in ends.values()] == [0, 0], ends
    files = []
    for rank, end in ends.items():
        files.append(tmp_path / f"t{rank}")
        files[-1].write_text(end.out)
    owners = [json.loads(file.read_text())[0]["args"] for file in files]
    assert [owner["boot_id"] == "another-boot" for owner in owners] == [False, True]
    assert (owners[0]["behind_job_clock_ns"], owners[0]["job_clock_within_ns"]) == (0, 0)
    error = owners[1]["behind_job_clock_ns"] + AHEAD_S * 1_000_000_000
    assert abs(error) <= owners[1]["job_clock_within_ns"], owners

    output = tmp_path / "all.json"
    done = subprocess.run([RONDE, "trace", "merge", *files, "-o", output], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, timeout=120)
    assert done.returncode == 0, done
    assert "the clocks of 2 hosts were compared with the job's as the ranks met, each to within " in done.stderr
    merged = json.loads(output.read_text())
    (begin, end), (other_begin, other_end) = span(merged, 0), span(merged, 1)
    assert max(begin, other_begin) < min(end, other_end), "they have made the same calls"
