"""What is told of a rank whose function has failed, or whose process has ended: which, where, and why."""

from __future__ import annotations

import pickle
import signal
import traceback
from dataclasses import dataclass
from typing import Iterable, Optional

from ronde.exceptions import CollectiveError, MismatchError, RankFailedError

__all__ = ["CONSEQUENCE_GRACE_S", "Failure", "RankTraceback", "cause_of_status", "failure_of", "first_of"]

#: For how many seconds an error that only tells of another rank's end waits for that rank's own word. A process's end is seen
#: in milliseconds; on a host with more work than cores its scheduler may take a second to tell it.
CONSEQUENCE_GRACE_S = 5.0

#: What an exception may weigh, pickled, to be carried beside its text.
_MOST_BYTES = 64 * 1024


class RankTraceback(Exception):
    """The text of a traceback in a rank's process: the cause of what the caller gets."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}" if self.args else ""


@dataclass(frozen=True)
class Failure:
    """Why a rank has no result.

    Attributes:
        cause: how the sentence about the rank goes on: "raised KeyError: 'x'", "was killed by signal 9".
        traceback: of the rank's exception; empty where there was none.
        exception: it, pickled; None where it cannot be carried.
        follows: whether it only tells that another rank has failed.
    """

    rank: int
    size: int
    host: str
    pid: int
    cause: str
    traceback: str = ""
    exception: Optional[bytes] = None
    follows: bool = False

    def sentence(self) -> str:
        """It in one sentence."""
        return f"rank {self.rank} of {self.size} ({self.host}, pid {self.pid}) {self.cause}"

    def error(self) -> RankFailedError:
        """What to raise. Its cause is the rank's exception, or where that cannot be had the text of its traceback."""
        error = RankFailedError(self.sentence(), rank=self.rank, host=self.host, pid=self.pid)
        if self.traceback:
            text = RankTraceback(self.traceback)
            cause = _unpickled(self.exception)
            if cause is not None:
                cause.__cause__ = text
            error.__cause__ = cause or text
        return error


def failure_of(error: BaseException, rank: int, size: int, host: str, pid: int) -> Failure:
    """That of a rank whose function has raised this. Raises nothing."""
    kind = type(error)
    name = kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"
    text = str(error)
    return Failure(
        rank,
        size,
        host,
        pid,
        f"raised {name}: {text}" if text else f"raised {name}",
        "".join(traceback.format_exception(kind, error, error.__traceback__)),
        _pickled(error),
        _follows(error),
    )


def cause_of_status(status: int) -> str:
    """Of a process's end: ``status`` is its exit code, or the number of the signal that has killed it, negative."""
    if status >= 0:
        return f"ended with code {status} before its function had returned"
    hint = " (as the kernel does where memory is used up)" if -status == signal.SIGKILL else ""
    return f"was killed by signal {-status}{hint}"


def first_of(failures: Iterable[Failure]) -> Optional[Failure]:
    """The one to tell of those that were seen, in this order: the first that is no consequence of another's."""
    seen = list(failures)
    return next((each for each in seen if not each.follows), seen[0] if seen else None)


def _follows(error: BaseException) -> bool:
    """Whether the engine has raised it, or what it was raised from, since another rank had failed or left."""
    each: Optional[BaseException] = error
    for _ in range(8):
        if each is None:
            return False
        if isinstance(each, CollectiveError) and not isinstance(each, MismatchError):
            return True
        each = each.__cause__ or each.__context__
    return False


def _pickled(error: BaseException) -> Optional[bytes]:
    # Of classes that only the rank has, or whose __init__ wants other arguments, only the text is carried.
    try:
        data = pickle.dumps(error)
        return data if len(data) <= _MOST_BYTES and isinstance(pickle.loads(data), BaseException) else None
    except Exception:
        return None


def _unpickled(data: Optional[bytes]) -> Optional[BaseException]:
    if data is None:
        return None
    try:
        made = pickle.loads(data)
    except Exception:  # its class may be the rank's alone
        return None
    return made if isinstance(made, BaseException) else None
