"""What a monitored barrier says when ranks have not come: in the words of Gloo's, which programs look for, and then in
Ronde's own."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Optional

from ronde.exceptions import TimedOutError

#: For who would not wait at all, which is no limit to the engine.
_SHORTEST = timedelta(milliseconds=1)


def limit_of(timeout: Optional[timedelta]) -> Optional[timedelta]:
    """Of the barrier; None: the group's. Less than 0 is PyTorch's word for the group's, and 0 means 0."""
    return None if timeout is None or timeout < timedelta(0) else max(timeout, _SHORTEST)


def in_words_of_gloo(error: TimedOutError, rank: int, names_all: bool) -> TimedOutError:
    """The error for ``rank``. ``names_all``: Gloo's words name all ranks that have not come and not the first only."""
    named = re.search(r"ranks? ([\d, ]+) did not submit it", str(error))
    if named is None:
        return error
    late = f"Ranks {named[1]}" if names_all else f"Rank {named[1].split(',')[0]}"
    return TimedOutError(
        f"{late} failed to pass monitoredBarrier. Rank {rank} timed out in monitoredBarrier: {error}",
        error.code,
        error.rank,
        error.tensor,
    )
