"""What Ronde raises.

Every error of Ronde is a :class:`RondeError` and so a ``RuntimeError``. Two questions decide the class:

* *Was the call wrong?* Then it is a ``ValueError`` as well (:class:`InvalidArgumentError`, :class:`DuplicateNameError`,
  :class:`NotInitializedError`): nothing was sent, other ranks know nothing of it.
* *Did the work fail, with other ranks involved?* Then it is a :class:`CollectiveError`, which ``ronde.torch`` also
  calls ``HorovodInternalError``: scripts written for Horovod catch it to restore their state and start again.

A disagreement between ranks (:class:`MismatchError`) is both: the work failed, on all ranks and with the same text,
because some rank's call was wrong. The job stays usable after it.
"""

from __future__ import annotations

from typing import Dict, Type

__all__ = [
    "CollectiveError",
    "DuplicateNameError",
    "ForkedError",
    "HostsUpdatedInterrupt",
    "InitializationError",
    "InvalidArgumentError",
    "MismatchError",
    "NotInitializedError",
    "PeerLeftError",
    "PeerLostError",
    "PlacementError",
    "RankFailedError",
    "RondeError",
    "TimedOutError",
    "UnsupportedError",
]


class RondeError(RuntimeError):
    """Base of all errors of Ronde. ``str()`` of it is one sentence or two that name rank, tensor and cause: the
    ``message``.

    Attributes:
        code: the number of ``ronde_status`` in ``<ronde/ronde.h>``.
        rank: the rank that failed or left, -1 if the error concerns none.
        tensor: the name of the tensor concerned, "" if none.
    """

    def __init__(self, message: str, code: int = 0, rank: int = -1, tensor: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.rank = rank
        self.tensor = tensor

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str]]:
        # The default would hand only the message to __init__ and lose the rest on the way between processes.
        return type(self), (str(self), self.code, self.rank, self.tensor)


class InvalidArgumentError(RondeError, ValueError):
    """The call itself is wrong; nothing was changed."""


class NotInitializedError(RondeError, ValueError):
    """``init()`` has not been called, or ``shutdown()`` was called since."""


class InitializationError(RondeError, ValueError):
    """``init()`` failed: ranks did not come in time, or no way to them was given."""


class DuplicateNameError(RondeError, ValueError):
    """An earlier operation of that name has been neither synchronized nor dropped on this rank."""


class UnsupportedError(RondeError, NotImplementedError):
    """Asked for something that Ronde does not do yet."""


class ForkedError(RondeError):
    """Called in a forked child (a DataLoader worker, say) of the process that is a rank of the job."""


class CollectiveError(RondeError):
    """Work under way failed. Unless a subclass says otherwise, go on with ``shutdown()`` and ``init()``."""


class MismatchError(CollectiveError, ValueError):
    """The ranks asked for different things under one name. All ranks get the same text; the job stays usable."""


class PeerLostError(CollectiveError):
    """A rank's process ended without leaving the job; ``rank`` says which."""


class PeerLeftError(CollectiveError):
    """A rank shut down or exited while others still needed it; ``rank`` says which."""


class TimedOutError(CollectiveError):
    """Ranks that are alive did not submit or finish in time."""


class PlacementError(RondeError):
    """A scheduler (Ray, Spark) has not placed the ranks of a job: in time, or at all. Nothing of the job is left."""


class RankFailedError(RondeError):
    """A rank of a job that this process has begun has failed, and the job was ended. ``__cause__`` is what the rank has raised, or
    the text of its traceback; None where its process has ended without a word. ``message``, ``code`` and ``tensor`` are
    :class:`RondeError`'s.

    Attributes:
        rank: which.
        host: its host's name.
        pid: its process on that host.
    """

    def __init__(self, message: str, code: int = 6, rank: int = -1, tensor: str = "", host: str = "", pid: int = 0) -> None:
        super().__init__(message, code, rank, tensor)
        self.host = host
        self.pid = pid

    def __reduce__(self) -> tuple[type, tuple[str, int, int, str, str, int]]:  # type: ignore[override] # narrower than object's
        return type(self), (str(self), self.code, self.rank, self.tensor, self.host, self.pid)


class HostsUpdatedInterrupt(RuntimeError):
    """No error: the job's hosts have changed, and elastic training is to start again with the state as it is.

    Attributes:
        skip_sync: whether hosts have only gone, so that every rank still holds the same state.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__("the hosts of the job have changed: start again with the state as it is")
        self.skip_sync = skip_sync


#: Programs look for this in the ValueError of a call before init.
_IN_HOROVODS_WORDS = " (Horovod has not been initialized; use hvd.init().)"

_CLASS_OF_CODE: Dict[int, Type[RondeError]] = {
    1: InvalidArgumentError,
    2: NotInitializedError,
    3: UnsupportedError,
    4: DuplicateNameError,
    5: MismatchError,
    6: PeerLostError,
    7: PeerLeftError,
    8: TimedOutError,
    12: ForkedError,
}


def error_of(code: int, message: str, rank: int = -1, tensor: str = "") -> RondeError:
    """The exception for a status that is not RONDE_OK; :class:`CollectiveError` for codes without a class of their
    own."""
    made = _CLASS_OF_CODE.get(code, CollectiveError)
    if made is NotInitializedError:
        message += _IN_HOROVODS_WORDS
    return made(message, code, rank, tensor)


def raise_if_the_programs(error: RondeError) -> None:
    """Raises it if the program has made it, not Ronde, as a signal handler does in the middle of a call whose errors are no news
    to anybody. What Ronde makes has a code."""
    if error.code == 0:
        raise error
