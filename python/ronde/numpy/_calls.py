"""One call of an operation: its name, and what is told to the other ranks where it is refused."""

from __future__ import annotations

from typing import Any, Callable, Iterable, List, Optional, Sequence, TypeVar, Union

import numpy as np

from ronde import _names
from ronde._handle import Handle, Take
from ronde._names import Name
from ronde._operation import Operation
from ronde.exceptions import InvalidArgumentError
from ronde.numpy._arrays import Array
from ronde.process_sets import ProcessSet, group_of

_T = TypeVar("_T")

#: How many rows go to each rank: an array of whole numbers with one dimension, or a sequence.
Splits = Union[Array, Sequence[int]]


def call(kind: str, name: Optional[str], process_set: ProcessSet, make: Callable[[Name], _T]) -> _T:
    """What ``make`` returns, given the call's full name. A call that it refuses counts all the same, since the other
    ranks may have made it, and they are told."""
    full_name = _names.name_of(kind, name, group_of(process_set))
    try:
        return make(full_name)
    except BaseException as error:
        _names.refuse(full_name, error)
        raise


def result(operation: Operation, take: Take[Any], wait: bool) -> Any:
    """What the operation has made, or its handle."""
    return take(operation) if wait else Handle(operation, take)


def listed(arrays: Iterable[Any]) -> List[Any]:
    """What a grouped operation is given, as a list. InvalidArgumentError for one array."""
    if isinstance(arrays, np.ndarray):
        raise InvalidArgumentError(
            f"a grouped operation takes a list of arrays, not one of shape {arrays.shape}: give [array]", 1
        )
    return list(arrays)


def some(arrays: Iterable[Any]) -> List[Any]:
    """The same. InvalidArgumentError for no arrays."""
    made = listed(arrays)
    if not made:
        raise InvalidArgumentError("a grouped operation needs at least one array", 1)
    return made


def counts_of(splits: Optional[Splits]) -> Optional[List[int]]:
    """As a list; None stays None."""
    return None if splits is None else [int(count) for count in splits]
