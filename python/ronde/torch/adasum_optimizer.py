"""The optimizer behind ``DistributedOptimizer(op=Adasum)``: ranks combine their steps, not their gradients."""

from __future__ import annotations

import contextlib
import math
from typing import Any, Callable, Dict, Iterator, List, Optional

import torch

from ronde._handle import Handle
from ronde.exceptions import InvalidArgumentError
from ronde.torch._added_groups import AddedGroups
from ronde.torch._copying import copy_of_wrapped
from ronde.torch._living_reducers import require_unreduced
from ronde.torch._loading import load_in_place
from ronde.torch.compression import AnyCompressor
from ronde.torch._scaler import ReadByScalers
from ronde.torch.mpi_ops import Adasum, Max, allreduce, allreduce_async_, synchronize
from ronde.torch.process_sets import ProcessSet, global_process_set

__all__ = ["adasum_optimizer"]


class _AdasumOptimizer(ReadByScalers):
    """The methods that come before the wrapped optimizer's own, see :func:`adasum_optimizer`."""

    _parameter_names: Dict[torch.nn.Parameter, str]
    _compression: AnyCompressor
    _process_set: ProcessSet
    _added_groups: AddedGroups

    def step(self, closure: Optional[Callable[[], Any]] = None) -> Any:
        """Steps as the wrapped optimizer does, with this rank's gradients; then moves each parameter by the Adasum of
        what all ranks moved it by. Returns what the wrapped optimizer does.

        Every parameter takes part on every rank, with zeros where a rank has not moved it. Raises what
        ``ronde.torch.synchronize`` does; the parameters are then where this rank alone has brought them. InvalidArgumentError
        while another optimizer reduces gradients of these.
        """
        self._take_added_groups()
        parameters = self._parameter_names
        require_unreduced(parameters)
        before = {parameter: parameter.detach().clone() for parameter in parameters}
        result = super().step(closure)
        handles = []
        for parameter, name in parameters.items():
            delta = parameter.detach() - before[parameter]
            packed, context = self._compression.compress(delta)
            handles.append((parameter, self._begin(packed, name), context))
        combined = [
            (parameter, self._compression.decompress(synchronize(handle), context))
            for parameter, handle, context in handles
        ]
        with torch.no_grad():
            for parameter, delta in combined:
                parameter.copy_(before[parameter] + delta)
        return result

    step.hooked = True  # type: ignore[attr-defined] # the wrapped optimizer's step() calls the hooks of steps

    def _before_reading(self, scaler: torch.amp.GradScaler) -> None:
        """The ranks tell each other of infinite gradients, so that all skip the step or none does."""
        self._overflow_together(self._groups())

    def _take_added_groups(self) -> None:
        added, removed = self._added_groups.changes(self._groups(), self._parameter_names, "adasum")
        for parameter in removed:
            del self._parameter_names[parameter]
        self._parameter_names.update(added)

    def _overflow_together(self, groups: List[Dict[str, Any]]) -> None:
        gradients = [p.grad for group in groups for p in group["params"] if p.grad is not None]
        values = [grad._values() if grad.is_sparse else grad for grad in gradients]
        is_finite = all(bool(torch.isfinite(value).all()) for value in values)
        flag = torch.tensor([not is_finite], dtype=torch.uint8, device="cpu")
        name = f"adasum.{min(self._parameter_names.values(), default='')}.overflow"
        if bool(allreduce(flag, name=name, op=Max, process_set=self._process_set)[0]) and is_finite:
            for value in values:
                value.detach().fill_(math.inf)  # what the scaler looks for: it skips the step and drops the gradients

    def _begin(self, delta: torch.Tensor, name: str) -> Handle[torch.Tensor]:
        return allreduce_async_(delta, name=f"adasum.{name}", op=Adasum, process_set=self._process_set)

    def synchronize(self) -> None:
        """Does nothing: there is nothing to wait for before ``step()``."""

    @contextlib.contextmanager
    def skip_synchronize(self) -> Iterator[None]:
        """AssertionError: a step cannot do without the other ranks' steps."""
        raise AssertionError("skip_synchronize() makes no sense with op=Adasum: it is the steps that are combined")
        yield

    def set_backward_passes_per_step(self, passes: int) -> None:
        """How many backward passes add up before ``step()``: their gradients do so by themselves. ValueError unless
        positive."""
        if passes <= 0:
            raise InvalidArgumentError(f"backward_passes_per_step must be 1 or more, not {passes}", 1)

    def __deepcopy__(self, memo: Dict[int, Any]) -> Any:
        """A distributed optimizer, too, of the copied parameters, as if made anew, under the same names."""
        plain, named = copy_of_wrapped(self, self._parameter_names, memo)
        names = {parameter: name for name, parameter in named}
        memo[id(self)] = copied = adasum_optimizer(plain, names, self._compression, self._process_set)
        return copied

    def load_state_dict(self, *args: Any, **kwargs: Any) -> None:
        """As the wrapped optimizer's. What that one, and schedulers made for it, share with this one stays shared."""
        load = super().load_state_dict
        load_in_place(self, lambda: load(*args, **kwargs))

    def add_param_group(self, param_group: Dict[str, Any]) -> None:
        """As the wrapped optimizer's; the new parameters take part under names made by their place."""
        super().add_param_group(param_group)
        self._take_added_groups()


def adasum_optimizer(
    optimizer: torch.optim.Optimizer,
    names: Dict[torch.nn.Parameter, str],
    compression: AnyCompressor,
    process_set: ProcessSet = global_process_set,
) -> Any:
    """Wraps an optimizer so that ranks combine, with Adasum, what their own gradients make it change.

    Args:
        names: of every parameter of the optimizer, the same on every rank.
        compression: what travels, see ``Compression``.
        process_set: whose ranks combine; this one is among them.

    The result is of a subclass of the optimizer's class and shares its state and ``param_groups``. Its state (momentum
    and the like) follows this rank's gradients and so differs between ranks. Needs memory for the parameters twice more.
    """
    base = type(optimizer)
    members = {"__module__": base.__module__, "__doc__": base.__doc__}
    cls: Any = type(base.__name__, (_AdasumOptimizer, base), members)
    distributed: Any = object.__new__(cls)
    # A learning-rate scheduler puts a step() of its own into the instance; that one leads to the wrapped optimizer.
    distributed.__dict__.update({key: value for key, value in vars(optimizer).items() if key != "step"})
    distributed._parameter_names = names
    distributed._compression = compression
    distributed._process_set = process_set
    distributed._added_groups = AddedGroups(optimizer.param_groups)
    return distributed
