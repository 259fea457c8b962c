"""The state of a training run with PyTorch: model, optimizer, learning-rate schedulers, samplers, and plain objects."""

from __future__ import annotations

import copy
import itertools
from typing import Any, Dict, List, Optional, Tuple, Type

import torch

from ronde import _process
from ronde.elastic.state import ObjectState
from ronde.torch._casts import shows_state, undo_casts
from ronde.torch.elastic.sampler import ElasticSampler
from ronde.torch.functions import broadcast_object, broadcast_optimizer_state, broadcast_parameters

#: Base of the schedulers; under its older name in older versions of PyTorch.
_Scheduler: Any = getattr(torch.optim.lr_scheduler, "LRScheduler", None) or torch.optim.lr_scheduler._LRScheduler


class StateHandler:
    """Knows how to save, restore and synchronize one kind of object in place. Subclass it for kinds of your own and add
    them to the registry."""

    def __init__(self, value: Any) -> None:
        self.value = value
        self._saved: Any = None
        self.save()

    def save(self) -> None:
        """Keeps a copy of the object's state."""
        self._saved = copy.deepcopy(self.value.state_dict())

    def restore(self) -> None:
        """Puts the saved state back into the object."""
        # A copy: the object may take it as it is and change it.
        self.value.load_state_dict(copy.deepcopy(self._saved))

    def sync(self) -> None:
        """Gives every rank's object the state of rank 0's, and saves it. Collective."""
        self.value.load_state_dict(broadcast_object(self.value.state_dict(), 0, self._sync_name))
        self.save()

    def set_value(self, value: Any) -> None:
        """Another object takes the place of this one, and is saved."""
        self.value = value
        self.save()

    @property
    def _sync_name(self) -> str:
        return f"elastic.{type(self.value).__name__}"


class ModelStateHandler(StateHandler):
    """A ``torch.nn.Module``."""

    def sync(self) -> None:
        """See :class:`StateHandler`; parameters and buffers travel as they are. What else ``state_dict`` has, extra state of a
        module or copies that a hook makes, is pickled, and loaded."""
        state = self.value.state_dict()
        held = {_place(tensor) for tensor in itertools.chain(self.value.parameters(), self.value.buffers())}
        in_place = {key: value for key, value in state.items() if isinstance(value, torch.Tensor) and _place(value) in held}
        broadcast_parameters(in_place, root_rank=0)
        if len(in_place) < len(state):
            others = {key: value for key, value in state.items() if key not in in_place}
            self.value.load_state_dict({**state, **broadcast_object(others, 0, self._sync_name)})
        self.save()


def _place(tensor: torch.Tensor) -> Tuple[Any, ...]:
    """Alike for two tensors of the same elements in memory."""
    return tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride()


class OptimizerStateHandler(StateHandler):
    """A ``torch.optim.Optimizer``, distributed or not."""

    def save(self) -> None:
        """See :class:`StateHandler`."""
        state = self.value.state_dict()
        self._is_shown = shows_state(self.value, state)
        self._saved = copy.deepcopy(state)

    def restore(self) -> None:
        """See :class:`StateHandler`; state keeps its types. Gradients of the step that failed go: many loops would add to them."""
        state = copy.deepcopy(self._saved)
        self.value.load_state_dict(state)
        if self._is_shown:
            undo_casts(self.value, state)
        self.value.zero_grad()

    def sync(self) -> None:
        """See :class:`StateHandler`; tensors travel as they are."""
        broadcast_optimizer_state(self.value, root_rank=0)
        self.save()


class SchedulerStateHandler(StateHandler):
    """A scheduler of the learning rate."""


class SamplerStateHandler(StateHandler):
    """An :class:`ElasticSampler`."""


Registry = List[Tuple[Type[Any], Type[StateHandler]]]

_registry: Registry = [
    (torch.nn.Module, ModelStateHandler),
    (torch.optim.Optimizer, OptimizerStateHandler),
    (_Scheduler, SchedulerStateHandler),
    (torch.optim.lr_scheduler.ReduceLROnPlateau, SchedulerStateHandler),
    (ElasticSampler, SamplerStateHandler),
]


def get_handler_registry() -> Registry:
    """Pairs of a class and the handler of its objects; the first that fits counts. The list itself."""
    return _registry


def set_handler_registry(registry: Registry) -> None:
    """States made from now on look into this one."""
    global _registry
    _registry = registry


def _handler_of(value: Any) -> Optional[StateHandler]:
    return next((handler(value) for kind, handler in get_handler_registry() if isinstance(value, kind)), None)


class TorchState(ObjectState):
    """What a training run must not lose. Arguments become attributes; models, optimizers, learning-rate schedulers and
    :class:`ElasticSampler` are saved and restored in place, anything else is copied and must be picklable.

    Args:
        model: a ``torch.nn.Module``; more of them under other names.
        optimizer: of ``torch.optim``, or a ``DistributedOptimizer``; more of them under other names.
        kwargs: whatever else.

    ``init()`` must have been called. The handlers work in the order of the arguments, so give a scheduler after the
    optimizer that it drives. Collective are :meth:`sync`, :meth:`commit` and :meth:`check_host_updates`.
    """

    def __init__(
        self,
        model: Optional[torch.nn.Module] = None,
        optimizer: Optional[torch.optim.Optimizer] = None,
        **kwargs: Any,
    ) -> None:
        given = {"model": model, "optimizer": optimizer, **kwargs}
        self._handlers: Dict[str, StateHandler] = {}
        objects: Dict[str, Any] = {}
        for name, value in given.items():
            handler = _handler_of(value)
            if handler is not None:
                self._handlers[name] = handler
                object.__setattr__(self, name, value)
            elif value is not None or name in kwargs:
                objects[name] = value
        super().__init__(broadcast_object, _process.rank, **objects)

    def __setattr__(self, name: str, value: Any) -> None:
        handler = self.__dict__.get("_handlers", {}).get(name)
        if handler is not None:
            handler.set_value(value)
        super().__setattr__(name, value)

    def save(self) -> None:
        """As :meth:`ronde.elastic.State.save`. Raises what copying an object does."""
        for handler in self._handlers.values():
            handler.save()
        super().save()

    def restore(self) -> None:
        """As :meth:`ronde.elastic.State.restore`. Raises what an object's ``load_state_dict`` does."""
        for handler in self._handlers.values():
            handler.restore()
        super().restore()

    def sync(self) -> None:
        """As :meth:`ronde.elastic.State.sync`. Raises CollectiveError if the exchange fails."""
        handlers = list(self._handlers.values())
        before = [dict(vars(handler)) for handler in handlers]
        try:
            for handler in handlers:
                handler.sync()
            super().sync()
        except BaseException:
            # Each has saved what it got: restore() is to go back to one commit of all.
            for handler, saved in zip(handlers, before):
                vars(handler).update(saved)
            raise

    def reset(self) -> None:
        """Samplers deal what is left out to the ranks that there are now. Raises NotInitializedError (a ValueError)
        before ``init()``."""
        for handler in self._handlers.values():
            if isinstance(handler.value, ElasticSampler):
                handler.value.reset()
