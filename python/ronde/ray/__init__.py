"""A function on ranks that Ray places, each an actor of its own.

    import ray, ronde.ray

    ray.init()
    losses = ronde.ray.run(train, args=(0.1,), ranks=4)

:class:`RayExecutor` is the same for several functions one after the other, with Horovod's names. Importing this loads neither
Ray nor a framework. What it does with Ray: docs/ray-and-spark.md.
"""

from __future__ import annotations

from typing import Any, Callable, List, Mapping, Optional, Sequence

from ronde.ray._executor import ElasticRayExecutor, RayExecutor, Settings

__all__ = ["ElasticRayExecutor", "RayExecutor", "Settings", "run"]


def run(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Optional[Mapping[str, Any]] = None,
    *,
    ranks: Optional[int] = None,
    hosts: Optional[int] = None,
    ranks_per_host: int = 1,
    cpus_per_rank: float = 1,
    gpus_per_rank: float = 0,
    use_current_placement_group: bool = True,
    env: Optional[Mapping[str, str]] = None,
    timeout: float = 100.0,
) -> List[Any]:
    """Calls ``function(*args, **kwargs)`` in new processes, actors of the Ray cluster that this program has connected to, and
    returns what they returned, in rank order. The function calls ``init()`` as under any launcher. At the end no actor is left.

    Args:
        function: any function, lambdas and closures too. It, its arguments and results travel as Ray's objects do.
        args: the function's arguments by place; they may be or hold Ray's object references.
        kwargs: those by name.
        ranks: how many ranks, on as few hosts as Ray can (its strategy PACK); or, instead,
        hosts: on how many hosts (STRICT_SPREAD), with
        ranks_per_host: on each of them.
        cpus_per_rank: how many of Ray's CPUs each takes.
        gpus_per_rank: how many GPUs. Each rank sees those of all ranks of its host; its own at ``local_rank()`` if it has one.
        use_current_placement_group: in a task or actor that is in a placement group: place the ranks there too.
        env: variables for the ranks, set before the function is loaded.
        timeout: how many seconds Ray has to place and start the ranks. The function has no limit.

    Raises:
        RankFailedError: a rank has failed; it is named, with its host, its process and the cause, and no rank goes on.
        PlacementError: the ranks were not placed in time.
        TypeError: the function or its arguments cannot be pickled.
        ValueError: the numbers make no sense.
        RondeError: Ray is not initialised in this process, or this process is a rank already.
        ImportError: Ray is not installed.
    """
    from ronde.ray._ranks import Ranks, Wanted

    wanted = Wanted.of(
        ranks, hosts, ranks_per_host, cpus_per_rank, gpus_per_rank, use_current_placement_group, ("ranks", "hosts")
    )
    placed = Ranks.place("ronde.ray.run", wanted, env, timeout)
    try:
        results = placed.call(function, tuple(args), dict(kwargs or {}))
    except BaseException:  # Ctrl-C too
        placed.end(in_order=False)  # ranks may wait for one that does not come any more
        raise
    placed.end()
    return results
