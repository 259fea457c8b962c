"""Same start on every rank: parameters and optimizer state sent from one rank to all."""

from __future__ import annotations

import io
import pickle
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple, Union

import torch

from ronde import _process
from ronde._handle import synchronize_all
from ronde._objects import allgather_object, broadcast_bytes, broadcast_object
from ronde.exceptions import InvalidArgumentError
from ronde.torch._casts import shows_state, undo_casts
from ronde.torch._loading import TensorsBefore, load_in_place
from ronde.torch._tensors import check, gradient_type, is_expanded
from ronde.torch.mpi_ops import broadcast_async_

__all__ = ["allgather_object", "broadcast_object", "broadcast_optimizer_state", "broadcast_parameters"]

Parameters = Union[Mapping[str, torch.Tensor], Sequence[Tuple[str, torch.Tensor]], Sequence[torch.Tensor]]


def broadcast_parameters(params: Parameters, root_rank: int) -> None:
    """Gives every rank the values of rank ``root_rank``'s tensors, in place.

    Args:
        params: a dict (``model.state_dict()``), a list of (name, tensor) (``list(model.named_parameters())``) or a list
            of tensors; the same names or order, shapes and types on every rank. None among the values is passed over.
        root_rank: a rank of the job, the same on every rank.

    Raises ValueError for anything else; CollectiveError if it fails (see :func:`ronde.torch.synchronize`).
    """
    if isinstance(params, Mapping):
        named: List[Tuple[Optional[str], Any]] = [(key, params[key]) for key in sorted(params)]
    elif isinstance(params, (list, tuple)):
        named = [item if isinstance(item, tuple) else (None, item) for item in params]
    else:
        raise InvalidArgumentError(
            "broadcast_parameters takes a dict, a list of (name, tensor) or a list of tensors, "
            f"not {type(params).__name__}",
            1,
        )
    handles = [broadcast_async_(tensor, root_rank, name) for name, tensor in named if tensor is not None]
    synchronize_all(handles)


class _TensorsApart(pickle.Pickler):
    """Pickles an object but for its tensors, which it keeps: they go as they are."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: List[torch.Tensor] = []
        self._known: Dict[int, int] = {}  # by identity: what is one tensor in several places stays one

    def persistent_id(self, obj: Any) -> Optional[Tuple[Any, ...]]:
        if not isinstance(obj, torch.Tensor):
            return None
        number = self._known.setdefault(id(obj), len(self.tensors))
        if number == len(self.tensors):
            self.tensors.append(obj)
        return (number, tuple(obj.shape), obj.dtype)


class _TensorsToCome(pickle.Unpickler):
    """Reads such an object with empty tensors in their places."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.tensors: Dict[int, torch.Tensor] = {}

    def persistent_load(self, pid: Tuple[Any, ...]) -> torch.Tensor:
        index, shape, dtype = pid
        return self.tensors.setdefault(index, torch.empty(shape, dtype=dtype, device="cpu"))


def _zero_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Horovod steps an optimizer without state, with gradients of zeros, and programs count on what is left of that."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            if parameter.requires_grad:
                zeros = torch.zeros_like(parameter, dtype=gradient_type(parameter))
                is_sparse = isinstance(optimizer, torch.optim.SparseAdam) and zeros.dim() > 0
                parameter.grad = zeros.to_sparse(1) if is_sparse else zeros


