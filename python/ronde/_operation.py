"""One request under way: submitting it, waiting for it so that signals are answered, and keeping its memory alive.

The engine reads and writes tensor memory until a ticket is done, whatever becomes of Python's objects meanwhile. So
every operation is entered in a table *before* the library learns of it and leaves the table only when it is done: a
Ctrl-C at any point, a handle dropped without ``synchronize()`` or a failing submit frees no memory that is still in
use.
"""

from __future__ import annotations

import ctypes
import os
import time
from ctypes import addressof, byref, c_double, c_int32, c_int64, c_uint64, c_void_p
from typing import Any, Dict, List, NamedTuple, NoReturn, Optional, Protocol, Sequence, Set, Tuple, Union

from ronde import _abi
from ronde._call_site import call_site
from ronde._calls import Barrier, InGroup, Name, Unnamed, group_of
from ronde._lib import alone, check, direct, error_from, last_error, library, new_error_info
from ronde.exceptions import InvalidArgumentError

#: Address, extents and `ronde_dtype` of contiguous memory.
View = Tuple[int, Sequence[int], int]

#: A wait in C comes back this often so that Python can answer a signal that another thread has taken, in seconds.
SLICE = c_double(0.05)

#: What nobody waits for any more may be under way for moments longer, until the slowest rank has done its part.
GRACE_S = 1.0

_OK = _abi.OK
_TIMED_OUT = _abi.TIMED_OUT
_INTERRUPTED = _abi.INTERRUPTED
_TENSOR_BYTES = ctypes.sizeof(_abi.Tensor)


class Output(NamedTuple):
    """Memory that a ticket owns: valid until the operation is released."""

    address: int
    shape: Tuple[int, ...]
    dtype: int


class Block:
    """The structs of one call for one tensor. Making them costs more than filling them, and what comes back step after
    step, under its name, finds them filled."""

    __slots__ = (
        "request", "address", "shape", "input", "output", "input_at", "output_at", "said", "seen", "at", "taken",
        "last_taken",
    )

    def __init__(self) -> None:
        self.said: Any = None  # what the request says apart from tensors
        self.seen: Any = None  # the tensor and its output, if there is one tensor
        self.shape = (c_int64 * _abi.MAX_DIMENSIONS)()
        self.input = _abi.Tensor(struct_size=_TENSOR_BYTES, shape=addressof(self.shape))
        self.output = _abi.Tensor(struct_size=_TENSOR_BYTES, shape=addressof(self.shape))
        self.input_at = addressof(self.input)
        self.output_at = addressof(self.output)
        self.request = _abi.Request(struct_size=ctypes.sizeof(_abi.Request), step=-1)
        self.address = addressof(self.request)
        self.at = c_void_p(self.address)
        self.taken = c_uint64()  # the number that the engine has given to an unnamed call
        self.request.taken = addressof(self.taken)
        self.last_taken = 0

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
_free_blocks: Dict[Union[str, int], Block] = {}
#: Names may be used that never come again.
_MOST_FREE_BLOCKS = 4096
#: More than there are operations.
_OPERATIONS = 64

#: Operations whose memory the engine may still touch.
_under_way: Set["Operation"] = set()

#: What may still be under way and nobody will ever wait for.
_abandoned: List["Abandoned"] = []

_in_forked_child = False


class Abandoned(Protocol):
    """An operation, or a slot, that goes by itself once the engine has done with its memory."""

    def done(self) -> bool:
        """Whether it has ended. Never blocks."""

    def release(self) -> None:
        """Gives back what it holds. Requires: done."""


def _note_fork() -> None:
    """A child of a process that has only loaded the library may become a rank itself."""
    global _in_forked_child
    if library.cache_info().currsize and library().ronde_engine_destroy(None) == _abi.FORKED:
        _in_forked_child = True


os.register_at_fork(after_in_child=_note_fork)


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


