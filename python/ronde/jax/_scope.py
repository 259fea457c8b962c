"""Where a call is made: whether JAX is tracing, so that the call becomes part of a program, and for how many devices."""

from __future__ import annotations

import math
from typing import Any

import jax
from jax.extend import core


def _current_trace() -> Any:
    """JAX shows it in no public way; None where it has gone elsewhere."""
    try:
        from jax._src.core import trace_ctx

        return trace_ctx.trace
    except (ImportError, AttributeError):
        return None


def is_staged() -> bool:
    """Whether a call made now becomes part of a program, to be run later."""
    trace = _current_trace()
    if trace is None:
        return bool(getattr(core, "unsafe_am_i_under_a_jit_DO_NOT_USE", lambda: False)())
    # Derivatives and batches are taken on the way to the trace that makes a program.
    while trace is not None and not hasattr(trace, "frame"):
        trace = getattr(trace, "parent_trace", None)
    return trace is not None


def devices() -> int:
    """How many devices each run their own part of the program that is traced, under ``shard_map`` or ``pmap``; else 1. What JAX
    cuts up itself, by the sharding of arguments, does not count."""
    mesh: Any = getattr(jax.sharding, "get_abstract_mesh", lambda: None)()
    return math.prod(mesh.shape[axis] for axis in getattr(mesh, "manual_axes", ()))


def refuse_devices(devices: int, what: str) -> None:
    """NotImplementedError if several devices of this process run the program: each would make its calls, under the same names
    and with a shard of the values, and the first of another rank's to come would be its partner."""
    if devices > 1:
        raise NotImplementedError(
            f"'{what}' makes calls of Ronde and runs on {devices} devices of this process, by shard_map, pmap or sharded "
            "arguments: a process is one rank, whose devices cannot each make its calls. Start a process for each device, or "
            "reduce over the devices in the program and call Ronde outside of it"
        )


def refuse_export(is_exported: bool, what: str) -> None:
    """NotImplementedError for a program that ``jax.export`` writes: as part of another one its calls get no names of their own,
    and two of one name would meet each other's."""
    if is_exported:
        raise NotImplementedError(
            f"'{what}' makes calls of Ronde and is exported: what ranks meet by is only known of the program that runs. Export "
            "functions without calls of Ronde, and make these in the jitted function that calls them"
        )
