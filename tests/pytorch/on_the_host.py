"""Tests that PyTorch's suite runs with GPUs only, run in host memory: most are about DistributedDataParallel and would do
without. Imported before the suite is; a test that cannot do without a GPU then fails, over Gloo too.
"""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Dict

import torch
from torch.nn.parallel import DistributedDataParallel
from torch.overrides import TorchFunctionMode
from torch.testing._internal import common_distributed


def _as_it_is(test: Any) -> Any:
    return test


def _in_host_memory(device: Any) -> Any:
    is_meant = isinstance(device, int) and not isinstance(device, bool)
    return "cpu" if is_meant or str(device).startswith("cuda") else device


class _OnTheHost(TorchFunctionMode):
    """Every device that is asked for is the host."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        settings: Dict[str, Any] = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        if "device" in settings:
            settings["device"] = _in_host_memory(settings["device"])
        first = 0 if function is torch.device else 1
        if function is torch.device or name == "to":
            args = (*args[:first], *map(_in_host_memory, args[first : first + 1]), *args[first + 1 :])
        return function(*args, **settings)


def _move(to: Callable[..., Any]) -> Callable[..., Any]:
    def move(self: Any, *arguments: Any, **settings: Any) -> Any:
        if "device" in settings:
            settings["device"] = _in_host_memory(settings["device"])
        return to(self, *map(_in_host_memory, arguments), **settings)

    return move


def _without_devices(begin: Callable[..., None]) -> Callable[..., None]:
    def init(self: Any, module: Any, device_ids: Any = None, output_device: Any = None, *rest: Any, **more: Any) -> None:
        begin(self, module, None, None, *rest, **more)

    return init


def ask_for_no_gpu() -> None:
    """Before the suite is imported: its decorators skip nothing for want of GPUs."""
    table: Any = common_distributed
    for decorator in ("skip_if_lt_x_gpu", "nccl_skip_if_lt_x_gpu", "require_n_gpus_for_nccl_backend"):
        setattr(table, decorator, lambda *_, **__: _as_it_is)
    table.skip_if_no_gpu = _as_it_is
    table.init_multigpu_helper = lambda world, _: {rank: [rank] for rank in range(world)}


def begin() -> None:
    """In the process of a rank: from now on there is no other device."""
    module: Any = torch.nn.Module
    module.cuda = lambda self, device=None: self
    module.to = _move(module.to)
    ddp: Any = DistributedDataParallel
    ddp.__init__ = _without_devices(ddp.__init__)
    cuda: Any = torch.cuda
    for name in ("set_device", "synchronize"):
        setattr(cuda, name, lambda *_, **__: None)  # one for each: torch.compile tells functions apart
    cuda.device = lambda *_: contextlib.nullcontext()
    _OnTheHost().__enter__()

