"""The ticket of one request, by ctypes, and the tables of what is under way. Where this Python can load Ronde's extension
module, that one's class stands for the one here (see :mod:`ronde._native`).

The engine reads and writes tensor memory until a ticket is done, whatever becomes of Python's objects meanwhile. So
every operation is entered in a table *before* the library learns of it and leaves the table only when it is done: a
Ctrl-C at any point, a handle dropped without ``synchronize()`` or a failing submit frees no memory that is still in
use.
"""

from __future__ import annotations

import os
from ctypes import byref, c_double, c_int32, c_void_p
from typing import Any, List, Optional, Protocol, Sequence, Set, Union

from ronde import _abi
from ronde._blocks import MOST_FREE_BLOCKS, OPERATIONS, Block, View, fill, free_blocks, say_more
from ronde._calls import Name
from ronde._lib import alone, direct, last_error, library
from ronde._native import extension

#: A wait in C comes back this often so that Python can answer a signal that another thread has taken, in seconds.
SLICE = c_double(0.05)

_OK = _abi.OK

#: Operations whose memory the engine may still touch.
under_way: Set[Any] = set()


class Abandoned(Protocol):
    """An operation, or a slot, that goes by itself once the engine has done with its memory."""

    def done(self) -> bool:
        """Whether it has ended. Never blocks."""

    def release(self) -> None:
        """Gives back what it holds. Requires: done."""


#: What may still be under way and nobody will ever wait for.
abandoned: List[Abandoned] = []

_in_forked_child = False


def in_forked_child() -> bool:
    """Whether this is a forked child of a process that has called init: nothing of the engine works here."""
    return _in_forked_child


def _note_fork() -> None:
    """A child of a process that has only loaded the library may become a rank itself."""
    global _in_forked_child
    if library.cache_info().currsize and library().ronde_engine_destroy(None) == _abi.FORKED:
        _in_forked_child = True
        if extension is not None:
            extension.note_fork()


os.register_at_fork(after_in_child=_note_fork)


def let_others_run() -> None:
    """Gives up the interpreter's lock for a moment. For who asks again and again for what other threads do."""
    library().ronde_abi_version()


class Ticket:
    """One request, from submit to release: what of an operation is done for each."""

    __slots__ = ("_ticket", "name", "_keep", "taken", "is_told", "is_abandoned")

    def __init__(self, name: Name, keep: Any) -> None:
        """``keep``: the objects that own the memory."""
        self._ticket = c_void_p()
        self.name = name
        self._keep = keep
        self.taken = 0  # the number that the engine has given to an unnamed call; 0: none
        self.is_told = False  # the library was called
        self.is_abandoned = False  # it is released by itself when it has ended

    @property
    def ticket(self) -> Optional[int]:
        """The address of the C ticket; None before the submit and after the release."""
        return self._ticket.value

    def submit(
        self,
        op: int,
        inputs: Sequence[View],
        outputs: Optional[Sequence[int]],
        reduce_op: int,
        root: int,
        prescale: float,
        postscale: float,
        group: int,
        splits: Optional[Sequence[int]],
        tag: int,
        timeout_s: float,
        engine: Optional[int],
        wait: bool,
    ) -> int:
        """Hands the request in; with ``wait`` waits for a slice of time. Returns the library's status."""
        name, ticket = self.name, self._ticket
        kept_as: Union[str, int] = name if isinstance(name, str) else (inputs[0][0] if inputs else 0) * OPERATIONS + op
        has_more = splits is not None or tag != 0 or timeout_s != 0.0
        block = free_blocks.pop(kept_as, None) or Block()
        of = None if engine is None else c_void_p(engine)
        arrays = fill(block, op, name, inputs, outputs, reduce_op, root, prescale, postscale, group)
        array = say_more(block.request, splits, tag, timeout_s) if has_more else None
        block.taken.value = 0
        try:
            if wait:
                status = direct("ronde_execute")(of, block.at, SLICE, byref(ticket))
            else:
                status = direct("ronde_submit")(of, block.at, byref(ticket))
            self.is_told = True
        finally:
            self.taken = block.taken.value
            self.is_told = self.is_told or self.taken != 0  # a signal handler may have raised before or after the call
        del arrays, array
        if has_more:
            say_more(block.request, None, 0, 0.0)
        if len(free_blocks) >= MOST_FREE_BLOCKS:
            free_blocks.clear()
        free_blocks[kept_as] = block
        return status

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
        self._wait_on(None, again)

    def _wait_on(self, status: Optional[int], again: bool) -> None:
        raise NotImplementedError

    def ask_to_cancel(self) -> bool:
        """Begins to end it. False if there is nothing to end: it is released, or this is a forked child."""
        return bool(alone("ronde_cancel")(self._ticket) == _OK)

    def release(self) -> None:
        """Frees the ticket of an operation that has ended. Again, or in a forked child: does nothing."""
        ticket = self._ticket.value
        if ticket is None or _in_forked_child:
            return
        self._ticket.value = None
        direct("ronde_release")(c_void_p(ticket))
        under_way.discard(self)
        self._keep = None

    def abandon(self) -> None:
        """Nobody will wait for it: its memory stays until the engine has done with it, then goes by itself."""
        if self._ticket.value is not None and not _in_forked_child:
            self.is_abandoned = True
            under_way.add(self)
            abandoned.append(self)
