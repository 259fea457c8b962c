"""What Ronde means by an exception of JAX's: a request that fails in a compiled program ends it with an error of XLA's, which
has the sentence and a code, and no class of ours."""

from __future__ import annotations

import collections
import ctypes
import functools
from typing import Any, Callable, Deque, Optional, TypeVar

from ronde import _abi
from ronde.exceptions import RondeError, error_of
from ronde.jax import _library

_Result = TypeVar("_Result")

_MESSAGE_BYTES = 4096

#: Of calls that went through Python, the last ones.
_kept: Deque[RondeError] = collections.deque(maxlen=4096)


def keep(error: BaseException) -> None:
    """Of a call that goes through Python (``RONDE_JAX_FFI=0``, other devices than CPUs): JAX makes an error of its own of it,
    in whose text this one's is."""
    if isinstance(error, RondeError):
        _kept.append(error)


def own_error(error: BaseException) -> Optional[RondeError]:
    """Ronde's error, if this exception says what a request of a compiled program has failed of; else None."""
    if isinstance(error, RondeError):
        return None
    for each in reversed(_kept):
        if str(each) in str(error):
            return each
    if not _library.has_handler():
        return None
    message = ctypes.create_string_buffer(_MESSAGE_BYTES)
    tensor = ctypes.create_string_buffer(_MESSAGE_BYTES)
    rank = ctypes.c_int32(-1)
    text = str(error).encode(errors="replace")
    status = _library.handlers().ronde_jax_failure(
        text, message, _MESSAGE_BYTES, ctypes.byref(rank), tensor, _MESSAGE_BYTES
    )
    if status == _abi.OK:
        return None
    said, of = (part.value.decode(errors="replace") for part in (message, tensor))
    return error_of(int(status), said, rank.value, of)


def with_own_errors(func: Callable[..., _Result]) -> Callable[..., _Result]:
    """The function, which raises Ronde's errors in place of JAX's for them."""

    @functools.wraps(func)
    def called(*args: Any, **kwargs: Any) -> _Result:
        try:
            return func(*args, **kwargs)
        except Exception as error:  # JAX has a class for most codes, and ValueError for some
            own = own_error(error)
            if own is None:
                raise
            raise own from error

    return called
