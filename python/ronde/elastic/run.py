"""The loop of elastic training: after an error in which all ranks live, join anew and go on from the last commit."""

from __future__ import annotations

import functools
import os
from typing import Any, Callable, Optional, TypeVar

from ronde.elastic.notification import notification_manager
from ronde.exceptions import (
    CollectiveError,
    HostsUpdatedInterrupt,
    InvalidArgumentError,
    MismatchError,
    PeerLostError,
    RondeError,
)

_Result = TypeVar("_Result")

_LIMIT_VARIABLE = "RONDE_ELASTIC_RESET_LIMIT"


def _limit(given: Optional[int]) -> Optional[int]:
    """How often the job may be joined anew; None: as often as it takes."""
    text = os.environ.get(_LIMIT_VARIABLE, "")
    if given is not None or not text:
        return given
    if not text.isdigit():
        raise InvalidArgumentError(
            f"the environment variable {_LIMIT_VARIABLE} is '{text}'; expected a whole number", 1
        )
    return int(text)


def run_fn(
    func: Callable[..., _Result], reset: Callable[[], None], reset_limit: Optional[int] = None
) -> Callable[..., _Result]:
    """Wraps ``func(state, ...)`` so that it starts again after what can be survived, and returns what it returns.

    * A CollectiveError (HorovodInternalError), unless as below: the state goes back to the last commit.
    * HostsUpdatedInterrupt: the state stays as it is.

    In both cases ``reset()`` joins the job anew, ``state.on_reset()`` is called, ``state.sync()`` gives every rank rank
    0's state, and ``func`` is called again. That all ranks synchronize each time, whatever made each of them start
    again, is what keeps a rank that had an error and one that had news from waiting for each other.

    Not survived, and raised as it is: MismatchError, since the ranks' programs disagree and would do so again, and
    PeerLostError, since a dead process is not replaced yet.

    Args:
        func: the training function; its first argument is a :class:`ronde.elastic.State`.
        reset: leaves the job and joins it again; collective.
        reset_limit: how often at most; then RondeError from the error. None: RONDE_ELASTIC_RESET_LIMIT, else no limit.
    """

    @functools.wraps(func)
    def start(state: Any, *args: Any, **kwargs: Any) -> _Result:
        limit = _limit(reset_limit)
        resets = 0
        cause: Optional[RuntimeError] = None
        notification_manager.init()
        notification_manager.register_listener(state)
        try:
            while True:
                try:
                    if cause is not None:
                        reset()
                        state.on_reset()
                    state.sync()
                    return func(state, *args, **kwargs)
                except (MismatchError, PeerLostError):
                    raise
                except CollectiveError as error:
                    state.restore()
                    cause = error
                except HostsUpdatedInterrupt as news:
                    cause = news
                if limit is not None and resets >= limit:
                    said = f"training has started again {resets} times, the limit, and stops: {cause}"
                    raise RondeError(said) from cause
                resets += 1
        finally:
            notification_manager.remove_listener(state)

    return start
