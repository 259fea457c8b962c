"""Host memory through which the tensors of a GPU pass on their way into a reduction: shared by the ranks of the host, so that
the engine reduces where it lies, and pinned, so that the GPU copies by itself.

A block is lent as a tensor and comes back when that has gone. Only one that has brought a result is lent again: when an
operation fails, the engine puts other pages under its memory (docs/decisions/0017), and the GPU's would be the old ones.
"""

from __future__ import annotations

import collections
import ctypes
import logging
import threading
import weakref
from typing import Any, Deque, Dict, List, Optional

import torch

from ronde import _shared_buffer, _process
from ronde._operation import in_forked_child
from ronde.exceptions import RondeError, raise_if_the_programs

__all__ = ["borrow", "has_brought"]

_log = logging.getLogger("ronde")

#: Less is copied by the engine as fast as it is reduced in place. In bytes.
_LEAST_BYTES = 32 * 1024


class _Block:
    """Memory of one size. What is in ``memory`` stays allocated as long as the block lives."""

    def __init__(self, memory: Any, number: int) -> None:
        self.memory = memory
        self.number = number
        self.address = ctypes.addressof(memory)
        self.n_bytes = len(memory)
        self.epoch = _process.epoch()
        self.has_brought = False  # its last loan has ended with a result
        self.copied: Any = None  # the event behind the last copy out of it that may be under way

    def drop(self) -> None:
        """Gives it up."""
        if not in_forked_child():
            if self.copied is not None:
                self.copied.synchronize()
            _unpin(self.address)


#: Held by who borrows, who may be a signal handler of the same thread.
_turn = threading.RLock()

_made = 0
_free: Dict[int, List[_Block]] = {}  # by size
_lent: Dict[int, _Block] = {}  # by address
_returned: Deque[_Block] = collections.deque()  # by finalizers, which may run anywhere
_refused_in = 0  # the epoch of the engine in which there is no more


def _runtime() -> Any:
    return torch.cuda.cudart()  # type: ignore[no-untyped-call] # not typed in PyTorch


def _pin(address: int, n_bytes: int) -> bool:
    try:
        return int(_runtime().cudaHostRegister(address, n_bytes, 0)) == 0
    except (AttributeError, RuntimeError) as error:
        _log.debug("Ronde: shared memory cannot be pinned: %s", error)
        return False


def _unpin(address: int) -> None:
    try:
        _runtime().cudaHostUnregister(address)
    except (AttributeError, RuntimeError) as error:  # CUDA has ended before
        _log.debug("Ronde: shared memory was not unpinned: %s", error)


def _class_of(n_bytes: int) -> int:
    """The size of the block for so many bytes: few sizes, and at most a quarter too much."""
    step = max(4096, 1 << (n_bytes.bit_length() - 3))
    return (n_bytes + step - 1) // step * step


def borrow(like: torch.Tensor) -> Optional[torch.Tensor]:
    """A tensor of this shape and type in a block; None where there is none: the memory is to be PyTorch's own then."""
    n_bytes = like.numel() * like.element_size()
    if n_bytes < _LEAST_BYTES or not _process.is_initialized() or _process.size() == 1 or in_forked_child():
        return None
    with _turn:
        block = _take(_class_of(n_bytes))
    if block is None:
        return None
    if block.copied is not None:
        block.copied.synchronize()
    block.has_brought, block.copied = False, None
    _lent[block.address] = block
    loan = (ctypes.c_char * n_bytes).from_address(block.address)
    weakref.finalize(loan, _returned.append, block).atexit = False
    with torch.inference_mode(False), torch.no_grad():
        return torch.frombuffer(loan, dtype=like.dtype).view(like.shape)


def has_brought(values: torch.Tensor, copied: Any = None) -> None:
    """If these values lie in a block: an operation has succeeded, and they were copied to where they belong. ``copied``: an
    event behind that copy, None if it is over."""
    block = _lent.get(values.data_ptr())
    if block is not None:
        block.has_brought, block.copied = True, copied


def is_lent(values: torch.Tensor) -> bool:
    """Whether these values lie in a block."""
    return values.data_ptr() in _lent


def _take(n_bytes: int) -> Optional[_Block]:
    epoch = _process.epoch()
    _collect(epoch)
    blocks = _free.get(n_bytes)
    if blocks:
        return blocks.pop()
    global _made, _refused_in
    if _refused_in == epoch:
        return None
    try:
        memory = _shared_buffer.allocate("staging", n_bytes)
    except RondeError as error:
        raise_if_the_programs(error)
        _refused_in = epoch
        _log.debug("Ronde: tensors of a GPU pass through private memory: %s", error)
        return None
    if not _pin(ctypes.addressof(memory), n_bytes):
        _refused_in = epoch
        return None
    _made += 1
    return _Block(memory, _made)


def _collect(epoch: int) -> None:
    """Takes back what has come. The oldest free block of a size is lent first, so that tensors that come in the same order in
    each step get the same memory."""
    while True:
        try:
            block = _returned.popleft()
        except IndexError:
            break
        _lent.pop(block.address, None)
        if block.has_brought and block.epoch == epoch:
            blocks = _free.setdefault(block.n_bytes, [])
            blocks.append(block)
            blocks.sort(key=lambda each: -each.number)
        else:
            block.drop()
    for blocks in _free.values():
        if blocks and blocks[0].epoch != epoch:  # of a job that has ended
            for block in blocks:
                block.drop()
            blocks.clear()
