"""A request that comes back each step: described once, then submitted by a number, for less than a microsecond."""

from __future__ import annotations

import sys
import time
from ctypes import Array, byref, c_double, c_int32, c_int64, c_void_p
from typing import Any, Callable, Iterable, NoReturn, Optional

from ronde import _abi, _operation
from ronde._blocks import Block, View, fill
from ronde._lib import check, error_from, last_error, library, new_error_info
from ronde._operation import GRACE_S, SLICE

_OK = _abi.OK
_TIMED_OUT = _abi.TIMED_OUT
_INTERRUPTED = _abi.INTERRUPTED
_AT_ONCE = c_double(0.0)
_FIRST_LOOK = c_double(0.002)  # in seconds: longer than ranks that keep step wait for each other


class Slot:
    """One all-reduce in place. Submit it with ``ronde_submit_slot(number)``, then :meth:`wait`, then again.

    It keeps the memory alive; dropped while under way it does so until the engine has done with it. It belongs to the
    engine that runs when it is made: after a shutdown its submit fails.
    """

    __slots__ = ("number", "name", "_ticket", "_keep", "__weakref__")

    def __init__(
        self,
        name: str,
        view: View,
        keep: Any,
        *,
        reduce_op: int,
        prescale: float = 1.0,
        postscale: float = 1.0,
        group: int = 0,
    ) -> None:
        """Raises what a submit of this request would raise at once."""
        self.number = -1
        self.name = name
        self._ticket: Optional[int] = None
        self._keep = keep
        block = Block()
        arrays = fill(block, _abi.ALLREDUCE, name, [view], None, reduce_op, 0, prescale, postscale, group)
        number = c_int64()
        status = library().ronde_register_slot(None, block.address, byref(number))
        del arrays
        if status != _OK:
            raise last_error(status, name)
        self.number = number.value

    def wait(self) -> None:
        """Until the request under way has ended. Other threads run meanwhile and Ctrl-C is answered; the request then
        stays under way. Raises what :meth:`ronde._operation.Operation.wait` does."""
        wait = library().ronde_wait_slot
        status = wait(self.number, SLICE)
        while (status == _TIMED_OUT or status == _INTERRUPTED) and not self._has_failed():
            status = wait(self.number, SLICE)
        if status != _OK:
            self._fail(status)

    @property
    def ticket(self) -> Optional[int]:
        """The C ticket of its requests, the same one from the first submit on; None before that."""
        if self._ticket is None:
            ticket = c_void_p()
            if library().ronde_slot_ticket(self.number, byref(ticket)) == _OK:
                self._ticket = ticket.value
        return self._ticket

    def _error_info(self, info: _abi.ErrorInfo) -> bool:
        """Whether the request under way has ended; how, is then in ``info``."""
        return bool(library().ronde_ticket_error(self.ticket, byref(info)) == _OK)

    def _has_failed(self) -> bool:
        info = new_error_info()
        return self._error_info(info) and info.status != _OK

    def _fail(self, status: int) -> NoReturn:
        error = last_error(status, self.name)
        info = new_error_info()
        raise error_from(info) if self._error_info(info) and info.status != _OK else error

    def done(self) -> bool:
        """Whether nothing is under way. Never blocks. Raises ForkedError in a forked child."""
        if self.number < 0:
            return True
        flag = c_int32()
        status = library().ronde_test_slot(self.number, byref(flag))
        if status == _abi.INVALID_ARGUMENT:  # never submitted
            return True
        check(status)
        return flag.value != 0

    def reclaim(self) -> bool:
        """After a submit that nobody has waited for: whether it has ended; its outcome is then forgotten and the slot
        may be submitted again. Never blocks."""
        if not self.done():
            return False
        library().ronde_wait_slot(self.number, SLICE)
        return True

    def cancel(self) -> None:
        """Unless all ranks have submitted what is under way, it ends on all of them with an error. Waits for nothing."""
        if self.ticket is not None:
            library().ronde_cancel(self.ticket)

    def settle(self) -> None:
        """After a submit that nobody has waited for: waits for its end, however it ends, for GRACE_S at most. Ctrl-C is
        answered meanwhile."""
        until = time.monotonic() + GRACE_S
        while not self.reclaim() and time.monotonic() < until:
            library().ronde_wait_slot(self.number, SLICE)

    def has_failed_in_the_end(self) -> bool:
        """Of what is under way and was cancelled: whether it has ended with an error, so that nobody has used this rank's
        values. Waits for the end as :meth:`settle` does."""
        until = time.monotonic() + GRACE_S
        while not self.done() and time.monotonic() < until:
            library().ronde_wait_slot(self.number, SLICE)
        has_failed = self._has_failed()
        self.reclaim()
        return has_failed

    def release(self) -> None:
        """Forgets the slot. Requires: :meth:`done`. Again, or in a forked child: does nothing."""
        number = self.number
        if number < 0 or _operation.in_forked_child():
            return
        self.number = -1
        library().ronde_unregister_slot(number)
        self._keep = None

    def __del__(self, is_finalizing: Callable[[], bool] = sys.is_finalizing) -> None:
        if self.number < 0 or is_finalizing() or _operation.in_forked_child():
            return
        is_done = False
        try:
            is_done = self.done()
        finally:  # a signal handler may raise: Python loses that here, but the engine must not lose its memory
            if is_done:
                self.release()
            else:
                _operation.abandon(self)


def drive(tickets: "Array[c_void_p]", count: int) -> None:
    """Does what this rank can do for the first of them now, in the calling thread, and waits for nobody. Whether any has
    failed, the next wait says."""
    library().ronde_wait_all(tickets, count, _AT_ONCE)


def wait_for(
    tickets: "Array[c_void_p]", slots: Callable[[], Iterable[Slot]], look: Optional[Callable[[], bool]] = None
) -> bool:
    """As :meth:`Slot.wait` for all of them, in one call: mostly all are done once the slowest rank is. Raises for the
    first, in the order of ``slots()``, that failed, without waiting for the others; then they may be in another order
    than the tickets.

    ``look`` is asked from time to time; if it says so, nothing is waited for any more. Returns whether all are done.
    """
    wait_all = library().ronde_wait_all
    status = wait_all(tickets, len(tickets), SLICE if look is None else _FIRST_LOOK)
    if look is not None and (status == _TIMED_OUT or status == _INTERRUPTED) and not look():
        # Asking so many whether one has failed takes longer than that: the next wait is soon over, if one has.
        status = wait_all(tickets, len(tickets), SLICE)
    while (status == _TIMED_OUT or status == _INTERRUPTED) and not any(slot._has_failed() for slot in slots()):
        if look is not None and look():
            return False
        status = wait_all(tickets, len(tickets), SLICE)
    if status != _OK:
        for slot in sorted(slots(), key=lambda slot: not slot._has_failed()):
            slot.wait()
    return True
