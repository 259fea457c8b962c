"""An all-reduce that comes back with the same array: prepared once, then started again and again. Part of
:mod:`ronde.numpy`."""

from __future__ import annotations

from ctypes import c_int64
from types import TracebackType
from typing import Any, Optional, Type

from ronde import _abi
from ronde._lib import direct, last_error
from ronde._names import in_group
from ronde._native import extension
from ronde._operation import SLICE, in_forked_child
from ronde._reduce_ops import reduce_op, scale
from ronde._slot import Slot
from ronde.exceptions import InvalidArgumentError
from ronde.numpy._arrays import is_plain, refuse, target, view_of
from ronde.process_sets import ProcessSet, global_process_set, group_of

_OK = _abi.OK


class PersistentAllreduce:
    """An all-reduce in place of one array under one name, as :func:`ronde.numpy.allreduce_init` makes it. Calling it does
    it once, in a fraction of the time of ``allreduce_``; ``start()`` and ``wait()`` are its two halves. As a context
    manager it releases the name at the end."""

    __slots__ = ("_slot", "_number", "_submit", "_wait", "_is_under_way")

    def __init__(self, slot: Slot) -> None:
        """Of the ``slot``, which nobody else uses. Raises nothing."""
        self._slot = slot
        self._number = c_int64(slot.number)
        self._submit = direct("ronde_submit_slot")
        self._wait = direct("ronde_wait_slot")
        self._is_under_way = False

    def start(self) -> None:
        """Begins it and returns at once. The array must be neither read nor changed before :meth:`wait`. Raises ValueError
        if the last one has not been waited for, after ``release()`` and after ``shutdown()``."""
        was_under_way = self._is_under_way
        try:
            status = self._submit(self._number)
            self._is_under_way = was_under_way or status == _OK
        except BaseException:  # a signal handler's, before the submit or behind it
            if not was_under_way:
                self._give_up()
            raise
        if status != _OK:
            raise last_error(status, self._slot.name)

    def wait(self) -> None:
        """Returns when the array holds the result. Raises ValueError if nothing was started; CollectiveError if the work
        has failed (see :func:`ronde.numpy.synchronize`). Whatever is raised, nothing is under way any more: where a signal
        handler raises, the work is cancelled on all ranks, unless all have begun it by then."""
        if not self._is_under_way:
            raise InvalidArgumentError(f"'{self._slot.name}' has not been started", _abi.INVALID_ARGUMENT)
        try:
            self._slot.wait()
        except BaseException:
            self._give_up()
            raise
        self._is_under_way = False

    def _give_up(self) -> None:
        """A wait has raised: the array is the program's again."""
        self._is_under_way = False
        self._slot.cancel()
        self._slot.settle()

    def __call__(self) -> None:
        """Does it once. Raises as :meth:`start` and :meth:`wait`."""
        try:
            if extension is None:
                status = self._submit(self._number) or -self._wait(self._number, SLICE)
            else:
                status = extension.run_slot(self._number.value)
            if status < 0:
                self._slot.wait()
        except BaseException:
            if not self._is_under_way:  # by start()
                self._give_up()
            raise
        if status > 0:
            raise last_error(status, self._slot.name)

    def release(self) -> None:
        """The name is free again, after the end of what is under way. Raises nothing."""
        self._number.value = -1
        self._is_under_way = False
        if in_forked_child():
            return
        if not self._slot.done():
            self._slot.cancel()
            self._slot.settle()
        if self._slot.done():
            self._slot.release()

    def __enter__(self) -> "PersistentAllreduce":
        return self

    def __exit__(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self.release()


def allreduce_init(
    array: Any,
    name: str,
    op: Optional[int] = None,
    prescale_factor: float = 1.0,
    postscale_factor: float = 1.0,
    process_set: ProcessSet = global_process_set,
) -> PersistentAllreduce:
    """Prepares an all-reduce in place that is done many times with the same array, and returns what does it.

    Args:
        array: contiguous and writable; the same shape and type on every rank. It is kept alive.
        name: by which the ranks meet, in no other use meanwhile.
        op: as of :func:`ronde.numpy.allreduce`.
        prescale_factor: each rank's values are multiplied by it before the reduction; not 0.
        postscale_factor: the result is multiplied by it; not 0.
        process_set: the ranks that take part; this one must be among them.

    Asks no other rank; other ranks may call ``allreduce_`` under this name. Raises ValueError if the call is wrong.
    """
    group = group_of(process_set)
    full_name = in_group(group, f"allreduce.{name}")
    memory = target(array, full_name)
    if not is_plain(memory):
        raise refuse(full_name, "is not contiguous: a persistent operation works in the array's own memory")
    slot = Slot(
        full_name,
        view_of(memory),
        (array, memory),
        reduce_op=reduce_op(op, None),
        prescale=scale(prescale_factor, "prescale_factor"),
        postscale=scale(postscale_factor, "postscale_factor"),
        group=group,
    )
    return PersistentAllreduce(slot)
