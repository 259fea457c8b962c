"""Where Ronde does not do as PyTorch's suite asks of Gloo, and why. A test that is listed and passes, or is not run, is an
error, as is one that fails and is not listed."""

from __future__ import annotations

from typing import Dict, NamedTuple, Tuple


class Difference(NamedTuple):
    """Why a test fails over Ronde."""

    worlds: Tuple[int, ...]  # with so many ranks
    reason: str


_WORDS = (
    "ranks other than 0 must be told that they 'successfully reached monitoredBarrier, but received errors while waiting "
    "for send/recv from rank 0'; Ronde tells every rank which ranks have not come, which is what happened"
)

DIFFERENCES: Dict[str, Difference] = {
    "test_monitored_barrier_gloo": Difference((3,), _WORDS),
    "test_monitored_barrier_failure_order": Difference((8,), _WORDS),
}
