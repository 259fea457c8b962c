"""ronde.jax._pairs: which call of a program a gradient's call belongs to, and that ranks find the same whatever they have traced anew."""

from __future__ import annotations

import pytest

from ronde.jax._pairs import Call, pairs


def found(*calls):
    """Of each gradient, in the program's order: its call, and its number. ``calls``: a trace, or minus the trace of the call whose
    gradient it is."""
    return [(pair.of, pair.number) for pair in of(*calls).values()]


def of(*calls, **how):
    """As pairs()."""
    made = pairs([Call(100 + place, -call, call < 0) if call < 0 else Call(call, 0) for place, call in enumerate(calls)], **how)
    return {place: made[place] for place in sorted(made)}


def test_a_gradient_belongs_to_its_call_wherever_it_stands():
    assert found(1, 2, -2, -1) == [(1, 0), (0, 0)]
    assert found(1, 2, -2) == [(1, 0)]
    assert found(1, 2, -1) == [(0, 0)]
    assert found(1, -1, -1, -1) == [(0, 0), (0, 1), (0, 2)]


def test_what_belongs_to_no_call_of_the_program_is_left_out():
    assert found(-7, 1, 0, -8) == []
    assert found() == []


@pytest.mark.parametrize("anew, kept", [
    ((1, 2, 3, -3, -2, -1), (1, 1, 1, -1, -1, -1)),  # one after the other
    ((1, 2, 3, 3, -3, 2, -2, 1, -1), (1, 1, 1, 1, -1, 1, -1, 1, -1)),  # computed again by checkpoint
    ((1, 2, 3, 4, -4, 5, -5), (1, 1, 1, 1, -1, 1, -1)),  # and by the program
    ((1, 2, -2, -1, -2, -1), (1, 1, -1, -1, -1, -1)),  # two derivatives
    ((1, -1), (5, -5)),
    ((1, 2, -1, -2), (1, 1, -1, -1)),  # pullbacks in the order of the calls
    ((1, 2, 3, -2, -1, -3), (1, 1, 3, -1, -1, -3)),
    ((1, 2, 3, -2, -3), (1, 2, 2, -2, -2)),  # of a call without one
])
def test_one_trace_or_several_are_alike(anew, kept):
    assert of(*anew) == of(*kept)


@pytest.mark.parametrize("one, other", [
    ((1, 2, -2), (1, 2, -1)),
    ((1, 2, -1, -2), (1, 2, -2)),
    ((1, 2, -1, -2), (1, 2, -1)),
    ((1, 2, 3, -1, -2), (1, 2, 3, -1, -3)),
])
def test_a_rank_that_leaves_a_gradient_out_meets_nobody(one, other):
    assert not set(of(*one).values()).intersection(of(*other).values())


def test_without_one_order_of_gradients_traces_tell():
    assert [pair.of for pair in of(1, 2, 3, -1, -3, -2, in_one_order=False).values()] == [0, 2, 1]


def test_derivatives_of_derivatives():
    made = pairs([Call(1, 0), Call(2, 1), Call(3, 2)])
    assert made[1].of == 0 and made[2].of == 1
