"""Who else holds a gradient, or its memory.

A reduction may take a gradient elsewhere, or write into it while autograd is still at work, only where nobody sees. What
one holder alone amounts to differs between releases of Python and PyTorch, so it is measured here, once.
"""

from __future__ import annotations

import sys
from typing import Callable, Tuple

import torch

#: How many hold a tensor, in C++ and Python.
holders_of: Callable[[torch.Tensor], int] = torch._C.TensorBase._use_count  # type: ignore[attr-defined] # torch's stubs lack it

#: How many tensors and Python objects there are for a storage. PyTorch's own CUDA graphs ask the same.
users_of: Callable[[int], int] = torch._C._storage_Use_Count


def _references_of_one_variable() -> int:
    parameter = torch.nn.Parameter(torch.zeros(1, device="cpu"))
    parameter.grad = torch.zeros(1, device="cpu")
    gradient = parameter.grad
    return sys.getrefcount(gradient)


def _users_of_one_gradient() -> int:
    parameter = torch.nn.Parameter(torch.zeros(1, device="cpu"))
    parameter.grad = torch.zeros(1, device="cpu")
    return holders_of(parameter.grad)


def _users_of_one_storage() -> Tuple[int, int]:
    """In C++ and Python."""
    gradient = torch.zeros(1, device="cpu")
    storage = gradient.untyped_storage()
    return users_of(storage._cdata), sys.getrefcount(storage)


#: What ``sys.getrefcount`` says of a gradient that one variable of the function that asks holds, and its parameter.
HELD_BY_ONE_VARIABLE = _references_of_one_variable()
_ALONE = _users_of_one_gradient()
_UNSHARED, _UNHELD = _users_of_one_storage()


def is_seen_elsewhere(gradient: torch.Tensor) -> bool:
    """Whether there may be other holders of the gradient or of its storage, or tensors or NumPy arrays in its memory: the
    program's, which expects the result there too, of a flat buffer for instance, or autograd's, which may still read them."""
    storage = gradient.untyped_storage()
    if sys.getrefcount(storage) > _UNHELD:  # one object for all who hold it in Python
        return True
    if holders_of(gradient) > _ALONE:  # it is another parameter's gradient as well
        return True
    return users_of(storage._cdata) > _UNSHARED or not storage.resizable()  # not resizable: NumPy's own memory
