"""DDP's buckets in memory that all ranks of the host map, so that their all-reduces copy nothing.

DDP's C++ part, the Reducer, makes its buckets with ``torch.empty`` and asks only backends written in C++ for other
memory. It does so at two moments: when it is made, and when it orders its buckets anew before the second step. DDP gets
it as ``torch.distributed.Reducer``, so that name is given to a class which watches the thread's calls of ``empty`` at
these moments, where the process group is one of Ronde's, and answers those that are buckets from a shared one. Their
memory goes with the last of their views, and PyTorch cannot resize it. For other groups it makes PyTorch's own Reducer.

It also sees the one moment at which DDP waits for reductions that it has only just begun (_left_futures.py).
"""

from __future__ import annotations

import os
from typing import Any, Callable, Iterable, Mapping, Optional, Tuple

import torch
import torch.distributed as dist
from torch.utils._python_dispatch import TorchDispatchMode

from ronde.torch import _places
from ronde.torch._freed_memory import keep_freed_memory
from ronde.torch._tensors import DTYPE_CODES
from ronde.torch.distributed import _left_futures
from ronde.torch.distributed._group import RondeProcessGroup

#: Smaller buckets gain nothing. In bytes.
_LEAST_BYTES = 64 * 1024

_PyTorchs = dist.Reducer


class _SharedEmpty(TorchDispatchMode):  # type: ignore[no-untyped-call] # not typed in PyTorch
    """While it is entered, ``torch.empty`` of this thread gives shared memory where that is of use. Also to C++, which
    is in the middle of putting its buckets together: nothing is raised there, :meth:`making` does it afterwards.
    """

    def __init__(self, group: Optional[RondeProcessGroup]) -> None:
        """``group``: None: of no use."""
        super().__init__()  # type: ignore[no-untyped-call] # nor is this
        self._group = group
        self._came: Optional[BaseException] = None

    def __torch_dispatch__(
        self,
        function: Any,
        types: Iterable[type],
        arguments: Tuple[Any, ...] = (),
        named: Optional[Mapping[str, Any]] = None,
    ) -> Any:
        made = function(*arguments, **(named or {}))
        if self._group is None or function is not torch.ops.aten.empty.memory_format or not _can_be_a_bucket(made):
            return made
        try:
            memory = self._group.shared_memory("bucket of DDP", made.nbytes)
            keep_freed_memory()
            return made if memory is None else torch.frombuffer(memory, dtype=made.dtype)
        except BaseException as error:  # Ctrl-C, most likely
            self._came = self._came or error
            return made

    def making(self, make: Callable[[], Any]) -> Any:
        """What ``make`` returns, which puts buckets together; then raises what came meanwhile."""
        self._came = None
        with self:
            made = make()
        came, self._came = self._came, None
        if came is not None:
            raise came
        return made


def _can_be_a_bucket(tensor: torch.Tensor) -> bool:
    return (
        type(tensor) is torch.Tensor
        and tensor.is_cpu
        and tensor.dim() == 1
        and tensor.is_floating_point()
        and tensor.dtype in DTYPE_CODES
        and tensor.nbytes >= _LEAST_BYTES
    )


class Reducer(_PyTorchs):
    """PyTorch's, with buckets in shared memory. PyTorch's own where the process group is not one of Ronde's."""

    def __new__(cls, *arguments: Any, **named: Any) -> Any:
        if not any(isinstance(each, RondeProcessGroup) for each in [*arguments, *named.values()]):
            return _PyTorchs(*arguments, **named)  # of another type, so that __init__() is not called
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **named: Any) -> None:
        group = _group_of([*arguments, *named.values()])
        self._where = _SharedEmpty(group)
        self._has_rebuilt = False
        if group is not None:
            _places.may_be_in_buckets(arguments[0] if arguments else named["params"])
        make = super().__init__
        self._where.making(lambda: make(*arguments, **named))

    @torch._disable_dynamo
    def _rebuild_buckets(self) -> bool:
        if self._has_rebuilt:
            return super()._rebuild_buckets()
        self._has_rebuilt = self._where.making(super()._rebuild_buckets)
        return self._has_rebuilt

    def _delay_all_reduce(self) -> None:
        """Of the first step with a static graph: begins all reductions and waits for them, in C++."""
        with _left_futures.at_once():
            super()._delay_all_reduce()  # type: ignore[misc] # torch's stubs do not know it

    def _reset_state(self) -> None:
        """It will order its buckets anew."""
        self._has_rebuilt = False
        super()._reset_state()

    def _update_process_group(self, new_process_group: Any) -> None:
        self._where = _SharedEmpty(_group_of([new_process_group]))
        super()._update_process_group(new_process_group)


def _group_of(arguments: Iterable[Any]) -> Optional[RondeProcessGroup]:
    """The one whose shared memory buckets are to lie in, if any."""
    if os.environ.get("DDP_DISABLE_COMM_MEM") != "1":  # PyTorch's own word for: buckets in ordinary memory
        for each in arguments:
            if isinstance(each, RondeProcessGroup) and each.size() > 1:
                return each
    return None


def replace_reducer() -> None:
    """Puts it in PyTorch's place. Again: does nothing."""
    if dist.Reducer is not Reducer:
        dist.Reducer = Reducer  # type: ignore[misc] # mypy takes classes for constants
