"""The reducers of all optimizers of this process."""

from __future__ import annotations

import gc
import os
import weakref
from typing import Any, Container, Dict, List, Optional, Protocol, Tuple

from ronde._calls import group_of
from ronde.exceptions import InvalidArgumentError


class _Reducer(Protocol):
    @property
    def name(self) -> str:
        """The same on all ranks; empty while it reduces nothing."""

    @property
    def touched(self) -> bool:
        """Whether a backward pass has reached it since the end of its last step."""

    def end_for_successor(self) -> None:
        """Another optimizer has its names, and it is in the middle of a step."""

    def look_for_changes(self, among: Container[Any]) -> None:
        """Whether parameters have come or gone, if it has one of these."""

    def go_along(self, generation: int) -> None:
        """With what comes next: another optimizer of its names does."""

    def leave_along(self) -> None:
        """Its generation, with what comes next: another optimizer of its names has left it."""

    def go_on_in(self, generation: int, group: int) -> None:
        """With what comes next, if it belongs to this process set."""

    def names_of_parameters(self) -> Dict[Any, str]:
        """Under which their gradients are reduced."""

    def leave_job(self) -> None:
        """This is a forked child now."""


_living: "weakref.WeakSet[_Reducer]" = weakref.WeakSet()

#: That may have a parameter which another one has too.
_may_share: "weakref.WeakSet[_Reducer]" = weakref.WeakSet()


def enter(reducer: _Reducer) -> None:
    """From now on until it goes."""
    _living.add(reducer)


def note_shared(reducer: _Reducer) -> None:
    """It has got its parameters. Others may have some of them, as one has that the program is about to drop."""
    own = reducer.names_of_parameters()
    for other in list(_living):
        if other is not reducer and _shared_name(own, other) is not None:
            _may_share.update((reducer, other))


def require_unshared(reducer: _Reducer) -> None:
    """A backward pass has come to it. InvalidArgumentError if another one, of other names or of another process set, reduces
    some of the same gradients, in the same memory."""
    if reducer not in _may_share:
        return
    if _name_shared_by(reducer) is not None:
        gc.collect()  # optimizers and their schedulers keep each other alive
    name = _name_shared_by(reducer)
    if name is None:
        _may_share.discard(reducer)
        return
    raise InvalidArgumentError(
        f"'{name}': another DistributedOptimizer, under other names or of another process set, has a parameter of this one's, "
        "and both would reduce its gradient. Drop the one that is not used any more, or let one optimizer have each parameter",
        1,
    )


def require_unreduced(names: Dict[Any, str]) -> None:
    """An optimizer that reduces no gradients of these parameters, but reads them, is about to step. InvalidArgumentError if
    another one is reducing some of them."""
    if _name_under_way(names) is not None:
        gc.collect()  # optimizers and their schedulers keep each other alive
    name = _name_under_way(names)
    if name is not None:
        raise InvalidArgumentError(
            f"'{name}': another DistributedOptimizer is reducing this parameter's gradient, which a step with op=Adasum "
            "reads. Call that one's synchronize() before, or let one optimizer have each parameter",
            1,
        )


def _name_under_way(names: Dict[Any, str]) -> Optional[str]:
    under_way = (each for reducer in list(_living) if reducer.touched for each in reducer.names_of_parameters())
    return next((names[parameter] for parameter in under_way if parameter in names), None)


def _name_shared_by(reducer: _Reducer) -> Optional[str]:
    own = reducer.names_of_parameters()
    found = (_shared_name(own, other) for other in list(_living) if other is not reducer)
    return next((name for name in found if name is not None), None)


def _shared_name(own: Dict[Any, str], other: _Reducer) -> Optional[str]:
    """Of a parameter that both reduce, under names of which none is the other's. One of the same names is a successor."""
    for parameter, name in other.names_of_parameters().items():
        own_name = own.get(parameter)
        if own_name is not None and _key(own_name) != _key(name):
            return own_name
    return None


def _key(name: str) -> Tuple[int, str]:
    """Names of several process sets are equal strings."""
    return group_of(name), name


def in_the_middle_of_a_step(name: str) -> List[_Reducer]:
    """Those of this name."""
    return [reducer for reducer in _of_name(name) if reducer.touched]


def _of_name(name: str) -> List[_Reducer]:
    return [reducer for reducer in list(_living) if _key(reducer.name) == _key(name)]


def move_here(parameters: Container[Any]) -> None:
    """An optimizer has got these: another one may have them no more, and must not reduce them any longer."""
    for reducer in list(_living):
        reducer.look_for_changes(parameters)


def go_along(name: str, generation: int) -> None:
    """All of this name, with what comes next."""
    for reducer in _of_name(name):
        reducer.go_along(generation)


def leave_along(name: str) -> None:
    """All of this name leave their generation."""
    for reducer in _of_name(name):
        reducer.leave_along()


def go_on_in(generation: int, group: int) -> None:
    """All that belong to this process set, with what comes next."""
    for reducer in list(_living):
        reducer.go_on_in(generation, group)


def _leave_job() -> None:
    for reducer in list(_living):
        reducer.leave_job()


os.register_at_fork(after_in_child=_leave_job)
