"""The timeline: what it says, that it is JSON whenever it is opened, that all ranks' become one."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections import defaultdict
from pathlib import Path
from typing import Any, Dict, Iterator, List, Tuple

import pytest
import torch

from launching import Job, launcher, wait_until

Event = Dict[str, Any]


@pytest.fixture
def path(hvd: Any, rank: int) -> Iterator[Path]:
    """A path in a folder that all ranks see."""
    folder = hvd.broadcast_object(tempfile.mkdtemp() if rank == 0 else None, 0)
    yield Path(folder) / "trace.json"
    hvd.barrier()
    if rank == 0:
        shutil.rmtree(folder)


def of_rank(path: Path, rank: int) -> Path:
    return path if rank == 0 else path.with_name(f"{path.name}.{rank}")


def rows(events: List[Event]) -> Dict[str, List[Event]]:
    """By tensor, what happened to it."""
    names = {event["pid"]: event["args"].get("name") for event in events if event.get("name") == "process_name"}
    found: Dict[str, List[Event]] = {name: [] for name in names.values()}
    for event in events:
        if event["ph"] != "M":
            found[names[event["pid"]]].append(event)
    return found


def unfinished(events: List[Event]) -> List[str]:
    """What has begun and not ended, by lane in order; fails where an end has no beginning."""
    open_: Dict[Tuple[int, int], List[str]] = defaultdict(list)
    for event in events:
        lane = (event["pid"], event.get("tid", 0))
        if event["ph"] == "B":
            open_[lane].append(event["name"])
        elif event["ph"] == "E":
            assert open_[lane], f"{event} ends what has not begun"
            open_[lane].pop()
    return [name for names in open_.values() for name in names]


def merge(path: Path, files: List[Path]) -> Tuple[List[Event], str]:
    merged = path.with_name("all.json")
    command = [launcher(), "trace", "merge", *map(str, files), "-o", str(merged)]
    result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert f"of {len(files)} ranks" in result.stdout
    return json.loads(merged.read_bytes()), result.stderr


@pytest.mark.ranks(2, 3)
def test_says_what_happened_and_merges(hvd, rank, world, path):
    hvd.start_timeline(str(path), mark_cycles=True)
    hvd.barrier()  # so that no other rank is ready before rank 0's begins
    for _ in range(10):
        hvd.allreduce(torch.ones(4, 2), name="timeline.sum", op=hvd.Sum)  # a name of its own: others may be replayed
    hvd.allgather(torch.ones(rank + 1, 3), name="timeline.rows")
    hvd.broadcast(torch.ones(2), 0, name="timeline.cast")
    hvd.barrier()
    hvd.stop_timeline()
    events = json.loads(of_rank(path, rank).read_bytes())
    assert unfinished(events) == []
    row = rows(events)["allreduce.timeline.sum"]
    assert [event.get("name") for event in row if event["ph"] == "B"][:2] == ["NEGOTIATE_ALLREDUCE", "ALLREDUCE"]
    ticks = {event["name"] for event in row if event["ph"] == "X" and event["dur"] == 0}
    assert ticks == ({str(each) for each in range(world)} if rank == 0 else set()), "who was ready when: rank 0 knows"
    assert {"dtype": "float32", "shape": "[4, 2]"} in [event.get("args") for event in row]
    assert any(event["ph"] == "X" and "replayed" in event.get("args", {}) for event in row), "one event an instance"
    assert {event.get("name") for event in rows(events)["allgather.timeline.rows"]} >= {"NEGOTIATE_ALLGATHER", "ALLGATHER"}
    assert {event.get("name") for event in rows(events)["broadcast.timeline.cast"]} >= {"NEGOTIATE_BROADCAST", "BROADCAST"}
    assert any(event.get("name") == "CYCLE_START" and event["ph"] == "i" for event in events)
    hvd.barrier()
    if rank == 0:
        merged, notes = merge(path, [of_rank(path, each) for each in range(world)])
        assert notes == "" and unfinished(merged) == []
        processes = {event["pid"]: event["args"]["name"] for event in merged if event.get("name") == "process_name"}
        assert list(processes) == list(range(world)) and processes[1].startswith("rank 1")
        # On one clock: no rank has begun to reduce for the first time before all were ready.
        begins = [event["ts"] for event in merged if event.get("name") == "ALLGATHER" and event["ph"] == "B"]
        asked = [event["ts"] for event in merged if event.get("name") == "NEGOTIATE_ALLGATHER" and event["pid"] != 0]
        assert len(begins) == world and len(asked) == world - 1 and max(asked) <= min(begins)


@pytest.mark.ranks(2)
def test_can_be_read_while_it_is_written(hvd, rank, path):
    hvd.start_timeline(path)
    own = of_rank(path, rank)
    seen, steps = 0, 0
    while hvd.allreduce(torch.tensor(seen < 2000), name="go_on", op=hvd.Max):
        steps += 1
        hvd.allreduce(torch.ones(2), name=f"step.{steps}")
        events = json.loads(own.read_bytes())
        assert len(events) >= seen
        seen = len(events)
    hvd.stop_timeline()


@pytest.mark.ranks(3)
def test_process_sets_have_rows_of_their_own(hvd, rank, world, path):
    some = hvd.add_process_set([0, 1])
    hvd.start_timeline(path)
    if rank != 2:
        hvd.allreduce(torch.ones(2), name="x", process_set=some)
    hvd.stop_timeline()
    names = [name for name in rows(json.loads(of_rank(path, rank).read_bytes())) if name]
    assert (f"process set {some.process_set_id}: allreduce.x" in names) == (rank != 2), names
    hvd.remove_process_set(some)


@pytest.mark.ranks(2)
def test_one_at_a_time_and_one_sentence_where_it_cannot_be(hvd, rank, path):
    with pytest.raises(ValueError, match="no timeline is being written; start one first"):
        hvd.stop_timeline()
    with pytest.raises(RuntimeError, match="'/nowhere/trace.json.*' cannot be written: open: No such file"):
        hvd.start_timeline("/nowhere/trace.json")
    hvd.start_timeline(path)
    with pytest.raises(ValueError, match="is being written to .*trace.json.* already; stop it before"):
        hvd.start_timeline(path)
    hvd.stop_timeline()
    hvd.start_timeline(path)
    hvd.stop_timeline()
    assert json.loads(of_rank(path, rank).read_bytes())[0]["args"]["rank"] == rank


@pytest.mark.ranks(2, fresh=True)
def test_needs_init(hvd, world):
    hvd.shutdown()
    with pytest.raises(ValueError, match="not initialised"):
        hvd.start_timeline("never.json")
    with pytest.raises(ValueError, match="not initialised"):
        hvd.stop_timeline()
    hvd.init()
    assert hvd.size() == world


@pytest.mark.parametrize("variable", ["RONDE_TIMELINE", pytest.param("HOROVOD_TIMELINE", marks=pytest.mark.long)])
def test_a_killed_rank_leaves_a_file_that_can_be_read_and_merged(tmp_path, variable):
    path = tmp_path / "trace.json"
    files = [of_rank(path, rank) for rank in range(2)]
    with Job(2, "traced.py", **{variable: str(path)}) as job:
        pid = int(job.read_until("pid 1").split()[-1])
        wait_until(lambda: files[1].exists() and files[1].stat().st_size > 100_000, 30, "rank 1 writes its timeline")
        os.kill(pid, signal.SIGKILL)
        job.end()
    for file in files:
        events = json.loads(file.read_bytes())
        assert {event.get("name") for event in events} >= {"NEGOTIATE_ALLREDUCE", "ALLREDUCE", "NATIVE_ALLREDUCE"}
        unfinished(events)
    assert unfinished(json.loads(files[0].read_bytes())) == [], "the survivor's ends in order"
    merged, _ = merge(path, files)
    unfinished(merged)
    assert {event["pid"] for event in merged} == {0, 1}


def test_merge_says_what_is_wrong(tmp_path):
    (tmp_path / "other.json").write_text("{}")
    for file, complaint in (("none.json", "cannot be read"), ("other.json", "is no timeline")):
        command = [launcher(), "trace", "merge", str(tmp_path / file), "-o", str(tmp_path / "all.json")]
        result = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, check=False)
        assert result.returncode == 1 and complaint in result.stderr and file in result.stderr
        assert not (tmp_path / "all.json").exists()
