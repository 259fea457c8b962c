"""Which call of a program a gradient's call belongs to.

JAX leaves the gradient of a call out on a rank that does not use the call's result, or uses it for nothing that is
differentiated. Numbered alone, the gradient of one call would meet another rank's gradient of another call. So it is named after
its call.

JAX keeps what it has traced, a jitted helper say, and one trace may come to the program several times, on one rank, where another
rank has traced it anew each time. Both must find the same pairs. So of calls of one trace the last that has none yet gets the
gradient: JAX takes derivatives in reverse, and computes again what it needs for them just before. Where all have one they begin
anew, with a second derivative.
"""

from __future__ import annotations

from typing import Dict, List, NamedTuple, Sequence


class Call(NamedTuple):
    """What is known of a call of the program."""

    trace: int  # where JAX has traced it; 0: not known
    gradient_of: int  # the trace of the call whose gradient it is; 0: of none


class Pair(NamedTuple):
    """Of a gradient's call."""

    of: int  # the call that it belongs to, by its place in the program
    number: int  # which of its gradients, from 0


def pairs(calls: Sequence[Call]) -> Dict[int, Pair]:
    """Of each gradient's call, by its place, that belongs to a call of the same program. ``calls``: in the program's order."""
    without: Dict[int, List[int]] = {}  # by trace, the calls that have no gradient in this round
    having: Dict[int, List[int]] = {}
    rounds: Dict[int, int] = {}
    found: Dict[int, Pair] = {}
    for place, call in enumerate(calls):
        of = call.gradient_of
        if of:
            if not without.get(of) and having.get(of):
                without[of] = sorted(having.pop(of))
                rounds[of] = rounds.get(of, 0) + 1
            if without.get(of):
                found[place] = Pair(without[of].pop(), rounds.get(of, 0))
                having.setdefault(of, []).append(found[place].of)
        if call.trace:
            without.setdefault(call.trace, []).append(place)
    return found
