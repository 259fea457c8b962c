"""`ronde.spark.run` in a barrier stage of a real local cluster: two executors of one slot each."""

from __future__ import annotations

import inspect
import os
import signal
import subprocess
import sys
import threading

import pytest

import failing
import horovod.spark
import ronde.spark
from killed_rank import check_a_killed_rank
from left_behind import LIMIT_S, Traces, files_with, folder_of_executors, wait_until
from ronde.exceptions import PlacementError, RankFailedError, RondeError, UnsupportedError

#: Until a rank's end is told: Spark gives the Python of the other tasks two seconds, and takes its time on a loaded machine.
SOON_S = 20.0

pytestmark = pytest.mark.usefixtures("spark_context")


def make_who():
    """A function of no module that executors would have to have."""

    def who(*words, **more):
        import os

        import numpy as np

        import ronde.numpy as hvd

        hvd.init()
        total = hvd.allreduce(np.full(3, hvd.rank() + 1.0), hvd.Sum)
        assert total.tolist() == [sum(range(1, hvd.size() + 1))] * 3
        told = (hvd.rank(), hvd.size(), hvd.local_rank(), hvd.local_size(), hvd.cross_rank(), hvd.cross_size())
        return told, words, more, os.environ.get("MINE")

    return who


def test_results_in_rank_order():
    for ranks in (1, 2, None):
        results = horovod.spark.run(make_who(), ("a",), {"b": "c"}, num_proc=ranks, env={"MINE": "x"})
        count = ranks or 2  # as many as there are slots
        assert results == [((rank, count, rank, count, 0, 1), ("a",), {"b": "c"}, "x") for rank in range(count)]


def test_each_rank_is_a_process_of_its_own(spark_context):
    [first, second] = ronde.spark.run(lambda: (os.getpid(), os.getppid(), "pyspark.worker" in sys.modules), num_proc=2)
    assert len({os.getpid(), *first[:2], *second[:2]}) == 5
    assert not first[2], "Spark's own process does not load what a rank does"


def test_another_python(tmp_path):
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexport BY=mine\nexec {sys.executable} "$@"\n')
    python.chmod(0o755)
    assert ronde.spark.run(lambda: os.environ["BY"], num_proc=2, executable=str(python)) == ["mine", "mine"]


def test_large_functions_and_results():
    sent = bytes(3_000_000)
    [first, second] = ronde.spark.run(lambda given: given[::-1] + b"x", (sent,), num_proc=2)
    assert first == second == sent + b"x"


def test_the_key_is_in_no_file_and_no_log(spark_context):
    """Whatever Spark writes: what it sends to a disk, and its logs in full. Each job has a key of its own."""
    spark_context.setLogLevel("ALL")  # the executors' too (conftest)
    try:
        keys = [ronde.spark.run(lambda: (os.environ["RONDE_KEY"], print("printed")), num_proc=2) for _ in range(2)]
    finally:
        spark_context.setLogLevel("OFF")
    [[first, again], [other, _]] = [[key for key, _ in each] for each in keys]
    assert first == again != other and len(first) == 64
    executors = folder_of_executors(spark_context)
    assert files_with("BarrierCoordinator"), "the driver's log tells of the rounds in which the tasks get the key"
    for word in ("BarrierTaskContext", "printed"):
        assert any(str(executors) in path for path in files_with(word, executors)), "the executors' logs are there"
    assert [files_with(key, executors) for key in (first, other)] == [[], []]


def test_the_callers_job_group_stays(spark_context):
    spark_context.setLocalProperty("spark.jobGroup.id", "mine")
    try:
        ronde.spark.run(lambda: None, num_proc=1)
        assert spark_context.getLocalProperty("spark.jobGroup.id") == "mine"
    finally:
        spark_context.setLocalProperty("spark.jobGroup.id", None)


def test_nothing_is_left(tmp_path, traces: Traces):
    assert ronde.spark.run(failing.fork_and_return, (str(tmp_path), True), num_proc=2) == ["returned"] * 2
    traces.assert_nothing_is_left(2)


@pytest.mark.parametrize(
    "function, cause",
    [(failing.fork_and_raise_on_1, "raised KeyError: 'the cause'"), (failing.fork_and_kill_1, "was killed by signal 9")],
)
def test_what_ranks_have_started_ends_with_them(tmp_path, traces: Traces, function, cause):
    """Also what the rank had started whose task Spark kills, since another has failed."""
    with pytest.raises(RankFailedError, match=rf"^rank 1 of 2 \(\S+, pid \d+\) {cause}"):
        ronde.spark.run(function, (str(tmp_path), True), num_proc=2)
    assert len(list(tmp_path.glob("child.*"))) == 2
    traces.assert_nothing_is_left(2)


@pytest.mark.parametrize(
    "function, cause",
    [
        (failing.raise_on_1, r"raised KeyError: 'the cause'"),
        (failing.raise_on_1_while_others_are_busy, r"raised failing\.Refused: no"),
        (failing.kill_1, "was killed by signal 9"),
        (failing.exit_on_1, "ended with code 7 before its function had returned"),
    ],
)
def test_the_rank_that_fails_is_named(tmp_path, traces: Traces, function, cause):
    with pytest.raises(RankFailedError, match=rf"^rank 1 of 2 \(\S+, pid \d+\) {cause}") as failure:
        ronde.spark.run(function, (str(tmp_path),), num_proc=2)
    assert (failure.value.rank, failure.value.pid) == (1, traces.pid_of(1))
    cause_of = failure.value.__cause__
    if function is failing.raise_on_1:
        assert isinstance(cause_of, KeyError) and "in raise_on_1" in str(cause_of.__cause__)
    elif function is failing.raise_on_1_while_others_are_busy:
        assert "in raise_on_1_while_others_are_busy" in str(cause_of)
    else:
        assert cause_of is None
    traces.assert_nothing_is_left(2)