def broadcast_optimizer_state(
    optimizer: torch.optim.Optimizer, root_rank: int, model: Optional[torch.nn.Module] = None
) -> None:
    """Gives every rank's optimizer the state and the settings (learning rate, ...) of rank ``root_rank``'s.

    Args:
        optimizer: of the same class with the same parameters on every rank. One that has no state yet gets the root's;
            nothing is stepped for that, but the gradients of its parameters are zeros afterwards, as Horovod leaves them.
        root_rank: a rank of the job, the same on every rank.
        model: accepted for compatibility.

    Tensors travel as they are, the rest pickled. Raises ValueError for LBFGS, whose state is no plain data, and if the
    optimizers hold different parameters; CollectiveError if it fails (see :func:`ronde.torch.synchronize`).
    """
    if isinstance(optimizer, torch.optim.LBFGS):
        raise InvalidArgumentError("broadcast_optimizer_state cannot send the state of torch.optim.LBFGS", 1)
    is_root = _process.rank() == root_rank
    tensors: List[torch.Tensor] = []
    state: Any = None
    is_live = False

    def make_skeleton() -> bytes:
        nonlocal tensors, state, is_live
        file = io.BytesIO()
        pickler = _TensorsApart(file)
        state = optimizer.state_dict()
        is_live = shows_state(optimizer, state)
        pickler.dump((state, is_live))
        tensors = [_whole(tensor, f"optimizer_state.{index}") for index, tensor in enumerate(pickler.tensors)]
        return file.getvalue()

    skeleton = broadcast_bytes(make_skeleton, root_rank, "optimizer_state")
    if not is_root:
        unpickler = _TensorsToCome(io.BytesIO(skeleton))
        state, is_live = unpickler.load()
        tensors = [unpickler.tensors[index] for index in sorted(unpickler.tensors)]
    handles = [
        broadcast_async_(tensor.detach().cpu(), root_rank, f"optimizer_state.{index}")
        for index, tensor in enumerate(tensors)
    ]
    received = synchronize_all(handles)
    if not is_root:
        for tensor, value in zip(tensors, received):
            if tensor is not value:
                tensor.copy_(value)
    reducer = getattr(optimizer, "_reducer", None)
    if reducer is not None:
        reducer.agree_on_generation()  # the root alone may have loaded a state
    if not optimizer.state and not (reducer is not None and reducer.touched):
        _zero_gradients(optimizer)
    before = TensorsBefore(optimizer)
    # On the root too: what loading makes of the state, in classes of the program's above all, ranks must not differ in.
    load = getattr(optimizer, "_load_beside", optimizer.load_state_dict)  # gradients may be under way
    load_in_place(optimizer, lambda: load(state))
    if is_live:
        undo_casts(optimizer, state)
        if not is_root:
            _follow_memory_orders(optimizer)
        before.fill(optimizer)


def _whole(tensor: torch.Tensor, name: str) -> torch.Tensor:
    """In host memory, each element in a place of its own. Raises InvalidArgumentError (a ValueError) for what cannot be
    sent, before others wait for it."""
    check(tensor, name)
    plain = tensor.detach().cpu()
    return plain.contiguous() if is_expanded(plain) else plain


def _follow_memory_orders(optimizer: torch.optim.Optimizer) -> None:
    """State that has come has the plain memory order, whatever its parameter's is here (channels_last, say). PyTorch's
    optimizers make state in the parameter's, and those with ``fused=True`` count on that: they take parameter, gradient
    and state element by element as they lie in memory."""
    made: Dict[int, torch.Tensor] = {}  # by identity: what is one tensor in several places stays one
    for parameter, state in optimizer.state.items():
        if isinstance(parameter, torch.Tensor):  # a class of the program's may keep more
            optimizer.state[parameter] = _in_order_of(parameter, state, made)


def _in_order_of(parameter: torch.Tensor, value: Any, made: Dict[int, torch.Tensor]) -> Any:
    """The same with tensors that lie as the parameter does, where they have its shape; dicts and lists are changed in
    place."""
    if isinstance(value, torch.Tensor):
        if value.shape != parameter.shape or value.layout is not torch.strided or parameter.layout is not torch.strided:
            return value
        if id(value) not in made:
            ordered = torch.empty_like(parameter, dtype=value.dtype, device=value.device, requires_grad=False)
            made[id(value)] = value if ordered.stride() == value.stride() else ordered.copy_(value)
        return made[id(value)]
    if type(value) is tuple:
        return tuple(_in_order_of(parameter, each, made) for each in value)
    if isinstance(value, (dict, list)):
        for key, each in list(value.items() if isinstance(value, dict) else enumerate(value)):
            value[key] = _in_order_of(parameter, each, made)
    return value
