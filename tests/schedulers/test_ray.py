"""`ronde.ray.run` and `RayExecutor` on a real cluster of two nodes."""

from __future__ import annotations

import contextlib
import inspect
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import failing
import horovod.ray
import ronde.ray
from killed_rank import check_a_killed_rank
from left_behind import LIMIT_S, Traces, files_with, lives, wait_until
from ronde.exceptions import PlacementError, RankFailedError, RondeError, UnsupportedError
from ronde.ray import RayExecutor

#: Until a rank's end is told, with Ray's own time for it on a loaded machine.
SOON_S = 15.0

pytestmark = pytest.mark.usefixtures("ray_cluster")


def who(*words: str, **more: str):
    import os

    import numpy as np

    import ronde.numpy as hvd

    hvd.init()
    total = hvd.allreduce(np.full(3, hvd.rank() + 1.0), hvd.Sum)
    assert total.tolist() == [sum(range(1, hvd.size() + 1))] * 3
    told = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
    return told, words, more, os.environ["RONDE_STORE"].split(":")[1]


def no_room_is_taken():
    import ray

    return ray.available_resources().get("CPU") == 4


def test_results_in_rank_order():
    for ranks in (1, 2):
        results = ronde.ray.run(who, ("a",), {"b": "c"}, ranks=ranks)
        assert results == [((rank, ranks, rank, ranks, 0, 1), ("a",), {"b": "c"}, "127.0.0.1") for rank in range(ranks)]


def test_ranks_of_a_host_follow_each_other():
    results = ronde.ray.run(who, hosts=2, ranks_per_host=2)
    assert [each[0] for each in results] == [(0, 4, 0, 2, 0, 2), (1, 4, 1, 2, 0, 2), (2, 4, 0, 2, 1, 2), (3, 4, 1, 2, 1, 2)]
    assert {each[3] for each in results} == {ronde_address()}, "rank 0 is where its node's address leads"


def ronde_address():
    import ray

    return ray.util.get_node_ip_address()


def test_hosts_of_different_numbers_of_ranks():
    told = [each[0] for each in ronde.ray.run(who, ranks=3)]
    assert told == [(0, 3, 0, 2, 0, 2), (1, 3, 1, 2, 0, 1), (2, 3, 0, 1, 1, 2)]


def test_each_rank_is_an_actor_with_what_it_asked_for():
    import ray

    def resources():
        import ray

        context = ray.get_runtime_context()
        return context.get_node_id(), context.get_assigned_resources()["CPU"], os.getpid()

    told = ronde.ray.run(resources, hosts=2, cpus_per_rank=2)
    assert {each[0] for each in told} == {node["NodeID"] for node in ray.nodes() if node["Alive"]}
    assert [each[1] for each in told] == [2, 2]
    assert os.getpid() not in {each[2] for each in told} and len({each[2] for each in told}) == 2


def test_ray_gives_the_gpus():
    def devices():
        import ray

        return os.environ["RONDE_LOCAL_RANK"], ray.get_gpu_ids(), os.environ["CUDA_VISIBLE_DEVICES"].split(",")

    executor = horovod.ray.RayExecutor(num_workers=2, use_gpu=True)
    executor.start()
    try:
        told = executor.run(devices)
    finally:
        executor.shutdown()
    assert {each for _, own, _ in told for each in own} == {0, 1}, "each has one of its own"
    for local_rank, own, seen in told:
        assert len(seen) == 2 and [seen[int(local_rank)]] == [str(each) for each in own], "at its local rank"


def test_variables_and_closures():
    offset = 40

    class Local:
        def __init__(self):
            self.value = offset + int(os.environ["HOROVOD_RANK"])

    results = ronde.ray.run(lambda: (Local(), os.environ["MINE"]), ranks=2, env={"MINE": "x"})
    assert [(made.value, text) for made, text in results] == [(40, "x"), (41, "x")]


def test_the_key_is_in_no_file_and_no_log():
    """Whatever Ray's nodes write. Each job has a key of its own."""
    keys = [ronde.ray.run(lambda: (print("printed"), os.environ["RONDE_KEY"])[1], ranks=2) for _ in range(2)]
    [[first, again], [other, _]] = keys
    assert first == again != other and len(first) == 64
    wait_until(lambda: bool(files_with("printed")), LIMIT_S, "what ranks print is in a log")
    assert [files_with(key) for key in (first, other)] == [[], []]


def test_references_of_rays_are_arguments():
    import ray

    reference = ray.put([1, 2, 3])
    assert ronde.ray.run(lambda given: ray.get(given["it"]), ({"it": reference},), ranks=2) == [[1, 2, 3]] * 2


