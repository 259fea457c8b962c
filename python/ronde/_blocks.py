"""The structs of one call, for ctypes: what :mod:`ronde._ticket` hands to the library, and a slot keeps."""

from __future__ import annotations

import ctypes
from ctypes import addressof, c_int64, c_uint64, c_void_p
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union

from ronde import _abi
from ronde._call_site import call_site
from ronde._calls import InGroup, Name, Unnamed
from ronde.exceptions import InvalidArgumentError

#: Address, extents and `ronde_dtype` of contiguous memory.
View = Tuple[int, Sequence[int], int]

_TENSOR_BYTES = ctypes.sizeof(_abi.Tensor)


class Block:
    """The structs of one call for one tensor. Making them costs more than filling them, and what comes back step after
    step, under its name, finds them filled."""

    __slots__ = (
        "request", "address", "shape", "input", "output", "input_at", "output_at", "said", "seen", "at", "taken",
    )

    def __init__(self) -> None:
        self.said: Any = None  # what the request says apart from tensors
        self.seen: Any = None  # the tensor and its output, if there is one tensor
        self.shape = (c_int64 * _abi.MAX_DIMENSIONS)()
        self.input = _abi.Tensor(struct_size=_TENSOR_BYTES, shape=addressof(self.shape))
        self.output = _abi.Tensor(struct_size=_TENSOR_BYTES, shape=addressof(self.shape))
        self.input_at = addressof(self.input)
        self.output_at = addressof(self.output)
        self.request = _abi.Request(struct_size=ctypes.sizeof(_abi.Request))
        self.address = addressof(self.request)
        self.at = c_void_p(self.address)
        self.taken = c_uint64()  # the number that the engine has given to an unnamed call
        self.request.taken = addressof(self.taken)

    def set_tensor(self, view: View, output: Optional[int]) -> None:
        """``output``: where the result goes; None: the ticket makes it, or there is nothing to write."""
        address, shape, dtype = view
        ndim = len(shape)
        if ndim > _abi.MAX_DIMENSIONS:
            raise ValueError(f"a tensor may have {_abi.MAX_DIMENSIONS} dimensions at most, this one has {ndim}")
        if ndim == 1:
            self.shape[0] = shape[0]
        else:
            self.shape[:ndim] = shape  # type: ignore[call-overload] # ctypes takes any sequence
        tensor = self.input
        tensor.data = address
        tensor.ndim = ndim
        tensor.dtype = dtype
        request = self.request
        request.inputs = self.input_at
        request.count = 1
        if output is None or output == address:
            request.outputs = None
            return
        tensor = self.output
        tensor.data = output
        tensor.ndim = ndim
        tensor.dtype = dtype
        request.outputs = self.output_at


#: Blocks not in use, by the name of the last request, of an unnamed one by its operation and the memory it was about. A
#: block is taken for the duration of a call, so threads and signal handlers each have their own.
free_blocks: Dict[Union[str, int], Block] = {}
#: Names may be used that never come again.
MOST_FREE_BLOCKS = 4096
#: More than there are operations.
OPERATIONS = 64


def _tensor_array(views: Sequence[View]) -> Tuple[Any, List[Any]]:
    """A C array of tensors, and what must live as long as it."""
    array = (_abi.Tensor * len(views))()
    shapes: List[Any] = []
    for tensor, (address, shape, dtype) in zip(array, views):
        extents = (c_int64 * len(shape))(*shape)
        shapes.append(extents)
        tensor.struct_size = _TENSOR_BYTES
        tensor.data = address
        tensor.shape = addressof(extents)
        tensor.ndim = len(shape)
        tensor.dtype = dtype
    return array, shapes


def require_int32(value: int, what: str) -> None:
    """InvalidArgumentError for what the C interface would cut."""
    if not -(1 << 31) <= value < 1 << 31:
        raise InvalidArgumentError(f"the {what} is {value}, which no 32 bits hold", _abi.INVALID_ARGUMENT)


def fill(
    block: Block,
    op: int,
    name: Name,
    inputs: Sequence[View],
    outputs: Optional[Sequence[int]],
    reduce_op: int,
    root: int,
    prescale: float,
    postscale: float,
    group: int = 0,
) -> Any:
    """Writes the request into the block; returns what must live until the call has returned. ``outputs`` as in
    :func:`ronde._operation.submit`."""
    request = block.request
    site = call_site()
    text = name if isinstance(name, str) else None
    number = name.number if isinstance(name, (Unnamed, InGroup)) else 0
    said = (text, number, op, reduce_op, root, prescale, postscale, group, site)
    if block.said != said:
        require_int32(root, "root rank")
        require_int32(reduce_op, "op")
        request.op = op
        encoded = None if text is None else text.encode()
        request.name = encoded
        request.name_bytes = 0 if encoded is None else len(encoded)
        request.call_number = number
        request.reduce_op = reduce_op
        request.root = root
        request.prescale = prescale
        request.postscale = postscale
        request.group = group
        request.call_site = site
        block.said = said
    if len(inputs) == 1:
        seen = (inputs[0], None if outputs is None else outputs[0])
        if block.seen != seen:
            block.seen = None
            block.set_tensor(*seen)
            block.seen = seen
        return None
    block.seen = None
    request.count = len(inputs)
    if not inputs:
        request.inputs = None
        request.outputs = None
        return None
    arrays = [_tensor_array(inputs)]
    request.inputs = addressof(arrays[0][0])
    request.outputs = None
    if outputs is not None:
        arrays.append(_tensor_array([(at, shape, dtype) for at, (_, shape, dtype) in zip(outputs, inputs)]))
        request.outputs = addressof(arrays[1][0])
    return arrays


def say_more(request: _abi.Request, splits: Optional[Sequence[int]], tag: int, timeout_s: float) -> Any:
    """Writes what few requests say; returns what must live until the call has returned."""
    array = None if splits is None else (c_int64 * len(splits))(*splits)
    request.splits = None if array is None else addressof(array)
    request.splits_count = 0 if splits is None else len(splits)
    if tag:
        require_int32(tag, "tag")
    request.tag = tag
    request.timeout_s = timeout_s
    return array
