"""ronde.jax._pairs: which call of a program a gradient's call belongs to, and that ranks find the same whatever they have traced anew."""

from __future__ import annotations

import pytest

from ronde.jax._pairs import Call, pairs


def found(*calls):
    """Of each gradient, in the program's order: its call, and its number. ``calls``: a trace, or minus the trace of the call whose
    gradient it is."""
    made = pairs([Call(100 + place, -call) if call < 0 else Call(call, 0) for place, call in enumerate(calls)])
    return [tuple(made[place]) for place in sorted(made)]


def test_a_gradient_belongs_to_its_call_wherever_it_stands():
    assert found(1, 2, -2, -1) == [(1, 0), (0, 0)]
    assert found(1, 2, -1, -2) == [(0, 0), (1, 0)]
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
])
def test_one_trace_or_several_are_alike(anew, kept):
    assert found(*anew) == found(*kept)


def test_derivatives_of_derivatives():
    made = pairs([Call(1, 0), Call(2, 1), Call(3, 2)])
    assert made[1].of == 0 and made[2].of == 1