def test_ports_of_a_range():
    def ports():
        import ronde.numpy as hvd

        hvd.init()
        return int(os.environ["RONDE_STORE"].rpartition(":")[2]), int(os.environ["MASTER_PORT"])

    [first, second] = ronde.ray.run(ports, ranks=2, env={"RONDE_PORT_RANGE": "29700-29709"})
    assert first == second and len(set(first)) == 2 and all(29700 <= port <= 29709 for port in first)


def test_groups_of_torch():
    def average():
        import torch
        import torch.distributed as dist

        import ronde.torch as _  # noqa: F401 - brings the backend

        dist.init_process_group("ronde")
        value = torch.tensor([float(dist.get_rank())])
        dist.all_reduce(value)
        dist.destroy_process_group()
        return value.item()

    assert ronde.ray.run(average, ranks=2) == [1.0, 1.0]


def test_nothing_is_left(tmp_path, traces: Traces):
    assert ronde.ray.run(failing.fork_and_return, (str(tmp_path), False), ranks=3) == ["returned"] * 3
    assert len(list(tmp_path.glob("child.*"))) == 3
    traces.assert_nothing_is_left(3)
    wait_until(no_room_is_taken, LIMIT_S, "Ray has its room again")


@pytest.mark.parametrize(
    "function, cause",
    [(failing.fork_and_raise_on_1, "raised KeyError: 'the cause'"), (failing.fork_and_kill_1, "was killed by signal 9")],
)
def test_a_rank_that_has_children(tmp_path, traces: Traces, function, cause):
    """They have its connections: Ray itself would not see its end before theirs."""
    began = time.monotonic()
    with pytest.raises(RankFailedError, match=rf"^rank 1 of 2 \(\S+, pid \d+\) {cause}"):
        ronde.ray.run(function, (str(tmp_path), False), ranks=2)
    assert time.monotonic() - began < failing.LIMIT_S, "the children end by themselves then"
    assert len(list(tmp_path.glob("child.*"))) == 2
    traces.assert_nothing_is_left(2)


def test_a_child_in_a_session_of_its_own(tmp_path, traces: Traces):
    """Nobody ends it; the rank's end is told nevertheless."""
    began = time.monotonic()
    with pytest.raises(RankFailedError, match=r"^rank 1 of 2 \(\S+, pid \d+\) was killed by signal 9"):
        ronde.ray.run(failing.fork_and_kill_1, (str(tmp_path), True), ranks=2)
    assert time.monotonic() - began < failing.LIMIT_S
    for child in tmp_path.glob("child.*"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(child.read_text()), signal.SIGKILL)
    traces.assert_nothing_is_left(2)


@pytest.mark.parametrize(
    "function, placed, cause",
    [
        (failing.raise_on_1, {"ranks": 2}, r"raised KeyError: 'the cause'"),
        (failing.raise_on_1, {"hosts": 2}, r"raised KeyError: 'the cause'"),
        (failing.raise_on_1_while_others_are_busy, {"ranks": 3}, r"raised failing\.Refused: no"),
        (failing.kill_1, {"ranks": 3}, "was killed by signal 9"),
        (failing.kill_1, {"hosts": 2}, "was killed by signal 9"),
        (failing.exit_on_1, {"ranks": 2}, "ended with code 7 before its function had returned"),
    ],
)
def test_the_rank_that_fails_is_named(tmp_path, traces: Traces, function, cause, placed):
    ranks = placed.get("ranks") or placed["hosts"]
    with pytest.raises(RankFailedError, match=rf"^rank 1 of {ranks} \(\S+, pid \d+\) {cause}") as failure:
        ronde.ray.run(function, (str(tmp_path),), **placed)
    assert (failure.value.rank, failure.value.pid) == (1, traces.pid_of(1))
    check_cause(failure.value, function)
    traces.assert_nothing_is_left(ranks)
    wait_until(no_room_is_taken, LIMIT_S, "Ray has its room again")


def check_cause(error, function):
    if function is failing.raise_on_1:
        assert isinstance(error.__cause__, KeyError)
        assert "in raise_on_1" in str(error.__cause__.__cause__)
    elif function is failing.raise_on_1_while_others_are_busy:  # cannot be pickled, so its text is carried
        assert "in raise_on_1_while_others_are_busy" in str(error.__cause__)
    else:
        assert error.__cause__ is None


@pytest.mark.parametrize("function", [failing.wait_in_allreduce, failing.wait_alone])
def test_a_rank_that_is_killed(tmp_path, traces: Traces, function):
    check_a_killed_rank(lambda: ronde.ray.run(function, (str(tmp_path),), ranks=2), traces, SOON_S)


