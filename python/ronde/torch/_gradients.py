"""Gradients on their way through the all-reduce, from the hook that autograd calls to the averaged ``p.grad``."""

from __future__ import annotations

import weakref
from typing import Any, Dict, Iterable, List, NamedTuple, Optional, Sequence

import torch

from ronde.exceptions import UnsupportedError
from ronde.torch import _names
from ronde.torch._handles import Handle, synchronize
from ronde.torch._start import start_allreduce


class How(NamedTuple):
    """How gradients are reduced."""

    compression: Any
    op: int
    prescale: float
    postscale: float
    sparse_as_dense: bool


class _Packed(NamedTuple):
    """A gradient as it travels."""

    parameter: torch.nn.Parameter
    gradient: torch.Tensor  # as autograd has left it in p.grad
    sent: torch.Tensor  # its memory, or a compressed copy
    is_copy: bool
    context: Any  # of the compressor


class _Flight(NamedTuple):
    """One request under way: a gradient, or a group of them."""

    handle: Handle
    packed: List[_Packed]


class Reducer:
    """Starts the reduction of a gradient, or of a group of gradients, as soon as it is complete, and waits for all.

    ``units`` lists what is reduced by one request each: mostly single parameters. The order in which they get ready may
    differ between ranks; they meet by name.
    """

    def __init__(self, passes: int, how: How) -> None:
        self._how = how
        self._passes = passes
        self._units: List[List[torch.nn.Parameter]] = []
        self._unit_names: List[str] = []
        self._unit_of: Dict[torch.nn.Parameter, int] = {}
        self._passes_left: Dict[torch.nn.Parameter, int] = {}
        self._incomplete: Dict[int, int] = {}  # unit -> members still to come; units that are not under way
        self._flights: Dict[int, _Flight] = {}

    def add_unit(self, parameters: Sequence[torch.nn.Parameter], name: str) -> None:
        """From now on these parameters' gradients are reduced, together, under this name."""
        unit = len(self._units)
        self._units.append(list(parameters))
        self._unit_names.append(_names.name_of("allreduce" if len(parameters) == 1 else "grouped_allreduce", name))
        # A model outlives its optimizer at times; then its gradients must not be sent any more.
        reference = weakref.ref(self)

        def on_gradient(parameter: torch.Tensor) -> None:
            reducer = reference()
            if reducer is not None:
                reducer._count(parameter)  # type: ignore[arg-type]

        for parameter in parameters:
            self._unit_of[parameter] = unit
            self._passes_left[parameter] = self._passes
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(on_gradient)  # type: ignore[no-untyped-call]
        self._incomplete[unit] = len(parameters)

    @property
    def pending(self) -> bool:
        """Whether reductions are under way."""
        return bool(self._flights)

    @property
    def touched(self) -> bool:
        """Whether a backward pass has reached any parameter since the last :meth:`synchronize`."""
        return bool(self._flights) or any(left != self._passes for left in self._passes_left.values())

    def set_passes(self, passes: int) -> None:
        """How many backward passes add to a gradient before it is reduced; counting starts again."""
        self._passes = passes
        self.restart()

    def restart(self) -> None:
        """Forgets what is under way and counts from the start. Other ranks must do the same."""
        self._flights.clear()
        for parameter in self._passes_left:
            self._passes_left[parameter] = self._passes
        for unit, members in enumerate(self._units):
            self._incomplete[unit] = len(members)

    def _count(self, parameter: torch.nn.Parameter) -> None:
        left = self._passes_left[parameter] - 1
        unit = self._unit_of[parameter]
        if left < 0:
            raise AssertionError(
                f"'{self._unit_names[unit]}': a gradient was computed more often than backward_passes_per_step="
                f"{self._passes} times before step() or synchronize(). Raise backward_passes_per_step to accumulate "
                "gradients; torch.utils.checkpoint needs use_reentrant=False."
            )
        self._passes_left[parameter] = left
        if left == 0:
            self._incomplete[unit] -= 1
            if self._incomplete[unit] == 0:
                self._start(unit)

    def _start(self, unit: int) -> None:
        how = self._how
        packed = [self._pack(parameter, self._unit_names[unit]) for parameter in self._units[unit]]
        tensors = [item.sent for item in packed]
        handle = start_allreduce(
            tensors, tensors, self._unit_names[unit], how.op, how.prescale, how.postscale, False, wait=False
        )
        self._flights[unit] = _Flight(handle, packed)

    def _pack(self, parameter: torch.nn.Parameter, name: str) -> _Packed:
        gradient: Optional[torch.Tensor] = parameter.grad
        if gradient is None:  # unused on this rank, but perhaps not on the others
            gradient = parameter.grad = torch.zeros_like(parameter)
        bare = gradient.detach()
        if bare.layout is not torch.strided:
            if not self._how.sparse_as_dense:
                raise UnsupportedError(
                    f"'{name}' has a sparse gradient: give sparse_as_dense=True to DistributedOptimizer", 3, tensor=name
                )
            bare = bare.to_dense()
            gradient = parameter.grad = bare
        sent, context = self._how.compression.compress(bare)
        return _Packed(parameter, gradient, sent, sent is not bare, context)

    def synchronize(self) -> None:
        """Starts what no hook has started, waits for all, and leaves the results in ``p.grad``.

        If one fails, none is waited for any more and the error is raised; the gradients are then of no use.
        """
        for unit, members in enumerate(self._units):
            if unit not in self._flights and any(parameter.requires_grad for parameter in members):
                self._start(unit)
        flights = list(self._flights.values())
        self.restart()
        with torch.no_grad():
            for flight in flights:
                self._store(flight.packed, synchronize(flight.handle))

    def _store(self, packed: Iterable[_Packed], results: Iterable[torch.Tensor]) -> None:
        for item, result in zip(packed, results):
            if item.is_copy:
                item.gradient.detach().copy_(self._how.compression.decompress(result, item.context))
            current = item.parameter.grad
            if current is None:  # set to None between backward and here
                item.parameter.grad = item.gradient
            elif current is not item.gradient:
                current.detach().copy_(item.gradient.detach())
