"""Process sets for TensorFlow: those of Ronde, the very same objects."""

from __future__ import annotations

from ronde.process_sets import ProcessSet, add_process_set, global_process_set, group_of, remove_process_set

__all__ = ["ProcessSet", "add_process_set", "global_process_set", "group_of", "remove_process_set"]
