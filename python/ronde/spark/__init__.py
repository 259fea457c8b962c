"""A function on ranks that Spark places: the tasks of a barrier stage.

    import ronde.spark

    losses = ronde.spark.run(train, args=(0.1,), num_proc=4)      # in a program that has a SparkContext

Importing this loads neither PySpark nor a framework. What it does with Spark: docs/ray-and-spark.md.
"""

from __future__ import annotations

import os
import warnings
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

__all__ = ["run", "run_elastic"]

#: What Horovod's function takes, and here changes nothing; with the values that say nothing.
_WITHOUT_EFFECT: Dict[str, Any] = {
    "use_mpi": (None, False),
    "use_gloo": (None, True),
    "extra_mpi_args": (None, ""),
    "stdout": (None,),
    "stderr": (None,),
    "prefix_output_with_timestamp": (False,),
}


def run(
    fn: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    num_proc: Optional[int] = None,
    start_timeout: Optional[float] = None,
    use_mpi: Optional[bool] = None,
    use_gloo: Optional[bool] = None,
    extra_mpi_args: Optional[str] = None,
    env: Optional[Mapping[str, str]] = None,
    stdout: Any = None,
    stderr: Any = None,
    verbose: int = 1,
    nics: Union[None, str, Sequence[str]] = None,
    prefix_output_with_timestamp: bool = False,
    executable: Optional[str] = None,
) -> List[Any]:
    """Calls ``fn(*args, **kwargs)`` in ``num_proc`` new processes, one in each task of a barrier stage of the active
    SparkContext, and returns what they returned, in rank order. The function calls ``init()`` as under any launcher.

    Args:
        fn: any function, lambdas and closures too. It and its arguments travel as Spark's own functions do, pickled by
            PySpark's cloudpickle; modules that only the driver has are told to Spark (``SparkContext.addPyFile``).
        args: the function's arguments by place.
        kwargs: those by name.
        num_proc: how many ranks; None: the context's ``defaultParallelism``.
        start_timeout: how many seconds Spark has to run all of the tasks at once; None: HOROVOD_SPARK_START_TIMEOUT, else 600.
        env: variables for the ranks, over their executor's environment.
        verbose: 2 or more: tell in the log ``ronde`` (:mod:`logging`), at level info, what is started.
        nics: names of the network interfaces that ranks of several hosts use among each other.
        executable: the Python that runs the ranks; None: that of the tasks.

    ``use_mpi``, ``use_gloo``, ``extra_mpi_args``, ``stdout``, ``stderr`` and ``prefix_output_with_timestamp`` are accepted as
    Horovod accepts them, and have no effect: a UserWarning names those that were given. What ranks print is in their
    executors' logs.

    Raises:
        RankFailedError: a rank has failed; it is named, with its host, its process and the cause, and no rank goes on.
        PlacementError: the tasks did not run at once in time.
        TypeError: the function or its arguments cannot be pickled.
        ValueError: ``num_proc`` is below 1.
        RondeError: there is no active SparkContext, or this process is a rank already.
        ImportError: PySpark is not installed.
    """
    given = locals()
    idle = [name for name, nothing in _WITHOUT_EFFECT.items() if given[name] not in nothing]
    if idle:
        warnings.warn(f"ronde.spark.run: accepted, without effect on Ronde: {', '.join(idle)}", UserWarning, stacklevel=2)

    from ronde._schedulers.places import checked_environment
    from ronde.spark._stage import Stage

    variables = checked_environment(env)
    if nics:
        names = [nics] if isinstance(nics, str) else sorted(nics)
        variables.setdefault("RONDE_SOCKET_IFNAME", f"={','.join(names)}")
    limit_s = start_timeout if start_timeout is not None else float(os.environ.get("HOROVOD_SPARK_START_TIMEOUT", "600"))
    stage = Stage(fn, tuple(args), dict(kwargs or {}), num_proc, variables, executable, is_told=verbose >= 2)
    return stage.run(limit_s)


def run_elastic(*args: Any, **kwargs: Any) -> List[Any]:
    """Not there: raises UnsupportedError, whatever ``args`` and ``kwargs`` are: Spark runs a barrier stage's
    tasks all at once or not at all."""
    del args, kwargs
    from ronde.exceptions import UnsupportedError

    raise UnsupportedError(
        "ronde.spark.run_elastic does not exist: Ronde does not replace a rank whose process has died; run() with hvd.elastic "
        "in the function survives errors in which all processes live",
        code=3,
    )
