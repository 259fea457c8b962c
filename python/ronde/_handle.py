"""Handles of asynchronous operations: what ``*_async`` functions return and ``synchronize`` takes. Shared by all frameworks."""

from __future__ import annotations

from typing import Any, Callable, Generic, List, Optional, Sequence, TypeVar

from ronde._native import extension
from ronde._operation import Operation
from ronde.exceptions import InvalidArgumentError, RondeError

#: What an operation makes: a tensor, a list of them, ...
Result = TypeVar("Result", covariant=True)

#: Makes the result of an operation that has succeeded, which needs no further care.
Take = Callable[[Operation], Result]


class Handle(Generic[Result]):
    """An operation under way, for ``poll`` and ``synchronize``; ``Handle[T]`` is one whose result is a ``T``.

    Made by ``*_async`` functions only. It keeps the tensors alive. Dropped without ``synchronize``, the operation goes
    on, its memory stays until it is done, and then its name is free again.
    """

    __slots__ = ("_operation", "_take")

    def __init__(self, operation: Operation, take: Take[Result]) -> None:
        """``take`` makes the result of the ``operation`` when it has succeeded."""
        self._operation: Optional[Operation] = operation
        self._take = take

    @property
    def name(self) -> Optional[str]:
        """The operation's full name; None after ``synchronize``."""
        return str(self._operation.name) if self._operation is not None else None

    def abandon(self) -> None:
        """Nobody will wait for it: as if it were dropped. Raises nothing."""
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.abandon()

    def ask_to_cancel(self) -> None:
        """Begins what :meth:`cancel` does, and waits for nothing."""
        if self._operation is not None:
            self._operation.ask_to_cancel()

    def cancel(self) -> bool:
        """Unless all ranks have submitted it, it ends on all of them with an error. Returns when it has ended, or after some
        seconds, whether it has ended so; raises nothing."""
        if self._operation is None:
            return False
        self._operation.cancel()
        return self._operation._has_failed()

    def __del__(self) -> None:
        if hasattr(self, "_operation"):  # a signal handler may have raised while it was made
            self.abandon()


if extension is not None:
    extension.know_handles(Handle)


def poll(handle: Handle[Any]) -> bool:
    """Whether the operation of ``handle`` has ended, so that ``synchronize`` will not block. Never blocks. Raises
    ValueError for anything that is no handle, or one that was synchronized already; ForkedError in a forked child."""
    operation = handle._operation if isinstance(handle, Handle) else None
    if operation is None:
        raise InvalidArgumentError("poll: no operation is under way under this handle", 1)
    return operation.done()


def synchronize(handle: Handle[Result]) -> Result:
    """Waits for an asynchronous operation and returns its result: a tensor, or a list of them for a grouped operation.

    Args:
        handle: of an ``*_async`` function. For anything else, or one that was synchronized already, None is returned.

    Other Python threads run meanwhile; Ctrl-C is answered within a tenth of a second. Raises CollectiveError if the
    operation has failed on this rank: MismatchError, PeerLostError, PeerLeftError, TimedOutError (see
    :mod:`ronde.exceptions`).
    """
    operation = handle._operation if isinstance(handle, Handle) else None
    if operation is None:
        return None  # type: ignore[return-value] # a mistake that Horovod lets pass; the types speak of proper use
    handle._operation = None  # a failed or interrupted wait gives the operation up by itself
    operation.wait()
    return handle._take(operation)


def synchronize_all(handles: Sequence[Handle[Result]]) -> List[Result]:
    """The results of all. If some have failed, raises the first one's error after all have ended, so that all names are
    free again."""
    results: List[Result] = []
    failure: Optional[RondeError] = None
    try:
        for handle in handles:
            try:
                results.append(synchronize(handle))
            except RondeError as error:
                failure = failure or error
        if failure is not None:
            raise failure
    finally:
        failure = None  # its traceback has this frame
        for handle in handles:  # Ctrl-C
            handle.abandon()
    return results


def nothing(operation: Operation) -> None:
    """There is no result."""
    operation.release()