def test_an_old_kernel_does_not_tell_the_signal(monkeypatch):
    """Then Ray's own words stand there."""
    from ronde.ray._ranks import Ranks

    monkeypatch.setattr(Ranks, "_witness", lambda self, deadline: None)
    with pytest.raises(RankFailedError, match=r"^rank 1 of 2 \(\S+, pid \d+\) has ended: Ray tells ActorDiedError: "):
        ronde.ray.run(lambda: os.environ["RANK"] == "1" and os._exit(3), ranks=2)


def test_results_that_cannot_be_pickled():
    with pytest.raises(RankFailedError, match=r"^rank [01] of 2 \(.*\) raised TypeError: cannot pickle"):
        ronde.ray.run(threading.Lock, ranks=2)


def test_more_than_there_is():
    told = "^only 0 of 5 ranks were placed within 1 s: the cluster has 4 CPUs, 4 of them free, asked for 5 CPUs, "
    with pytest.raises(PlacementError, match=told):
        ronde.ray.run(who, ranks=5, timeout=1)
    with pytest.raises(PlacementError, match="asked for 3 CPUs on 3 different nodes"):
        ronde.ray.run(who, hosts=3, timeout=1)
    wait_until(no_room_is_taken, LIMIT_S, "Ray has its room again")


def test_mistakes():
    with pytest.raises(TypeError, match="cannot be pickled .*lock.*: make what cannot"):
        ronde.ray.run(who, (threading.Lock(),), ranks=1)
    with pytest.raises(ValueError, match="^how many ranks"):
        ronde.ray.run(who)
    with pytest.raises(ValueError, match="^how many ranks"):
        ronde.ray.run(who, ranks=1, hosts=1)
    with pytest.raises(ValueError, match="expected 1 or more"):
        ronde.ray.run(who, ranks=0)
    with pytest.raises(ValueError, match="expected more than nothing"):
        ronde.ray.run(who, ranks=1, cpus_per_rank=0)
    with pytest.raises(TypeError, match="^env holds 'A': 1; expected names and values that are text"):
        ronde.ray.run(who, ranks=1, env={"A": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="expected a function to call, not int"):
        ronde.ray.run(3, ranks=1)  # type: ignore[arg-type]


def test_a_program_that_leaves_ray_first():
    code = """
import ray, ronde.ray
ray.init(address="local", num_cpus=2, log_to_driver=False)
executor = ronde.ray.RayExecutor(num_workers=2)
executor.start()
ray.shutdown()
executor.shutdown()
assert not ray.is_initialized(), "another cluster was made"
"""
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=3 * LIMIT_S, check=False)
    assert ended.returncode == 0, ended.stderr


def test_a_rank_places_no_ranks():
    code = "import ray, ronde.numpy as hvd, ronde.ray\nhvd.init()\nronde.ray.run(print, ranks=1)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ronde.ray.run: this process is rank 0 of 1 of a job already" in ended.stderr


def test_without_ray():
    hidden = "import sys; sys.modules['ray'] = None\nimport ronde.ray\nronde.ray.run(print, ranks=1)"
    ended = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ImportError: ronde.ray needs Ray, which this Python does not have: pip install ray" in ended.stderr
    begun = "import ronde.ray\nronde.ray.run(print, ranks=1)"
    ended = subprocess.run([sys.executable, "-c", begun], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "Ray is not initialised in this process: call ray.init() first" in ended.stderr


class Counter:
    def __init__(self, first: int, step: int = 1) -> None:
        self.value, self.step = first, step

    def count(self) -> int:
        self.value += self.step
        return self.value


def test_an_executor():
    import ray

    executor = horovod.ray.RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=2)
    executor.start(Counter, [5], {"step": 2}, {"MINE": "y"})
    try:
        assert executor.num_workers == len(executor.workers) == 2
        assert executor.execute(lambda counter: counter.count()) == [7, 7]
        assert executor.execute_single(lambda counter: counter.count()) == 9
        assert executor.execute(lambda counter: counter.count()) == [11, 9]
        assert [each[0][:2] for each in executor.run(who)] == [(0, 2), (1, 2)]
        assert executor.run(who, ["a"], {"b": "c"})[1][1:3] == (("a",), {"b": "c"}), "a second function, in the same job"
        assert ray.get(executor.run_remote(lambda x: x + os.environ["MINE"], ["x"])) == ["xy", "xy"]
        assert executor.run(lambda: os.environ["RONDE_INIT_TIMEOUT_S"]) == ["30", "30"]
        with pytest.raises(RondeError, match="its ranks are there already"):
            executor.start()
        with pytest.raises(TypeError, match="cannot be pickled"):
            executor.run(print, [threading.Lock()])
        pids = executor.run(os.getpid)
    finally:
        executor.shutdown()
    assert not any(map(lives, pids))
    executor.shutdown()
    with pytest.raises(RondeError, match=r"^RayExecutor has no ranks: shutdown\(\) was called; start\(\) begins anew"):
        executor.run(print)


