"""Which call of a program a gradient's call meets the gradients of.

JAX leaves the gradient of a call out on a rank that does not use the call's result, or uses it for nothing that is
differentiated. Numbered alone, the gradient of one call would meet another rank's gradient of another call. So it is named after
a call, and all ranks must find the same pairs.

JAX keeps what it has traced, a jitted helper say, and one trace may come to the program several times, on one rank, where another
rank has traced it anew each time. Traces tell of which calls there are gradients, but which gradient belongs to which of the calls
of one trace they do not tell. What all ranks know is the order of calls and gradients. So

1. by traces, each call gets its number of gradients: of calls of one trace the last that has none yet gets the gradient, since
   JAX takes derivatives in reverse, and computes again what it needs for them just before. Where all have one they begin anew, with
   a second derivative;
2. by their order alone, gradients go to the calls that have some, as if all calls of a kind were of one trace. Ranks that found the
   same numbers find the same pairs, whatever they have traced anew. They need not be the true ones where a program calls pullbacks in
   another order than the reverse one: then they are others on all ranks alike;
3. where not all calls of a kind have as many gradients, the numbers are in the names as well: a rank that has left a gradient out meets
   nobody.

2 needs gradients in one order on all ranks. JAX has that since 0.6: it is the reverse order of the calls, whatever is computed beside
(tried with random programs). Before, it follows from what else a rank computes, and the pairs are those of 1.
"""

from __future__ import annotations

from typing import Dict, Hashable, List, NamedTuple, Sequence


class Call(NamedTuple):
    """What is known of a call of the program."""

    trace: int  # where JAX has traced it; 0: not known
    gradient_of: int  # the trace of the call whose gradient it is; 0: of none
    kind: Hashable = ""  # calls of one trace are of one kind


class Pair(NamedTuple):
    """Of a gradient's call."""

    of: int  # the call that it meets the gradients of, by its place in the program
    number: int  # which of its gradients, from 0
    counted: str = ""  # the numbers of gradients of calls of that kind, where they differ


def pairs(calls: Sequence[Call], in_one_order: bool = True) -> Dict[int, Pair]:
    """Of each gradient's call, by its place, that belongs to a call of the same program. ``calls``: in the program's order.
    ``in_one_order``: that of gradients is the same on all ranks."""
    by_traces = _assigned([call.trace for call in calls], [call.gradient_of for call in calls])
    if not in_one_order:
        return by_traces
    counts: Dict[int, int] = {}
    for pair in by_traces.values():
        counts[pair.of] = counts.get(pair.of, 0) + 1
    kinds = {kind: number for number, kind in enumerate({call.kind: None for call in calls}, 1)}
    found = _assigned(
        [kinds[call.kind] if place in counts else 0 for place, call in enumerate(calls)],
        [kinds[calls[by_traces[place].of].kind] if place in by_traces else 0 for place in range(len(calls))],
    )
    said = {kind: _said([counts.get(place, 0) for place, call in enumerate(calls) if call.kind == kind]) for kind in kinds}
    return {place: pair._replace(counted=said[calls[pair.of].kind]) for place, pair in found.items()}


def _said(counts: Sequence[int]) -> str:
    return "" if len(set(counts)) == 1 else ",".join(map(str, counts))


def _assigned(traces: Sequence[int], gradients_of: Sequence[int]) -> Dict[int, Pair]:
    """By place, the call of the trace that a gradient belongs to. 0: of no trace, and no gradient."""
    without: Dict[int, List[int]] = {}  # by trace, the calls that have no gradient in this round
    having: Dict[int, List[int]] = {}
    rounds: Dict[int, int] = {}
    found: Dict[int, Pair] = {}
    for place, (trace, of) in enumerate(zip(traces, gradients_of)):
        if of:
            if not without.get(of) and having.get(of):
                without[of] = sorted(having.pop(of))
                rounds[of] = rounds.get(of, 0) + 1
            if without.get(of):
                found[place] = Pair(without[of].pop(), rounds.get(of, 0))
                having.setdefault(of, []).append(found[place].of)
        if trace:
            without.setdefault(trace, []).append(place)
    return found
