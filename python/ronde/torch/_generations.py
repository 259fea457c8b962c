"""Generations of gradients: those of a later one never meet those of an earlier one, since their names differ.

A rank that drops a backward pass (``load_state_dict()``) may have asked the others for gradients that they never ask for, or not
have asked for those of the others. Whatever is asked for afterwards belongs to another generation. Ranks that have not
dropped a pass follow with their next step (see ``_step_summary``).
"""

from __future__ import annotations

from ronde.torch._places import epoch_now


class _Latest:
    """Of this process, in the job that it remembers."""

    epoch = 0
    number = 0


def latest_generation() -> int:
    """What an optimizer begins with: earlier ones of this job may have used its names. 0 in a new job."""
    return _Latest.number if _Latest.epoch == epoch_now() else 0


def reached(generation: int) -> None:
    """An optimizer goes on with this one."""
    _Latest.epoch, _Latest.number = epoch_now(), max(generation, latest_generation())
