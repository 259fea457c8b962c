"""``RayExecutor``: Horovod's class of this name, on Ronde."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, Callable, Dict, List, Mapping, Optional, Sequence, Union

from ronde.exceptions import RankFailedError, RondeError, UnsupportedError
from ronde.ray._ranks import Ranks, Wanted

_NOT_INITIALIZED = 2  # RONDE_NOT_INITIALIZED
_NOT_IMPLEMENTED = 3  # RONDE_NOT_IMPLEMENTED

_NO_ELASTIC = (
    "Ronde does not replace a rank whose process has died; RayExecutor(num_workers=N) with hvd.elastic in the function "
    "survives errors in which all processes live"
)


@dataclass
class Settings:
    """How long things may take: what :meth:`RayExecutor.create_settings` makes.

    Attributes:
        timeout_s: seconds that ranks wait for one another in ``init()``.
        placement_group_timeout_s: seconds that Ray has to place and start the ranks.
        nics: names of the network interfaces that ranks of several hosts use among each other.
    """

    timeout_s: float = 60
    placement_group_timeout_s: float = 100
    nics: Union[None, str, Sequence[str]] = None


class RayExecutor:
    """Ranks that Ray places, for several functions one after the other.

        executor = RayExecutor(RayExecutor.create_settings(timeout_s=30), num_workers=4)
        executor.start()
        losses = executor.run(train, args=[0.1])
        executor.shutdown()

    Every rank is an actor of its own, whose process stays from one function to the next. When one fails, in whatever function,
    all are ended: :meth:`start` begins anew.
    """

    @classmethod
    def create_settings(
        cls,
        timeout_s: float,
        ssh_identity_file: Optional[str] = None,
        ssh_str: Optional[str] = None,
        placement_group_timeout_s: float = 100,
        nics: Union[None, str, Sequence[str]] = None,
    ) -> Settings:
        """Settings for the constructor; see :class:`Settings`. ``ssh_identity_file`` and ``ssh_str`` have no effect, which a
        UserWarning says where they are given: Ray starts the ranks. Raises nothing."""
        if ssh_identity_file is not None or ssh_str is not None:
            warnings.warn("RayExecutor: ssh_identity_file and ssh_str are accepted, without effect on Ronde", stacklevel=2)
        return Settings(timeout_s, placement_group_timeout_s, nics)

    def __init__(
        self,
        settings: Any = None,
        num_workers: Optional[int] = None,
        num_hosts: Optional[int] = None,
        num_workers_per_host: int = 1,
        cpus_per_worker: float = 1,
        use_gpu: bool = False,
        gpus_per_worker: Optional[float] = None,
        use_current_placement_group: bool = True,
        min_workers: Optional[int] = None,
        max_workers: Optional[int] = None,
        reset_limit: Optional[int] = None,
        cooldown_range: Optional[Sequence[int]] = None,
        elastic_timeout: float = 600,
        override_discovery: bool = True,
    ) -> None:
        """Places nothing yet.

        Args:
            settings: of :meth:`create_settings`, or any object with some of its attributes; None: their defaults.
            num_workers: how many ranks, on as few hosts as Ray can; or, instead,
            num_hosts: on how many hosts, with
            num_workers_per_host: ranks on each.
            cpus_per_worker: how many of Ray's CPUs each rank takes.
            use_gpu: whether each takes GPUs, one if
            gpus_per_worker: does not say how many.
            use_current_placement_group: in a task or actor that is in a placement group: place the ranks there too.
            reset_limit: how often elastic training may start again after an error in which all processes live.

        Raises UnsupportedError for ``min_workers`` or ``max_workers``, which ask for ranks that are replaced; ValueError for
        numbers that make no sense. ``cooldown_range``, ``elastic_timeout`` and ``override_discovery`` belong to those two.
        """
        if min_workers is not None or max_workers is not None:
            what = "RayExecutor with min_workers or max_workers"
            raise UnsupportedError(f"{what} does not exist: {_NO_ELASTIC}", _NOT_IMPLEMENTED)
        if gpus_per_worker and not use_gpu:
            raise ValueError("gpus_per_worker is set, but use_gpu is False: set use_gpu=True, or leave gpus_per_worker out")
        if use_gpu and gpus_per_worker is not None and gpus_per_worker < 1:
            raise ValueError(f"gpus_per_worker is {gpus_per_worker}; expected 1 or more")
        del cooldown_range, elastic_timeout, override_discovery
        gpus = float(gpus_per_worker or 1) if use_gpu else 0.0
        self._wanted = Wanted.of(
            num_workers,
            num_hosts,
            num_workers_per_host,
            cpus_per_worker,
            gpus,
            use_current_placement_group,
            ("num_workers", "num_hosts"),
        )
        self._settings = settings if settings is not None else Settings()
        self._reset_limit = reset_limit
        self._ranks: Optional[Ranks] = None
        self._why_ended = "call start() first"

    @property
    def num_workers(self) -> int:
        """How many ranks it has, or would have."""
        return self._wanted.ranks

    @property
    def workers(self) -> List[Any]:
        """Ray's handles of the ranks' actors, in rank order; empty before :meth:`start`."""
        return list(self._ranks.actors) if self._ranks is not None else []

    def start(
        self,
        executable_cls: Optional[Callable[..., Any]] = None,
        executable_args: Optional[Sequence[Any]] = None,
        executable_kwargs: Optional[Mapping[str, Any]] = None,
        extra_env_vars: Optional[Mapping[str, str]] = None,
    ) -> None:
        """Places the ranks, and makes in each the object that functions of :meth:`execute` get.

        Args:
            executable_cls: what makes it; None: they get None.
            executable_args: its arguments by place.
            executable_kwargs: those by name.
            extra_env_vars: variables for the ranks, set before anything of theirs is loaded.

        Raises as :func:`ronde.ray.run`; RondeError if the ranks are there already.
        """
        if self._ranks is not None:
            raise RondeError("RayExecutor: its ranks are there already; call shutdown() first", 1)
        limit_s = float(getattr(self._settings, "placement_group_timeout_s", Settings.placement_group_timeout_s))
        self._ranks = Ranks.place("RayExecutor.start", self._wanted, self._variables(extra_env_vars), limit_s)
        self._kept(lambda ranks: ranks.make(executable_cls, executable_args or (), executable_kwargs or {}))

    def _variables(self, extra: Optional[Mapping[str, str]]) -> Dict[str, str]:
        variables: Dict[str, str] = {}
        init_limit_s = getattr(self._settings, "timeout_s", None)
        if init_limit_s is not None:
            variables["RONDE_INIT_TIMEOUT_S"] = f"{float(init_limit_s):g}"
        nics = getattr(self._settings, "nics", None)
        if nics:
            variables["RONDE_SOCKET_IFNAME"] = f"={nics if isinstance(nics, str) else ','.join(sorted(nics))}"
        if self._reset_limit is not None:
            variables["RONDE_ELASTIC_RESET_LIMIT"] = str(self._reset_limit)
        return {**variables, **(extra or {})}

    def _kept(self, ask: Callable[[Ranks], Any]) -> Any:
        """Asks the ranks, and ends them if one fails or the wait is interrupted."""
        if self._ranks is None:
            raise RondeError(f"RayExecutor has no ranks: {self._why_ended}", _NOT_INITIALIZED)
        try:
            return ask(self._ranks)
        except TypeError:  # it cannot be pickled: no rank has heard of it
            raise
        except BaseException as error:
            why = str(error) if isinstance(error, RankFailedError) else f"{type(error).__name__} came while they were working"
            self._end(f"they were ended, since {why}; start() begins anew", in_order=False)
            raise

    def execute(self, fn: Callable[[Any], Any], callbacks: Optional[Sequence[Any]] = None) -> List[Any]:
        """``fn(object)`` on every rank, with the object that :meth:`start` has made there; the results, in rank order.

        Raises RankFailedError if one fails, and then ends all; TypeError if ``fn`` cannot be pickled; UnsupportedError for
        ``callbacks``, which belong to elastic executors.
        """
        _refuse_callbacks(callbacks)
        every = range(self._wanted.ranks)
        results: List[Any] = self._kept(lambda ranks: ranks.execute(fn, every))
        return results

    def execute_single(self, fn: Callable[[Any], Any]) -> Any:
        """``fn(object)`` on rank 0 alone, and its result. Raises as :meth:`execute`."""
        return self._kept(lambda ranks: ranks.execute(fn, [0]))[0]

    def run(
        self,
        fn: Callable[..., Any],
        args: Optional[Sequence[Any]] = None,
        kwargs: Optional[Mapping[str, Any]] = None,
        callbacks: Optional[Sequence[Any]] = None,
    ) -> List[Any]:
        """``fn(*args, **kwargs)`` on every rank; the results, in rank order. Raises as :meth:`execute`."""
        _refuse_callbacks(callbacks)
        results: List[Any] = self._kept(lambda ranks: ranks.call(fn, tuple(args or ()), dict(kwargs or {})))
        return results

    def run_remote(
        self, fn: Callable[..., Any], args: Optional[Sequence[Any]] = None, kwargs: Optional[Mapping[str, Any]] = None
    ) -> List[Any]:
        """``fn(*args, **kwargs)`` on every rank, without waiting: Ray's references of the results, in rank order.

        Raises TypeError if it cannot be pickled. What a rank raises comes from ``ray.get``, and the ranks are not ended:
        whoever gets an error calls :meth:`shutdown`.
        """

        def ask(ranks: Ranks) -> List[Any]:
            call = ranks.put(fn, tuple(args or ()), dict(kwargs or {}))
            return [actor.call_remote.remote(call) for actor in ranks.actors]

        references: List[Any] = self._kept(ask)
        return references

    def shutdown(self) -> None:
        """Ends the ranks: each leaves its job, then its process ends. Again, or where there are none: does
        nothing. Raises nothing."""
        self._end("shutdown() was called; start() begins anew", in_order=True)

    def _end(self, why: str, in_order: bool) -> None:
        if self._ranks is not None:
            ranks, self._ranks = self._ranks, None
            self._why_ended = why
            ranks.end(in_order)


class ElasticRayExecutor:
    """Not there: making one raises UnsupportedError, whatever ``args`` and ``kwargs`` are."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        del args, kwargs
        raise UnsupportedError(f"ElasticRayExecutor does not exist: {_NO_ELASTIC}", _NOT_IMPLEMENTED)

    @staticmethod
    def create_settings(*args: Any, **kwargs: Any) -> Any:
        """Raises UnsupportedError, whatever ``args`` and ``kwargs`` are."""
        del args, kwargs
        raise UnsupportedError(f"ElasticRayExecutor does not exist: {_NO_ELASTIC}", _NOT_IMPLEMENTED)


def _refuse_callbacks(callbacks: Optional[Sequence[Any]]) -> None:
    if callbacks:
        raise UnsupportedError(f"callbacks= does not exist: {_NO_ELASTIC}", _NOT_IMPLEMENTED)
