"""The caller's side: ranks from their placing to their end."""

from __future__ import annotations

import contextlib
import time
from typing import Any, Callable, Dict, Iterable, List, Mapping, NamedTuple, Optional, Sequence, Set, Tuple

from ronde._schedulers.failures import CONSEQUENCE_GRACE_S, Failure, cause_of_status, failure_of, first_of
from ronde._schedulers.places import (
    Place,
    Seat,
    checked_environment,
    environment_of,
    new_key,
    refuse_a_rank,
    seats_of,
)
from ronde.exceptions import PlacementError, RondeError
from ronde.ray._actors import Rank, Witness

#: How long Ray may take for what takes it milliseconds, in seconds: an answer of an actor that is there, the end of one.
_ANSWER_LIMIT_S = 30.0

#: For how many seconds Ray's own word is waited for once a rank's process is known to have ended. Ray alone knows that it has
#: killed a rank itself, since memory was used up.
_WORD_OF_RAY_S = 2.0

#: Calls of a witness that may be under way at once: one waits for the next end.
_CALLS_OF_WITNESS = 4

_INVALID = 1  # RONDE_INVALID_ARGUMENT
_NOT_INITIALIZED = 2
_PEER_LOST = 6
_TIMED_OUT = 8


class Wanted(NamedTuple):
    """What is asked of Ray.

    Attributes:
        bundles: of the placement group, each on one node: what they hold.
        per_bundle: how many ranks each takes.
        strategy: Ray's word for how bundles are spread over nodes.
        of_rank: the resources of a rank.
        use_current: place them in the placement group that this process is in, if it is in one.
    """

    bundles: List[Dict[str, float]]
    per_bundle: int
    strategy: str
    of_rank: Dict[str, float]
    use_current: bool

    @property
    def ranks(self) -> int:
        """How many."""
        return len(self.bundles) * self.per_bundle

    @staticmethod
    def of(
        ranks: Optional[int],
        hosts: Optional[int],
        per_host: int,
        cpus: float,
        gpus: float,
        use_current: bool,
        names: Tuple[str, str],
    ) -> "Wanted":
        """``names``: what the caller calls the first two. ValueError, in one sentence, if the numbers make no sense."""
        if (ranks is None) == (hosts is None):
            raise ValueError(f"how many ranks? Say it with {names[0]}=N or with {names[1]}=N, not with both")
        count = hosts if ranks is None else ranks
        assert count is not None
        if count < 1 or per_host < 1:
            raise ValueError(f"{count if per_host >= 1 else per_host} is no number of ranks or hosts; expected 1 or more")
        if cpus < 0 or gpus < 0 or cpus + gpus == 0:
            raise ValueError(f"a rank takes {cpus:g} CPUs and {gpus:g} GPUs; expected more than nothing: Ray counts by these")
        each = {name: float(number) for name, number in (("CPU", cpus), ("GPU", gpus)) if number > 0}
        if hosts is None:
            return Wanted([each] * count, 1, "PACK", each, use_current)
        whole = {name: number * per_host for name, number in each.items()}
        return Wanted([whole] * count, per_host, "STRICT_SPREAD", each, use_current)


