"""Arrays, and whatever else holds numbers in host memory, as memory that the engine can read and write."""

from __future__ import annotations

from ctypes import addressof, c_char
from typing import TYPE_CHECKING, Any, Dict, List, Optional, Sequence, Tuple

import numpy as np
from numpy.typing import NDArray

from ronde import _abi
from ronde._operation import View
from ronde.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from typing import TypeAlias  # Python 3.9 has none

#: Of any shape and type.
Array: TypeAlias = NDArray[Any]

#: The one table of element types; which operation takes which of them is the library's to say. Types of ml_dtypes, which
#: have no fixed number in NumPy, are added as they are met.
_CODES: Dict[Any, int] = {
    np.dtype(np.uint8): _abi.UINT8,
    np.dtype(np.int8): _abi.INT8,
    np.dtype(np.uint16): _abi.UINT16,
    np.dtype(np.int16): _abi.INT16,
    np.dtype(np.int32): _abi.INT32,
    np.dtype(np.int64): _abi.INT64,
    np.dtype(np.uint32): _abi.UINT32,
    np.dtype(np.uint64): _abi.UINT64,
    np.dtype(np.float16): _abi.FLOAT16,
    np.dtype(np.float32): _abi.FLOAT32,
    np.dtype(np.float64): _abi.FLOAT64,
    np.dtype(np.bool_): _abi.BOOL,
    np.dtype(np.complex64): _abi.COMPLEX64,
    np.dtype(np.complex128): _abi.COMPLEX128,
}

_OF_ML_DTYPES = {"bfloat16": _abi.BFLOAT16, "float8_e4m3fn": _abi.FLOAT8_E4M3, "float8_e5m2": _abi.FLOAT8_E5M2}


def code_of(dtype: Any) -> Optional[int]:
    """The engine's number of an element type; None if it has none."""
    code = _CODES.get(dtype)
    if code is not None:
        return code
    if dtype.type.__module__ == "ml_dtypes" and dtype.name in _OF_ML_DTYPES:
        _CODES[dtype] = code = _OF_ML_DTYPES[dtype.name]
        return code
    return None


def _objection(array: Array) -> Optional[str]:
    if isinstance(array, np.ma.MaskedArray):
        return "is a masked array, whose mask Ronde does not look at: pass array.filled(value)"
    dtype = array.dtype
    if code_of(dtype) is not None:
        return None
    if not dtype.isnative:
        return f"is of type {dtype.str}, in the other byte order: pass array.astype({dtype.newbyteorder('=').str!r})"
    return f"is of type {dtype}, which Ronde does not know: it takes numbers and truth values of fixed size"


def refuse(name: object, objection: str) -> InvalidArgumentError:
    """The error that says what is wrong with the array of this name."""
    return InvalidArgumentError(f"'{name}' {objection}", _abi.INVALID_ARGUMENT, tensor=str(name))


def as_array(value: Any, name: object) -> Array:
    """An array over the memory of the value, or with its values where it is a number or a (nested) sequence of them.
    InvalidArgumentError for anything else."""
    array = _over_memory(value, name)
    if array is not None:
        return array
    try:
        return np.asarray(value)
    except (TypeError, ValueError, RuntimeError) as error:
        raise refuse(name, f"is a {type(value).__name__} that NumPy cannot read: {error}") from error


def _over_memory(value: Any, name: object) -> Optional[Array]:
    """An array over the memory of the value; None if NumPy can only have its numbers. InvalidArgumentError if not even these."""
    if isinstance(value, np.ndarray):
        return value
    if isinstance(value, np.generic) or hasattr(value, "__array_interface__") or hasattr(value, "__array_struct__"):
        return np.asarray(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return np.asarray(memoryview(value))
    if hasattr(value, "__dlpack__"):
        if getattr(value, "is_neg", bool)():  # of PyTorch: its memory holds the negative values, which DLPack does not say
            return None
        try:
            array: Array = np.from_dlpack(value)
            # A tensor whose values lie in others (DTensor, results of functional collectives) has no memory of its own, and NumPy
            # makes some, with anything in it.
            return None if array.flags.owndata and array.size > 0 else array
        except (BufferError, RuntimeError, TypeError) as error:  # a type, or a device, that NumPy does not know
            if not hasattr(value, "__array__"):
                raise refuse(name, f"is a {type(value).__name__} that NumPy cannot read: {error}") from error
    try:
        return np.asarray(memoryview(value))
    except TypeError:
        return None


def source(value: Any, name: object) -> Array:
    """The values as a contiguous array of a type of the engine's: the array itself where it is one, else a copy. Raises
    InvalidArgumentError (a ValueError), naming the array, where it cannot be."""
    array = as_array(value, name)
    objection = _objection(array)
    if objection is not None:
        raise refuse(name, objection)
    return array if is_plain(array) else np.array(array, order="C", subok=False)


def target(value: Any, name: object) -> Array:
    """An array over the memory of the value, for an operation in place; it need not be contiguous. Raises
    InvalidArgumentError (a ValueError), naming the array, where nothing can be written."""
    if isinstance(value, (np.generic, bool, int, float, complex, list, tuple)):
        raise refuse(name, f"is a {type(value).__name__}, into which no result can be written: pass an array")
    over_memory = _over_memory(value, name)
    array = as_array(value, name) if over_memory is None else over_memory
    objection = _objection(array)
    if objection is not None:
        raise refuse(name, objection)
    if over_memory is None:
        raise refuse(name, f"is a {type(value).__name__}, whose memory NumPy cannot reach, only its values: pass an array")
    if not array.flags.writeable:
        raise refuse(name, f"is read-only, a {type(value).__name__}: pass a copy, or use the operation without '_'")
    if array.size > 0 and not _are_apart(array):
        raise refuse(name, "has several elements in one place in memory, as numpy.broadcast_to makes them: pass a copy")
    return array


def _are_apart(array: Array) -> bool:
    """Whether no two elements share memory, as far as the strides tell: each steps over all that the shorter ones reach."""
    reach = array.itemsize
    for stride, size in sorted((abs(stride), size) for size, stride in zip(array.shape, array.strides) if size > 1):
        if stride < reach:
            return False
        reach += stride * (size - 1)
    return True


def is_plain(array: Array) -> bool:
    """Whether the engine can work in the array's own memory."""
    flags = array.flags
    return bool(flags.c_contiguous and flags.aligned)


def address_of(array: Array) -> int:
    """Of its first element. Requires: :func:`is_plain`."""
    try:
        return addressof(c_char.from_buffer(array))  # three times as fast, for most arrays
    except (TypeError, ValueError, BufferError):
        return int(array.ctypes.data)


def view_of(array: Array) -> View:
    """The memory of an array of :func:`source`."""
    code = code_of(array.dtype)
    assert code is not None
    return address_of(array), array.shape, code


def apart(arrays: Sequence[Array]) -> List[Array]:
    """The arrays, with copies in place of those that share memory with another, of which one stays: for an operation in
    place on several, in which one's result must not be another's input. Requires: they are plain."""
    separate = list(arrays)
    if len(separate) == 1:
        return separate
    end = 0
    places: List[Tuple[int, int]] = sorted((address_of(array), index) for index, array in enumerate(arrays))
    for start, index in places:
        n_bytes = separate[index].nbytes
        if start < end and n_bytes > 0:
            separate[index] = separate[index].copy()
        end = max(end, start + n_bytes)
    return separate
