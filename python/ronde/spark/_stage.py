"""The driver's side: one barrier stage, from its submission to its results."""

from __future__ import annotations

import logging
import pickle
import re
import threading
import time
import uuid
from typing import Any, Callable, Dict, List, Optional, Tuple

from ronde._schedulers.places import refuse_a_rank
from ronde.exceptions import PlacementError, RondeError
from ronde.spark import _task

#: How often Spark is asked how many tasks run, in seconds; it tells nobody by itself.
_LOOK_EVERY_S = 0.1

#: How long the thread that waits for Spark's answer may go on once the stage was cancelled, in seconds.
_CANCEL_LIMIT_S = 30.0

#: How much of a text of Spark's is repeated, in characters.
_MOST_TEXT = 1000

_TIMED_OUT = 8  # RONDE_TIMED_OUT
_PEER_LOST = 6  # RONDE_PEER_LOST


class Stage:
    """A function on ranks that are tasks of a barrier stage. Spark does not try such a stage again when its results are asked
    for: no rank runs twice."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Tuple[Any, ...],
        kwargs: Dict[str, Any],
        ranks: Optional[int],
        variables: Dict[str, str],
        executable: Optional[str],
        is_told: bool,
    ) -> None:
        """Raises as :func:`ronde.spark.run` for what it finds wrong before anything is placed."""
        refuse_a_rank("ronde.spark.run")
        self._context = _active_context()
        self._ranks = int(self._context.defaultParallelism if ranks is None else ranks)
        if self._ranks < 1:
            raise ValueError(f"num_proc is {self._ranks}; expected 1 or more")
        self._order = _task.Order(_pickled(function, args, kwargs), self._ranks, variables, executable)
        self._group = f"ronde-{uuid.uuid4()}"
        self._results: List[Tuple[int, bytes]] = []
        self._failure: Optional[BaseException] = None
        if is_told:
            logging.getLogger("ronde").info("ronde.spark.run: %d ranks, the job group %s", self._ranks, self._group)

    def run(self, placing_limit_s: float) -> List[Any]:
        """The results in rank order. Raises as :func:`ronde.spark.run`."""
        from pyspark import InheritableThread

        # Job groups are a thread's own; a thread besides leaves the caller's alone, and this one free to look at the time.
        thread = InheritableThread(target=self._submit, name="ronde-spark-stage", daemon=True)
        thread.start()
        try:
            self._wait(thread, placing_limit_s)
        except BaseException:  # Ctrl-C too: nothing goes on behind the caller's back
            self._context.cancelJobGroup(self._group)
            thread.join(_CANCEL_LIMIT_S)
            self._await_end()
            raise
        if self._failure is not None:
            self._await_end()
            raise self._error(self._failure)
        return [pickle.loads(data) for _, data in sorted(self._results)]

    def _await_end(self) -> None:
        """Until Spark has killed the tasks that were ended: it gives their Python two seconds."""
        deadline = time.monotonic() + _CANCEL_LIMIT_S
        pause = threading.Event()
        while any(each.numActiveTasks > 0 for each in self._stages()) and time.monotonic() < deadline:
            pause.wait(_LOOK_EVERY_S)

    def _submit(self) -> None:
        try:
            self._context.setJobGroup(self._group, "Ronde: a function on ranks", interruptOnCancel=True)
            places = self._context.parallelize(range(self._ranks), self._ranks).barrier()
            self._results = places.mapPartitionsWithIndex(self._order.fill).collect()
        except BaseException as error:  # raised by run()
            self._failure = error

    def _wait(self, thread: threading.Thread, placing_limit_s: float) -> None:
        deadline = time.monotonic() + placing_limit_s
        is_placed = False
        # A function may take days: once all ranks are placed only its end, or Ctrl-C, ends this.
        while thread.is_alive():
            thread.join(_LOOK_EVERY_S if not is_placed else 1.0)
            if not is_placed and thread.is_alive():
                running = self._running()
                is_placed = running >= self._ranks
                if not is_placed and time.monotonic() > deadline:
                    raise self._too_late(running, placing_limit_s)

    def _running(self) -> int:
        """How many of the stage's tasks run, or have run."""
        return sum(int(each.numActiveTasks) + int(each.numCompletedTasks) for each in self._stages())

    def _stages(self) -> List[Any]:
        """What Spark tells of the job's one stage; empty before it has one."""
        tracker = self._context.statusTracker()
        jobs = (tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._group))
        stages = (tracker.getStageInfo(stage) for job in jobs if job is not None for stage in job.stageIds)
        return [each for each in stages if each is not None]

    def _too_late(self, running: int, limit_s: float) -> PlacementError:
        slots = _slots_of(self._context)
        has = f"the cluster has {slots} slot{'s' * (slots != 1)} for tasks" if slots is not None else "the cluster lacks slots"
        return PlacementError(
            f"only {running} of {self._ranks} ranks were placed within {limit_s:g} s: {has}, asked for {self._ranks}, and a "
            "barrier stage begins once all of its tasks can run at once",
            _TIMED_OUT,
        )

    def _error(self, error: BaseException) -> BaseException:
        failure = _task.failure_in(str(error))
        if failure is not None:
            return failure.error()
        if not isinstance(error, Exception):
            return error
        text = str(error)
        if "No module named 'ronde'" in text:
            made = RondeError(
                "a Spark executor's Python has no Ronde: install it there, or name one that has it by PYSPARK_PYTHON",
                _PEER_LOST,
            )
        else:
            made = RondeError(_told_by_spark(text, self._ranks), _PEER_LOST)
        made.__cause__ = error
        return made


def _active_context() -> Any:
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise ImportError("ronde.spark needs PySpark, which this Python does not have: pip install pyspark") from error
    context = SparkContext._active_spark_context
    if context is None:
        raise RondeError(
            "there is no active SparkContext: make one first, as SparkSession.builder.getOrCreate() does (a session of Spark "
            "Connect has none)",
            2,
        )
    return context


def _pickled(function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> bytes:
    if not callable(function):
        raise TypeError(f"ronde.spark.run needs a function to call, not {type(function).__name__}")
    from pyspark import cloudpickle

    try:
        return bytes(cloudpickle.dumps((function, args, kwargs)))
    except Exception as error:
        raise TypeError(
            f"the function or its arguments cannot be pickled ({type(error).__name__}: {error}): make what cannot "
            "(connections, locks, a SparkContext) inside of the function"
        ) from error


def _slots_of(context: Any) -> Optional[int]:
    try:
        spark = context._jsc.sc()
        return int(spark.maxNumConcurrentTasks(spark.resourceProfileManager().defaultResourceProfile()))
    except Exception:  # no public interface tells; of another version it may be elsewhere
        return None


def _told_by_spark(text: str, ranks: int) -> str:
    """Of a task that has not told itself why it has ended, since its Python or its executor was lost: what Spark knows."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.startswith("An error occurred while")]
    lost = re.search(r"barrier task ResultTask\(\d+, (\d+)\) finished unsuccessfully\.", text)
    if lost is None:
        return f"Spark has ended the stage of {ranks} ranks: {' '.join(lines[:2]).lstrip(': ')[:_MOST_TEXT]}"
    after = text[lost.end() :].strip().splitlines()
    why = after[0][:_MOST_TEXT] if after else "it does not say why"
    return f"Spark has lost task {lost[1]} of the {ranks} that had ranks: {why}"
