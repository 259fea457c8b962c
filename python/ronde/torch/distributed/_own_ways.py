"""What PyTorch does for its own backends only, done for Ronde's groups too.

These functions look at a backend's class, or hand the group to C++ that no backend written in Python can serve. For any
other group they are PyTorch's.
"""

from __future__ import annotations

import functools
from datetime import timedelta
from typing import Any, Callable, List, Optional

import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from ronde.torch.distributed._group import RondeProcessGroup

_is_done = False


def take_part() -> None:
    """From now on. Again: does nothing."""
    global _is_done
    if _is_done:
        return
    _is_done = True
    c10d: Any = dist.distributed_c10d
    c10d._set_pg_timeout = _with_timeout(c10d._set_pg_timeout)
    modules: List[Any] = [dist, c10d]
    for module in modules:
        module.monitored_barrier = _monitored(module.monitored_barrier)
    ddp: Any = DistributedDataParallel
    ddp._register_builtin_comm_hook = _in_python(ddp._register_builtin_comm_hook)


def _of_ronde(group: Any) -> Optional[RondeProcessGroup]:
    """The group that is meant, if this rank is in it and it is Ronde's."""
    group = dist.group.WORLD if group is None else group
    return group if isinstance(group, RondeProcessGroup) else None


def _with_timeout(pytorchs: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(pytorchs)
    def set_pg_timeout(timeout: timedelta, group: Any = None) -> None:
        ours = _of_ronde(group)
        if ours is None:
            pytorchs(timeout, group)
        else:
            ours.set_timeout(timeout)

    return set_pg_timeout


def _monitored(pytorchs: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(pytorchs)
    def monitored_barrier(group: Any = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        ours = _of_ronde(group)
        if ours is None:
            pytorchs(group, timeout, wait_all_ranks)
        else:
            seconds = timedelta(seconds=timeout) if isinstance(timeout, float) else timeout
            ours.monitored_barrier(seconds, wait_all_ranks)

    return monitored_barrier


def _in_python(pytorchs: Callable[..., None]) -> Callable[..., None]:
    """PyTorch's built-in hooks call the group in C++. Those written in Python do the same."""

    @functools.wraps(pytorchs)
    def register_builtin_comm_hook(self: Any, comm_hook_type: Any) -> None:
        from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

        if _of_ronde(self.process_group) is None:
            pytorchs(self, comm_hook_type)
            return
        if comm_hook_type == dist.BuiltinCommHookType.FP16_COMPRESS:
            self.register_comm_hook(self.process_group, default_hooks.fp16_compress_hook)
        else:
            self.register_comm_hook(self.process_group, default_hooks.allreduce_hook)
        self.logger._set_comm_hook_name(str(comm_hook_type))  # PyTorch's own name for it in what DDP logs

    return register_builtin_comm_hook