class Ranks:
    """Actors that are the ranks of one job; in rank order once they are placed."""

    def __init__(self, what: str, wanted: Wanted) -> None:
        """Places nothing yet: that is :meth:`place`."""
        self._what = what
        self._wanted = wanted
        self._group: Any = None  # Ray's placement group, where it was made here
        self._actors: List[Any] = []
        self._places: List[Place] = []
        self._seats: List[Seat] = []
        self._witnesses: Dict[str, Any] = {}
        self._node_of: List[str] = []
        self._ends: Dict[Any, str] = {}  # Ray's references of the next end that each node's witness sees
        self._dead: Set[int] = set()  # ranks

    @staticmethod
    def place(what: str, wanted: Wanted, env: Optional[Mapping[str, str]], limit_s: float) -> "Ranks":
        """Raises as :func:`ronde.ray.run`, ``what`` for the caller, and then leaves nothing behind."""
        variables = checked_environment(env)
        refuse_a_rank(what)
        _connected()
        made = Ranks(what, wanted)
        try:
            made._place(variables, limit_s)
        except BaseException:
            made.end(in_order=False)
            raise
        return made

    def _place(self, variables: Dict[str, str], limit_s: float) -> None:
        import ray

        deadline = time.monotonic() + limit_s
        where = self._find_room(limit_s)
        kind = ray.remote(Rank)
        for index in range(self._wanted.ranks):
            strategy = where(index // self._wanted.per_bundle)
            resources = self._wanted.of_rank
            options = {"num_cpus": resources.get("CPU", 0), "num_gpus": resources.get("GPU", 0), "max_restarts": 0}
            self._actors.append(kind.options(scheduling_strategy=strategy, **options).remote())
        told = self._gather([actor.place.remote() for actor in self._actors], deadline, limit_s)
        self._number([place for place, _ in told], [node for _, node in told])
        self._witness(deadline)
        ports = self._get([self._actors[0].reserve.remote(variables.get("RONDE_PORT_RANGE"))])[0]
        key = new_key()  # travels from this process to each actor, in a call; Ray keeps what makes an actor, not what calls it
        self._get(
            [
                actor.sit.remote(self._seats[index], environment_of(index, self._places, ports, key, variables))
                for index, actor in enumerate(self._actors)
            ]
        )

    def _find_room(self, limit_s: float) -> Callable[[int], Any]:
        """How to schedule an actor of each bundle, once Ray has put all of them aside."""
        import ray
        from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

        current = ray.util.get_current_placement_group() if self._wanted.use_current else None
        if current is not None:
            return lambda _: PlacementGroupSchedulingStrategy(current)  # in whichever of its bundles there is room
        self._group = ray.util.placement_group(self._wanted.bundles, strategy=self._wanted.strategy)
        if not self._group.wait(limit_s):
            raise self._too_late(0, limit_s)
        group = self._group
        return lambda bundle: PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)

    def _gather(self, asked: List[Any], deadline: float, limit_s: float) -> List[Any]:
        import ray

        ready, waiting = ray.wait(asked, num_returns=len(asked), timeout=max(0.0, deadline - time.monotonic()))
        if waiting:
            raise self._too_late(len(ready), limit_s)
        return self._get(asked)

    def _get(self, asked: List[Any]) -> List[Any]:
        """The answers of actors that only prepare. A failure there is one of placing."""
        import ray

        try:
            answers: List[Any] = ray.get(asked, timeout=_ANSWER_LIMIT_S)
            return answers
        except ray.exceptions.RayTaskError as error:
            raise PlacementError(f"{self._what}: a rank's actor cannot be prepared: {_cause_in(error)}", _PEER_LOST) from error
        except ray.exceptions.RayError as error:
            text = " ".join(str(error).split())
            hint = ": its Python has no Ronde; install it on every node" if "No module named 'ronde'" in text else f": {text}"
            raise PlacementError(f"{self._what}: Ray cannot start a rank's actor{hint[:1000]}", _PEER_LOST) from error

    def _too_late(self, placed: int, limit_s: float) -> PlacementError:
        import ray

        asked: Dict[str, float] = {}
        for bundle in self._wanted.bundles:
            for name, number in bundle.items():
                asked[name] = asked.get(name, 0) + number
        total, free = ray.cluster_resources(), ray.available_resources()
        has = " and ".join(f"{total.get(name, 0):g} {name}s, {free.get(name, 0):g} of them free" for name in asked)
        wanted = " and ".join(f"{number:g} {name}s" for name, number in asked.items())
        spread = f" on {len(self._wanted.bundles)} different nodes" if self._wanted.strategy == "STRICT_SPREAD" else ""
        return PlacementError(
            f"only {placed} of {self._wanted.ranks} ranks were placed within {limit_s:g} s: the cluster has {has}, asked for "
            f"{wanted}{spread}, and a job begins once all of its ranks have their room",
            _TIMED_OUT,
        )

    def _number(self, places: Sequence[Place], nodes: Sequence[str]) -> None:
        seats = seats_of(places)
        order = sorted(range(len(seats)), key=lambda index: seats[index].rank)
        self._actors = [self._actors[index] for index in order]
        self._places = [places[index] for index in order]
        self._seats = [seats[index] for index in order]
        self._node_of = [nodes[index] for index in order]

    def _witness(self, deadline: float) -> None:
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        kind = ray.remote(Witness)
        for node in dict.fromkeys(self._node_of):
            strategy = NodeAffinitySchedulingStrategy(node_id=node, soft=False)
            options = {"num_cpus": 0, "max_restarts": 0, "max_concurrency": _CALLS_OF_WITNESS}
            self._witnesses[node] = kind.options(scheduling_strategy=strategy, **options).remote()
        watching = [
            witness.watch.remote([p.pid for p, at in zip(self._places, self._node_of) if at == node])
            for node, witness in self._witnesses.items()
        ]
        # Without it less is known of a death: no reason to do without the job.
        with contextlib.suppress(ray.exceptions.RayError):
            ray.get(watching, timeout=max(1.0, deadline - time.monotonic()))
            self._ends = {witness.next_end.remote([]): node for node, witness in self._witnesses.items()}

    @property
    def actors(self) -> List[Any]:
        """Ray's handles of the ranks, in rank order."""
        return self._actors

    def make(self, kind: Optional[Callable[..., Any]], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """Makes an object of each rank's. Raises RankFailedError."""
        self._results([actor.make.remote(kind, tuple(args), dict(kwargs)) for actor in self._actors])

    def call(self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> List[Any]:
        """The results of the function on all ranks, in their order. RankFailedError; TypeError if it cannot be pickled."""
        call = self.put(function, args, kwargs)
        return self._results([actor.call.remote(call) for actor in self._actors])

    def execute(self, function: Callable[[Any], Any], ranks: Iterable[int]) -> List[Any]:
        """The same of a function of the object that :meth:`make` has made, on some ranks."""
        call = _put(function, function)
        return self._results([self._actors[rank].execute.remote(call) for rank in ranks], list(ranks))

    def put(self, function: Callable[..., Any], args: Tuple[Any, ...], kwargs: Dict[str, Any]) -> Any:
        """Ray's reference of a call, once for all ranks. TypeError if it cannot be pickled."""
        return _put(function, (function, args, kwargs))

    def _results(self, asked: List[Any], ranks: Optional[List[int]] = None) -> List[Any]:
        """What was asked of the ranks, of all by default. At the first failure raises the error that tells of it."""
        import ray

        rank_of = dict(zip(asked, ranks if ranks is not None else range(len(asked))))
        results: Dict[int, Any] = {}
        failures: List[Failure] = []
        waiting = list(asked)
        until: Optional[float] = None
        while waiting and all(failure.follows for failure in failures):
            limit_s = None if until is None else until - time.monotonic()
            if limit_s is not None and limit_s <= 0:
                break
            each = self._next(waiting, rank_of, limit_s)
            if each is None:
                continue
            waiting.remove(each)
            outcome = self._outcome(each, rank_of[each])
            if isinstance(outcome, Failure):
                failures.append(outcome)
                until = until or time.monotonic() + CONSEQUENCE_GRACE_S
            else:
                results[rank_of[each]] = outcome[0] if outcome is not None else None
        failure = first_of(failures)
        if failure is not None:
            raise failure.error()
        return [results[rank] for rank in rank_of.values()]

    def _next(self, waiting: List[Any], rank_of: Dict[Any, int], limit_s: Optional[float]) -> Any:
        """A call that has ended, or whose rank has; None if something else has happened, or the limit has passed."""
        import ray

        lost = [each for each in waiting if rank_of[each] in self._dead]
        if lost:
            return lost[0]
        # A function may take days, so only a failure sets a limit. Ctrl-C ends the wait.
        ready, _ = ray.wait([*waiting, *self._ends], num_returns=1, timeout=limit_s)
        if not ready or ready[0] not in self._ends:
            return ready[0] if ready else None
        node = self._ends.pop(ready[0])
        with contextlib.suppress(ray.exceptions.RayError):  # without a witness less is known of a death
            told = ray.get(ready[0], timeout=_ANSWER_LIMIT_S)
            ranks = {place.pid: rank for rank, place in enumerate(self._places) if self._node_of[rank] == node}
            self._dead.update(ranks[pid] for pid in told)
            self._ends[self._witnesses[node].next_end.remote(list(told))] = node
        return None

    def _outcome(self, reference: Any, rank: int) -> Any:
        """Of a call that has ended, or whose rank has: what the actor has answered, or the failure of which Ray or the witness
        tells."""
        import ray

        place = self._places[rank]
        try:
            return ray.get(reference, timeout=_WORD_OF_RAY_S if rank in self._dead else _ANSWER_LIMIT_S)
        except ray.exceptions.RayTaskError as error:  # the result cannot be pickled, or the function not be loaded there
            cause = getattr(error, "cause", None) or error
            return failure_of(cause, rank, len(self._seats), place.host, place.pid)
        except ray.exceptions.RayError as error:
            return Failure(rank, len(self._seats), place.host, place.pid, self._cause_of_death(rank, error))

    def _cause_of_death(self, rank: int, error: Exception) -> str:
        import ray

        status = None
        with contextlib.suppress(ray.exceptions.RayError, KeyError):
            witness = self._witnesses[self._node_of[rank]]
            asked = witness.status.remote(self._places[rank].pid, _ANSWER_LIMIT_S / 2)
            status = ray.get(asked, timeout=_ANSWER_LIMIT_S)
        if status is not None and not isinstance(error, ray.exceptions.OutOfMemoryError):
            return cause_of_status(status)
        if rank in self._dead and isinstance(error, ray.exceptions.GetTimeoutError):
            return "has ended before its function had returned (how, Linux tells from 6.15 on)"
        return f"has ended: Ray tells {type(error).__name__}: {' '.join(str(error).split())[:1000]}"

    def end(self, in_order: bool = True) -> None:
        """Ends the ranks, and waits until their processes are gone. In order: each leaves the job first. Raises nothing."""
        import ray

        limit_s = _ANSWER_LIMIT_S
        if not ray.is_initialized():  # with the program's connection its actors have gone; a call would make another cluster
            self._actors, self._witnesses, self._ends, self._group = [], {}, {}, None
            return
        if in_order and self._actors:
            ray.wait([actor.leave.remote() for actor in self._actors], num_returns=len(self._actors), timeout=limit_s)
        for actor in self._actors:
            with contextlib.suppress(Exception):
                ray.kill(actor)
        with contextlib.suppress(Exception):
            ray.get([each.lingering.remote(limit_s) for each in self._witnesses.values()], timeout=2 * limit_s)
        for witness in self._witnesses.values():
            with contextlib.suppress(Exception):
                ray.kill(witness)
        if self._group is not None:
            with contextlib.suppress(Exception):
                ray.util.remove_placement_group(self._group)
        self._actors, self._witnesses, self._ends, self._group = [], {}, {}, None


def _connected() -> None:
    try:
        import ray
    except ImportError as error:
        raise ImportError("ronde.ray needs Ray, which this Python does not have: pip install ray") from error
    if not ray.is_initialized():
        raise RondeError(
            "Ray is not initialised in this process: call ray.init() first, with address='auto' for a cluster that runs",
            _NOT_INITIALIZED,
        )


def _put(function: Any, value: Any) -> Any:
    import ray

    if not callable(function):
        raise TypeError(f"expected a function to call, not {type(function).__name__}")
    try:
        return ray.put(value)
    except Exception as error:
        raise TypeError(
            f"the function or its arguments cannot be pickled ({error.__cause__ or str(error).splitlines()[0]}): make what "
            "cannot (connections, locks) inside of the function"
        ) from error


def _cause_in(error: Any) -> str:
    cause = getattr(error, "cause", None) or error
    return f"{type(cause).__name__}: {str(cause).strip()}"
