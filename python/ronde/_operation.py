"""One request under way: submitting it, waiting for it so that signals are answered, and keeping its memory alive (see
:mod:`ronde._ticket`)."""

from __future__ import annotations

import ctypes
import sys
import time
from ctypes import byref, c_int32, c_int64, c_void_p
from typing import TYPE_CHECKING, Any, List, NamedTuple, NoReturn, Optional, Sequence, Tuple

from ronde import _abi, _calls
from ronde._blocks import View as View
from ronde._blocks import require_int32
from ronde._call_site import call_site
from ronde._calls import Barrier, Name, Unnamed, group_of
from ronde._lib import check, direct, error_from, last_error, library, new_error_info
from ronde._native import extension
from ronde._ticket import SLICE as SLICE
from ronde._ticket import Abandoned
from ronde._ticket import abandoned as _abandoned
from ronde._ticket import in_forked_child as in_forked_child
from ronde._ticket import let_others_run as let_others_run
from ronde._ticket import under_way as _under_way

if TYPE_CHECKING or extension is None:
    from ronde._ticket import Ticket
else:
    Ticket = extension.Ticket

#: What nobody waits for any more may be under way for moments longer, until the slowest rank has done its part.
GRACE_S = 1.0

#: Between two looks at whether what another thread waits for has ended, in seconds.
_LOOK_S = 0.0002

_OK = _abi.OK
_TIMED_OUT = _abi.TIMED_OUT
_INTERRUPTED = _abi.INTERRUPTED


class Output(NamedTuple):
    """Memory that a ticket owns: valid until the operation is released."""

    address: int
    shape: Tuple[int, ...]
    dtype: int


class Operation(Ticket):
    """One request, from submit to release. Made by :func:`submit` and by the extension only."""

    __slots__ = ("is_unwanted",)

    is_unwanted: bool  #: if it is there its call has raised, so nothing is to be made of its results

    def __str__(self) -> str:
        return str(self.name)

    def _wait_on(self, status: Optional[int], again: bool) -> None:
        """:meth:`wait`, after a wait that has come back with this status; None: after none."""
        wait, ticket = direct("ronde_wait"), c_void_p(self.ticket)
        try:
            if status is None:
                status = wait(ticket, SLICE)
            while (status == _TIMED_OUT or status == _INTERRUPTED) and not self._has_failed():
                status = wait(ticket, SLICE)
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
        return bool(library().ronde_ticket_error(c_void_p(self.ticket), byref(info)) == _OK and info.status != _OK)

    def _fail(self, status: int, again: bool = False) -> NoReturn:
        info = new_error_info()
        if library().ronde_ticket_error(c_void_p(self.ticket), byref(info)) != _OK:
            # Not an end of the work but of the call: a forked child, for instance.
            error = last_error(status, str(self.name))
            self.abandon()
            raise error
        error = error_from(info)
        if not again:
            self.release()
        raise error

    def cancel(self) -> None:
        """A signal handler has raised in a call that waits for it: it ends on every rank, unless all ranks have made the
        call by now. Returns when it has ended, its tensors are the program's again and its name is free, or after
        GRACE_S."""
        if not self.ask_to_cancel():
            return
        until = time.monotonic() + GRACE_S
        while True:
            library().ronde_wait(c_void_p(self.ticket), SLICE)  # at least once: what has ended unwaited for keeps its name
            if self.done() or time.monotonic() >= until:
                return

    def output(self, index: int = 0) -> Output:
        """Memory that the ticket made, after :meth:`wait`; valid until :meth:`release`."""
        data = c_void_p()
        shape = ctypes.POINTER(c_int64)()
        ndim = c_int32()
        dtype = c_int32()
        ticket = c_void_p(self.ticket)
        check(library().ronde_ticket_output(ticket, index, byref(data), byref(shape), byref(ndim), byref(dtype)))
        return Output(data.value or 0, tuple(shape[: ndim.value]), dtype.value)

    def received_splits(self) -> List[int]:
        """Of an alltoall the rows that came from each rank, after :meth:`wait`."""
        splits = ctypes.POINTER(c_int64)()
        count = ctypes.c_size_t()
        check(library().ronde_ticket_splits(c_void_p(self.ticket), byref(splits), byref(count)))
        return list(splits[: count.value])

    def source(self) -> int:
        """Of a recv the rank that sent, after :meth:`wait`."""
        rank = c_int32()
        check(library().ronde_ticket_source(c_void_p(self.ticket), byref(rank)))
        return rank.value


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
            library().ronde_wait(c_void_p(operation.ticket), SLICE)
    if _abandoned:
        release_finished()


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
        tag: of a send or recv, or how a call without a name came about (``ronde_request.tag``).
        timeout_s: how long the ranks may take; 0: as the engine's settings say.
        engine: of ``ronde_engine_create``; None: the process's.

    Raises what :mod:`ronde.exceptions` says: at once if the call is wrong, with ``wait`` also if the work has failed.
    """
    if _abandoned:
        release_finished()
    if group is None:
        group = group_of(name)
    operation = Operation(name, keep)
    _under_way.add(operation)
    try:
        if isinstance(name, Unnamed):
            if _calls.tag_of is not None:
                tag = _calls.tag_of(name)
            name.is_told = True
        status = operation.submit(
            op, inputs, outputs, reduce_op, root, prescale, postscale, group, splits, tag, timeout_s, engine, wait
        )
        if isinstance(name, Unnamed) and name.number == 0:
            name.number = operation.taken
    except BaseException:
        if operation.ticket is not None:
            if isinstance(name, Barrier):
                name.is_told = True
            operation.cancel()
            operation.abandon()
        else:
            _under_way.discard(operation)
            if isinstance(name, Unnamed):
                name.is_told = operation.is_told  # a signal handler may have raised before the library was called
        raise
    if operation.ticket is None:
        _under_way.discard(operation)
        raise last_error(status, str(name))
    if isinstance(name, Barrier):
        name.is_told = True
    if wait:
        if status == _OK:
            _under_way.discard(operation)
        elif status == _TIMED_OUT or status == _INTERRUPTED:
            operation._wait_on(status, False)
        else:
            operation._fail(status)
    return operation


def cancel_call(name: Name) -> None:
    """Its call has raised after it has begun an operation: that one is cancelled, as :meth:`Operation.cancel` says. Somebody
    else is there to wait for it, and to release it, meanwhile, and writes nothing to the program's tensors."""
    for operation in [each for each in list(_under_way) if each.name is name and not each.is_abandoned]:
        operation.is_unwanted = True
        until = time.monotonic() + GRACE_S
        if operation.ask_to_cancel():
            while not operation.done() and time.monotonic() < until:
                time.sleep(_LOOK_S)


def _name_of_allreduce(name: Optional[str], group: int, number: int) -> Name:
    """Of one that the extension has submitted by itself."""
    if name is not None:
        return _calls.in_group(group, f"allreduce.{name}")
    unnamed = _calls.unnamed(group)
    unnamed.number, unnamed.is_told = number, True
    return unnamed


if extension is not None:
    extension.share(
        operation=Operation,
        under_way=_under_way,
        abandoned=_abandoned,
        last_error=lambda status, name: last_error(status, str(name)),
        name_of=_name_of_allreduce,
        call_site=call_site,
        require_int32=require_int32,
        library=library,
        frame=sys._getframe,
    )
