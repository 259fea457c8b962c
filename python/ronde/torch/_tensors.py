"""PyTorch tensors as memory that the engine can read and write."""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

import torch

from ronde import _abi, _calls
from ronde._calls import Name
from ronde._operation import View
from ronde.exceptions import InvalidArgumentError

#: The one table of element types; which operation takes which of them is the library's to say.
DTYPE_CODES: Dict[torch.dtype, int] = {
    torch.uint8: _abi.UINT8,
    torch.int8: _abi.INT8,
    torch.int16: _abi.INT16,
    torch.int32: _abi.INT32,
    torch.int64: _abi.INT64,
    torch.float16: _abi.FLOAT16,
    torch.float32: _abi.FLOAT32,
    torch.float64: _abi.FLOAT64,
    torch.bool: _abi.BOOL,
    torch.bfloat16: _abi.BFLOAT16,
    torch.complex64: _abi.COMPLEX64,
    torch.complex128: _abi.COMPLEX128,
    torch.float8_e4m3fn: _abi.FLOAT8_E4M3,
    torch.float8_e5m2: _abi.FLOAT8_E5M2,
}

if hasattr(torch, "uint16"):  # from 2.3 on
    DTYPE_CODES.update({torch.uint16: _abi.UINT16, torch.uint32: _abi.UINT32, torch.uint64: _abi.UINT64})

#: From 2.10 on the gradient of a parameter may have another type.
_HAVE_GRAD_DTYPE = hasattr(torch.Tensor, "grad_dtype")

TORCH_DTYPES: Dict[int, torch.dtype] = {code: dtype for dtype, code in DTYPE_CODES.items()}


def gradient_type(parameter: torch.Tensor) -> torch.dtype:
    """The type of the parameter's gradient: its own, unless ``grad_dtype`` (PyTorch 2.10) says another, or None, which
    allows any; then that of the gradient that is there."""
    dtype: Optional[torch.dtype] = parameter.grad_dtype if _HAVE_GRAD_DTYPE else parameter.dtype
    if dtype is not None:
        return dtype
    return parameter.dtype if parameter.grad is None else parameter.grad.dtype


def view_of(tensor: torch.Tensor) -> View:
    """The memory of a contiguous tensor. Requires: :func:`check` has passed it, or ``staged`` has made it."""
    return tensor.data_ptr(), tensor.shape, DTYPE_CODES[tensor.dtype]


def kept(*tensors: torch.Tensor) -> List[Any]:
    """What keeps the memory of tensors until the engine has done with it, also where the program gives a tensor other memory
    meanwhile (``tensor.data = ...``, ``set_``). Nothing does where it resizes the storage."""
    return [tensor.untyped_storage() for tensor in tensors if tensor.layout is torch.strided]


def from_plain(value: Any, rows: bool = False) -> Any:
    """A tensor as it is; a number or a (nested) list of numbers as a new one. ``rows``: a number as one row, for
    operations along dimension 0. Anything else as it is: :func:`check` tells."""
    if isinstance(value, torch.Tensor) or not isinstance(value, (bool, int, float, complex, list, tuple)):
        return value
    tensor = torch.tensor(value)
    return tensor.reshape(1) if rows and tensor.dim() == 0 else tensor


def check(tensor: torch.Tensor, name: Name) -> None:
    """Raises InvalidArgumentError (a ValueError), naming the tensor, if neither the engine nor a copy can reach its
    values. Of an unnamed call the other ranks are told."""
    objection = _objection(tensor, name)
    if objection is not None:
        _calls.refuse(name, objection)
        raise InvalidArgumentError(objection, 1, tensor=str(name))


_PLAIN = (torch.Tensor, torch.nn.Parameter)


def _is_wrapper(tensor: torch.Tensor) -> bool:
    try:
        return tensor.data_ptr() == 0
    except RuntimeError:  # as of a FakeTensor
        return True


def _objection(tensor: torch.Tensor, name: Name) -> Optional[str]:
    if not isinstance(tensor, torch.Tensor):
        return f"'{name}': expected a torch.Tensor, got {type(tensor).__name__}"
    if not tensor.is_cpu and tensor.is_meta:
        return f"'{name}' is on device meta and has no values; pass a tensor in host memory or on an accelerator"
    if tensor.layout is not torch.strided:
        return f"'{name}' has layout {tensor.layout}: pass tensor.to_dense() or use sparse_allreduce_async"
    if type(tensor) not in _PLAIN and tensor.numel() > 0 and tensor.is_cpu and _is_wrapper(tensor):
        return (
            f"'{name}' is a {type(tensor).__name__}, whose values lie in another tensor: pass that one (tensor.wait() of a "
            "functional collective's result, tensor.to_local() of a DTensor)"
        )
    if tensor.dtype not in DTYPE_CODES:
        return f"'{name}' is of type {tensor.dtype}, which Ronde does not know"
    return None


def copies_back(
    pairs: Iterable[Tuple[torch.Tensor, torch.Tensor]], name: Name
) -> List[Tuple[torch.Tensor, torch.Tensor]]:
    """Of ``(target, memory that the engine writes)`` those where the target is something else and is to be filled from
    it, by :func:`fill`. Before anything is communicated: raises InvalidArgumentError (a ValueError) for a target whose
    elements lie on top of each other, as ``expand()`` makes them, since nothing can be copied there."""
    copies = [(target, memory) for target, memory in pairs if target is not memory]
    for target, _ in copies:
        check_target(target, name)
    return copies