@pytest.mark.parametrize("function", [failing.wait_in_allreduce, failing.wait_alone])
def test_a_rank_that_is_killed(tmp_path, traces: Traces, function):
    check_a_killed_rank(lambda: ronde.spark.run(function, (str(tmp_path),), num_proc=2), traces, SOON_S)


def test_a_task_that_spark_loses(tmp_path, traces: Traces):
    """Spark's own process, whose child the rank's guard is: the rank ends with it, and Spark's words tell of it."""

    def kill_task(folder):
        import pathlib
        import threading

        import failing

        if failing.leave_traces(folder).rank() == 1:
            of_guard = pathlib.Path(f"/proc/{os.getppid()}/stat").read_text().rpartition(") ")[2].split()
            os.kill(int(of_guard[1]), signal.SIGKILL)
        threading.Event().wait(failing.LIMIT_S)

    with pytest.raises(RondeError, match=r"^Spark has lost task 1 of the 2 that had ranks: .*(crashed|Lost|exited)"):
        ronde.spark.run(kill_task, (str(tmp_path),), num_proc=2)
    wait_until(lambda: not any(map(alive, (tmp_path / "0", tmp_path / "1"))), LIMIT_S, "both ranks have ended")
    traces.assert_nothing_is_left(2)


def alive(file):
    from left_behind import lives

    return lives(int(file.read_text().split()[0]))


def test_an_interrupted_call(tmp_path, traces: Traces):
    """Ctrl-C in the driver ends the ranks."""
    main = threading.Thread(target=lambda: (traces.pid_of(0), traces.pid_of(1), os.kill(os.getpid(), signal.SIGINT)))
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # PySpark's own cancels every job besides
    try:
        main.start()
        with pytest.raises(KeyboardInterrupt):
            ronde.spark.run(failing.wait_alone, (str(tmp_path),), num_proc=2)
    finally:
        signal.signal(signal.SIGINT, before)
        main.join()
    traces.assert_nothing_is_left(2)


def test_results_that_cannot_be_pickled():
    with pytest.raises(RankFailedError, match=r"^rank [01] of 2 \(.*\) raised TypeError: cannot pickle"):
        ronde.spark.run(lambda: threading.Lock(), num_proc=2)


def test_more_than_there_is(spark_context):
    told = "^only 0 of 3 ranks were placed within 1 s: the cluster has 2 slots for tasks, asked for 3"
    with pytest.raises(PlacementError, match=told):
        ronde.spark.run(make_who(), num_proc=3, start_timeout=1)
    assert list(spark_context.statusTracker().getActiveJobsIds()) == [], "what did not fit has gone"
    assert len(ronde.spark.run(make_who(), num_proc=2)) == 2


def test_mistakes():
    with pytest.raises(TypeError, match="cannot be pickled .*lock.*: make what cannot"):
        ronde.spark.run(make_who(), (threading.Lock(),), num_proc=1)
    with pytest.raises(ValueError, match="^num_proc is 0; expected 1 or more"):
        ronde.spark.run(make_who(), num_proc=0)
    with pytest.raises(TypeError, match="^env holds 'A': 1; expected names and values that are text"):
        ronde.spark.run(make_who(), num_proc=1, env={"A": 1})  # type: ignore[dict-item]
    with pytest.raises(TypeError, match="needs a function to call, not int"):
        ronde.spark.run(3, num_proc=1)  # type: ignore[arg-type]
    with pytest.raises(UnsupportedError, match=r"^ronde\.spark\.run_elastic does not exist: "):
        horovod.spark.run_elastic(make_who(), num_proc=2)


def test_what_has_no_effect_is_named():
    with pytest.warns(UserWarning, match=r"^ronde\.spark\.run: accepted, without effect on Ronde: use_mpi, stdout$"):
        assert ronde.spark.run(lambda: 1, num_proc=1, use_mpi=True, stdout=sys.stdout) == [1]


def test_a_rank_places_no_ranks():
    code = "import ronde.numpy as hvd, ronde.spark\nhvd.init()\nronde.spark.run(print, num_proc=1)"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ronde.spark.run: this process is rank 0 of 1 of a job already" in ended.stderr


def test_without_spark():
    hidden = "import sys; sys.modules['pyspark'] = None\nimport ronde.spark\nronde.spark.run(print)"
    ended = subprocess.run([sys.executable, "-c", hidden], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "ImportError: ronde.spark needs PySpark, which this Python does not have: pip install pyspark" in ended.stderr
    begun = "import ronde.spark\nronde.spark.run(print)"
    ended = subprocess.run([sys.executable, "-c", begun], capture_output=True, text=True, timeout=LIMIT_S, check=False)
    assert "there is no active SparkContext: make one first" in ended.stderr


def test_horovods_arguments():
    assert list(inspect.signature(horovod.spark.run).parameters) == (
        "fn args kwargs num_proc start_timeout use_mpi use_gloo extra_mpi_args env stdout stderr verbose nics "
        "prefix_output_with_timestamp executable"
    ).split()