class Operation:
    """One request, from submit to release. Made by :func:`submit` and :func:`execute` only."""

    __slots__ = ("_ticket", "name", "_keep")

    def __init__(self, name: Name, keep: Any) -> None:
        self._ticket = c_void_p()
        self.name = name
        self._keep = keep

    def done(self) -> bool:
        """Whether it has ended, well or not. Never blocks; on any thread, also while another one waits for it. Raises
        ForkedError in a forked child."""
        flag = c_int32()
        status = alone("ronde_test")(self._ticket, byref(flag))
        if status == _OK:
            if flag.value == 0:
                let_others_run()
            return flag.value != 0
        if self._ticket.value is None:  # a thread that has waited for it has released it
            return True
        raise last_error(status, str(self.name))

    def wait(self, again: bool = False) -> None:
        """Until it has ended. Other threads run meanwhile and Ctrl-C is answered; then, or if the operation has failed,
        it is given up and needs no further care. On success it still holds its ticket, see :meth:`release`.

        ``again``: it may be waited for again after an interrupt or an error, and holds its ticket in any case.
        """
        wait = direct("ronde_wait")
        try:
            status = wait(self._ticket, SLICE)
            while (status == _TIMED_OUT or status == _INTERRUPTED) and not self._has_failed():
                status = wait(self._ticket, SLICE)
        except BaseException:
            if not again:
                self.cancel()
                self.abandon()
            raise
        if status == _OK:
            _under_way.discard(self)
        else:
            self._fail(status, again)

    def _has_failed(self) -> bool:
        """Tells the end of the request's time from that of a slice: both are RONDE_TIMED_OUT."""
        info = new_error_info()
        return bool(library().ronde_ticket_error(self._ticket, byref(info)) == _OK and info.status != _OK)

    def _fail(self, status: int, again: bool = False) -> NoReturn:
        info = new_error_info()
        if library().ronde_ticket_error(self._ticket, byref(info)) != _OK:
            # Not an end of the work but of the call: a forked child, for instance.
            error = last_error(status, str(self.name))
            self.abandon()
            raise error
        error = error_from(info)
        if not again:
            self.release()
        raise error

    def ask_to_cancel(self) -> bool:
        """Begins what :meth:`cancel` does. False if there is nothing to end: it is released, or this is a forked child."""
        return bool(alone("ronde_cancel")(self._ticket) == _OK)

    def cancel(self) -> None:
        """A signal handler has raised in a call that waits for it: it ends on every rank, unless all ranks have made the
        call by now. Returns when it has ended, its tensors are the program's again and its name is free, or after
        GRACE_S."""
        if not self.ask_to_cancel():
            return
        until = time.monotonic() + GRACE_S
        while True:
            library().ronde_wait(self._ticket, SLICE)  # at least once: what has ended unwaited for keeps its name
            if self.done() or time.monotonic() >= until:
                return

    def output(self, index: int = 0) -> Output:
        """Memory that the ticket made, after :meth:`wait`; valid until :meth:`release`."""
        data = c_void_p()
        shape = ctypes.POINTER(c_int64)()
        ndim = c_int32()
        dtype = c_int32()
        check(library().ronde_ticket_output(self._ticket, index, byref(data), byref(shape), byref(ndim), byref(dtype)))
        return Output(data.value or 0, tuple(shape[: ndim.value]), dtype.value)

    def received_splits(self) -> List[int]:
        """Of an alltoall the rows that came from each rank, after :meth:`wait`."""
        splits = ctypes.POINTER(c_int64)()
        count = ctypes.c_size_t()
        check(library().ronde_ticket_splits(self._ticket, byref(splits), byref(count)))
        return list(splits[: count.value])

    def source(self) -> int:
        """Of a recv the rank that sent, after :meth:`wait`."""
        rank = c_int32()
        check(library().ronde_ticket_source(self._ticket, byref(rank)))
        return rank.value

    def release(self) -> None:
        """Frees the ticket of an operation that has ended. Again, or in a forked child: does nothing."""
        ticket = self._ticket.value
        if ticket is None or _in_forked_child:
            return
        self._ticket.value = None
        direct("ronde_release")(c_void_p(ticket))
        _under_way.discard(self)
        self._keep = None

    def abandon(self) -> None:
        """Nobody will wait for it: its memory stays until the engine has done with it, then goes by itself."""
        if self._ticket.value is not None and not _in_forked_child:
            _under_way.add(self)
            abandon(self)


def let_others_run() -> None:
    """Gives up the interpreter's lock for a moment. For who asks again and again for what other threads do."""
    library().ronde_abi_version()


def in_forked_child() -> bool:
    """Whether this is a forked child of a process that has called init: nothing of the engine works here."""
    return _in_forked_child


def abandon(what: Abandoned) -> None:
    """Nobody will wait for it: it is released when it has ended."""
    _abandoned.append(what)


def release_finished() -> None:
    """Releases abandoned operations that have ended. Called on the way of every submit; costs nothing without any."""
    for _ in range(len(_abandoned)):
        try:
            operation = _abandoned.pop(0)
        except IndexError:  # another thread is at it too
            return
        if operation.done():
            operation.release()
        else:
            _abandoned.append(operation)


