"""Groups of ranks: those of Ronde, the very same objects."""

from __future__ import annotations

from typing import Any, Sequence

from ronde.process_sets import (
    ProcessSet,
    add_process_set,
    adopt_process_sets,
    global_process_set,
    object_of,
    remove_process_set,
)

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "remove_process_set"]


# What Horovod's bindings of frameworks call while they load and start.


def _setup(basics: Any) -> None:
    """Says whose process sets these are. All bindings share one library here, so it only tells a wrong argument:
    TypeError for what cannot say which sets are registered."""
    if not callable(getattr(basics, "_get_process_set_ids_and_ranks", None)):
        raise TypeError(f"_setup takes a HorovodBasics, not {type(basics).__name__}")


def _init_process_sets(process_set_list: Sequence[ProcessSet]) -> None:
    """Gives objects the ids of the sets that were registered with their ranks. ValueError if there are none such."""
    adopt_process_sets(process_set_list)


def _temp_process_set_object(process_set_id: int) -> ProcessSet:
    """The process set with this id; not a temporary one but the registered. ValueError if there is none."""
    return object_of(process_set_id)