def dense_of(tensor: torch.Tensor) -> torch.Tensor:
    """A sparse tensor as a dense one. PyTorch's own ``to_dense()`` loses values of one element that are expanded, which
    autograd makes of an embedding of dimension 1."""
    values = tensor._values()
    if 0 in values.stride():
        values = values.clone(memory_format=torch.contiguous_format)
        tensor = torch.sparse_coo_tensor(
            tensor._indices(), values, tensor.shape, is_coalesced=tensor.is_coalesced(), check_invariants=False
        )
    return tensor.to_dense()


def is_expanded(tensor: torch.Tensor) -> bool:
    """Whether several elements are one place in memory, as after ``expand()``."""
    return not tensor.is_contiguous() and any(
        stride == 0 and size > 1 for size, stride in zip(tensor.shape, tensor.stride())
    )


def check_target(target: torch.Tensor, name: Name) -> None:
    """Raises InvalidArgumentError (a ValueError), naming the tensor, if :func:`fill` cannot write to it. Of an unnamed
    call the other ranks are told."""
    if target.is_meta:
        objection = f"'{name}': an output of shape {tuple(target.shape)} is on device meta and cannot hold values"
        _calls.refuse(name, objection)
        raise InvalidArgumentError(objection, 1, tensor=str(name))
    if is_expanded(target):
        objection = (
            f"'{name}': several elements of an output of shape {tuple(target.shape)} are one place in memory, as after "
            "expand(); pass output.contiguous() and expand the result"
        )
        _calls.refuse(name, objection)
        raise InvalidArgumentError(objection, 1, tensor=str(name))


def fill(target: torch.Tensor, values: torch.Tensor, non_blocking: bool = False) -> None:
    """Writes the values into the target, outside autograd and wherever the target was made. ``non_blocking``: as of
    ``Tensor.copy_``."""
    if target.is_inference():
        with torch.inference_mode():
            target.copy_(values, non_blocking=non_blocking)
    else:
        target.detach().copy_(values, non_blocking=non_blocking)


def is_ready(tensor: torch.Tensor) -> bool:
    """Whether :func:`check` and ``staged`` would pass it on as it is, which holds for most; much sooner."""
    return (
        type(tensor) in _PLAIN
        and tensor.is_cpu
        and tensor.layout is torch.strided
        and tensor.is_contiguous()
        and not (tensor.is_conj() or tensor.is_neg())
        and tensor.dtype in DTYPE_CODES
    )


def apart(tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    """The tensors, with copies in place of those that share memory with another, of which one stays: for an operation in
    place on several, in which one's result must not be another's input. Requires: they are contiguous."""
    if len(tensors) == 1:
        return tensors
    end = 0
    for start, n_bytes in sorted([(tensor.data_ptr(), tensor.nbytes) for tensor in tensors]):
        if start < end:
            return _with_copies(tensors)
        end = start + n_bytes
    return tensors


def _with_copies(tensors: List[torch.Tensor]) -> List[torch.Tensor]:
    starts = [tensor.data_ptr() for tensor in tensors]
    end = 0
    separate = tensors
    for index in sorted(range(len(tensors)), key=starts.__getitem__):
        n_bytes = tensors[index].nbytes
        if starts[index] < end and n_bytes > 0:
            separate = list(separate) if separate is tensors else separate
            separate[index] = tensors[index].detach().clone()
        end = max(end, starts[index] + n_bytes)
    return separate


def new_like(tensor: torch.Tensor) -> torch.Tensor:
    """A new, contiguous tensor of its shape, type and device."""
    return torch.empty_like(tensor, memory_format=torch.contiguous_format)


def memory_order(tensor: torch.Tensor) -> Optional[Tuple[int, ...]]:
    """The dimensions of a dense tensor from the slowest in memory to the fastest, so that ``tensor.permute(order)`` is
    contiguous. None if it is contiguous as it is, or not dense, or if :func:`as_sent` cannot tell the order from others."""
    if tensor.is_contiguous():
        return None
    size, stride = tensor.shape, tensor.stride()
    order = sorted((d for d in range(tensor.dim()) if size[d] != 1), key=lambda d: (-stride[d], d))
    expected = 1
    for dimension in reversed(order):
        if stride[dimension] != expected:
            return None
        expected *= size[dimension]
    whole = (*(d for d in range(tensor.dim()) if size[d] == 1), *order)
    return whole if _number_of(whole) + tensor.dim() <= _abi.MAX_DIMENSIONS else None


def _number_of(order: Tuple[int, ...]) -> int:
    """Of an order of dimensions among all, in the order of a dictionary; the plain one has 0."""
    number = 0
    for place, dimension in enumerate(order):
        behind = order[place + 1 :]
        number = number * (len(behind) + 1) + sum(each < dimension for each in behind)
    return number


def as_sent(tensor: torch.Tensor, order: Optional[Tuple[int, ...]]) -> torch.Tensor:
    """A view of the tensor as ranks exchange it: in this order of its memory. So many leading dimensions of 1 as the order's
    number tell it from any other: ranks whose orders differ are told so, instead of adding up what does not belong together."""
    if order is None:
        return tensor
    there = tensor.permute(order)
    return there.view((1,) * _number_of(order) + tuple(there.shape))