def settle(name: str) -> None:
    """Waits for the end of abandoned operations of this name, however they end, so that the name is free; for GRACE_S at
    most, since the other ranks may never come. Ctrl-C is answered meanwhile."""
    until = time.monotonic() + GRACE_S
    for operation in [each for each in _abandoned if isinstance(each, Operation) and each.name == name]:
        while not operation.done() and time.monotonic() < until:
            library().ronde_wait(operation._ticket, SLICE)
    if _abandoned:
        release_finished()


def _require_int32(value: int, what: str) -> None:
    """ctypes would cut it."""
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
    :func:`submit`."""
    request = block.request
    site = call_site()
    text = name if isinstance(name, str) else None
    number = name.number if isinstance(name, (Unnamed, InGroup)) else 0
    said = (text, number, op, reduce_op, root, prescale, postscale, group, site)
    if block.said != said:
        _require_int32(root, "root rank")
        _require_int32(reduce_op, "op")
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


def _say_more(request: _abi.Request, splits: Optional[Sequence[int]], tag: int, timeout_s: float) -> Any:
    """Writes what few requests say; returns what must live until the call has returned."""
    array = None if splits is None else (c_int64 * len(splits))(*splits)
    request.splits = None if array is None else addressof(array)
    request.splits_count = 0 if splits is None else len(splits)
    if tag:
        _require_int32(tag, "tag")
    request.tag = tag
    request.timeout_s = timeout_s
    return array


def submit(
    op: int,
    name: Name,
    inputs: Sequence[View],
    outputs: Optional[Sequence[int]],
    keep: Any,
    *,
    reduce_op: int = _abi.SUM,
    root: int = 0,
    prescale: float = 1.0,
    postscale: float = 1.0,
    splits: Optional[Sequence[int]] = None,
    group: Optional[int] = None,
    tag: int = 0,
    timeout_s: float = 0.0,
    engine: Optional[int] = None,
    wait: bool = False,
) -> Operation:
    """Hands a request in; with ``wait`` returns when it has succeeded, else at once.

    Args:
        op: RONDE_ALLREDUCE and so on.
        inputs: the tensors; none for a barrier.
        outputs: addresses of the results, shaped as the inputs; None: in place, or made by the ticket (allgather).
        keep: the objects that own the memory; held until the engine has done with it.
        splits: of an alltoall or scatter, rows for each rank; None: equally many.
        group: the process set's id; None: the name's.
        tag: of a send or recv.
        timeout_s: how long the ranks may take; 0: as the engine's settings say.
        engine: of ``ronde_engine_create``; None: the process's.

    Raises what :mod:`ronde.exceptions` says: at once if the call is wrong, with ``wait`` also if the work has failed.
    """
    if _abandoned:
        release_finished()
    kept_as: Union[str, int] = name if isinstance(name, str) else (inputs[0][0] if inputs else 0) * _OPERATIONS + op
    if group is None:
        group = group_of(name)
    has_more = splits is not None or tag != 0 or timeout_s != 0.0
    block = _free_blocks.pop(kept_as, None) or Block()
    operation = Operation(name, keep)
    ticket = operation._ticket
    of = None if engine is None else c_void_p(engine)
    _under_way.add(operation)
    try:
        arrays = fill(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, group)
        array = _say_more(block.request, splits, tag, timeout_s) if has_more else None
        if isinstance(name, Unnamed):
            name.is_told = True
        if wait:
            status = direct("ronde_execute")(of, block.at, SLICE, byref(ticket))
        else:
            status = direct("ronde_submit")(of, block.at, byref(ticket))
        if isinstance(name, Unnamed) and name.number == 0:
            name.number = block.last_taken = block.taken.value
        del arrays, array
        if has_more:
            _say_more(block.request, None, 0, 0.0)
    except BaseException:
        if ticket.value is not None:
            if isinstance(name, Barrier):
                name.is_told = True
            operation.cancel()
            operation.abandon()
        else:
            _under_way.discard(operation)
            if isinstance(name, Unnamed) and block.taken.value == block.last_taken:
                name.is_told = False  # a signal handler has raised before the library was called
        raise
    if len(_free_blocks) >= _MOST_FREE_BLOCKS:
        _free_blocks.clear()
    _free_blocks[kept_as] = block
    if ticket.value is None:
        _under_way.discard(operation)
        raise last_error(status, str(name))
    if isinstance(name, Barrier):
        name.is_told = True
    if wait:
        if status == _OK:
            _under_way.discard(operation)
        elif status == _TIMED_OUT or status == _INTERRUPTED:
            operation.wait()
        else:
            operation._fail(status)
    return operation