def test_an_executor_on_hosts(tmp_path, traces: Traces):
    executor = RayExecutor(num_hosts=2, num_workers_per_host=1)
    executor.start()
    with pytest.raises(RankFailedError, match=r"^rank 1 of 2 .* raised KeyError: 'the cause'"):
        executor.run(failing.raise_on_1, [str(tmp_path)])
    traces.assert_nothing_is_left(2)
    with pytest.raises(RondeError, match="they were ended, since rank 1 of 2 .*KeyError: 'the cause'; start"):
        executor.execute(print)
    executor.start()
    assert executor.execute(lambda made: made) == [None, None]
    executor.shutdown()


def test_a_remote_run_that_fails(tmp_path):
    """Nobody waits for it, so nobody ends the others; but they do not wait in vain."""
    import ray

    executor = RayExecutor(num_workers=2)
    executor.start()
    try:
        first, second = executor.run_remote(failing.raise_on_1, [str(tmp_path)])
        with pytest.raises(KeyError, match="the cause"):
            ray.get(second, timeout=LIMIT_S)
        with pytest.raises(RondeError, match="rank 1 has left"):
            ray.get(first, timeout=SOON_S)
    finally:
        executor.shutdown()


def test_an_interrupted_call(tmp_path, traces: Traces):
    """Ctrl-C in the caller ends the ranks."""
    main = threading.Thread(target=lambda: (traces.pid_of(0), traces.pid_of(1), os.kill(os.getpid(), signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what starts tests in the background ignores it
    try:
        main.start()
        with pytest.raises(KeyboardInterrupt):
            ronde.ray.run(failing.wait_alone, (str(tmp_path),), ranks=2)
    finally:
        signal.signal(signal.SIGINT, before)
        main.join()
    traces.assert_nothing_is_left(2)


def test_an_object_that_cannot_be_made():
    executor = RayExecutor(num_workers=2)
    with pytest.raises(RankFailedError, match=r"^rank [01] of 2 \(.*\) raised TypeError: .*first"):
        executor.start(Counter)
    assert executor.workers == []


def test_in_a_placement_group():
    import ray
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    def within():
        from ronde.ray import run

        return run(lambda: ray.get_runtime_context().get_placement_group_id(), ranks=2)

    group = ray.util.placement_group([{"CPU": 1}] * 3)
    try:
        strategy = PlacementGroupSchedulingStrategy(group, placement_group_capture_child_tasks=True)
        task = ray.remote(within).options(num_cpus=1, scheduling_strategy=strategy).remote()
        assert ray.get(task, timeout=LIMIT_S) == [group.id.hex()] * 2
    finally:
        ray.util.remove_placement_group(group)


def test_what_is_not_there():
    for make in (lambda: RayExecutor(min_workers=1), lambda: RayExecutor(num_workers=1, max_workers=2),
                 lambda: horovod.ray.ElasticRayExecutor(None), horovod.ray.ElasticRayExecutor.create_settings):
        with pytest.raises(UnsupportedError, match="does not exist: Ronde does not replace a rank whose process has died"):
            make()
    with pytest.raises(ValueError, match="use_gpu is False"):
        RayExecutor(num_workers=1, gpus_per_worker=1)
    with pytest.raises(ValueError, match="expected 1 or more"):
        RayExecutor(num_workers=1, use_gpu=True, gpus_per_worker=0.5)
    with pytest.warns(UserWarning, match="ssh_identity_file and ssh_str are accepted, without effect"):
        RayExecutor.create_settings(30, ssh_identity_file="key")


def test_horovods_arguments():
    def arguments(function):
        return list(inspect.signature(function).parameters)[1:]

    assert arguments(RayExecutor.__init__) == (
        "settings num_workers num_hosts num_workers_per_host cpus_per_worker use_gpu gpus_per_worker "
        "use_current_placement_group min_workers max_workers reset_limit cooldown_range elastic_timeout override_discovery"
    ).split()
    assert arguments(RayExecutor.start) == "executable_cls executable_args executable_kwargs extra_env_vars".split()
    assert arguments(RayExecutor.run) == "fn args kwargs callbacks".split()
    assert arguments(RayExecutor.run_remote) == "fn args kwargs".split()
    assert arguments(RayExecutor.execute) == "fn callbacks".split()
    assert arguments(RayExecutor.execute_single) == ["fn"]
    assert list(inspect.signature(RayExecutor.create_settings).parameters) == (
        "timeout_s ssh_identity_file ssh_str placement_group_timeout_s nics"
    ).split()
