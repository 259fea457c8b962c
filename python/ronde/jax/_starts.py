"""The short way into a compiled program with calls that has been started with such arguments before.

JAX starts a program without effects in C++. Programs with calls have one (``_effect.py``), and of these JAX describes each
argument anew at each start, in Python, to find the executable by it and to see that the argument lies where that one expects
it: 11 us an argument, which with ResNet-50's gradients is a fifth of what their average takes. What comes of it depends on what
the arguments are, not on their values. So it is kept for each trace, and where the next arguments are as the last ones were,
the executable gets them at once.

JAX finds the trace itself, by shapes and types, and keeps the executable, so neither is used longer than by JAX alone; and the
executable is called as JAX calls it, so errors, tokens and ends of executions (``_endings.py``) are what they are without this.
"""

from __future__ import annotations

import functools
import threading
import weakref
from operator import attrgetter, is_, methodcaller
from typing import Any, Dict, List, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from ronde.jax import _endings
from ronde.jax._effect import known_effect

#: Arguments that are no arrays of JAX's, and of which it looks at the type alone once it has found the trace.
_PLAIN = (np.ndarray, np.generic, bool, int, float, complex)

_sharding_of, _committed_of, _layout_of = attrgetter("sharding"), attrgetter("_committed"), attrgetter("_pjrt_layout")
_is_deleted = methodcaller("is_deleted")


class _Description(NamedTuple):
    """What decides, beside the trace, which executable gets the arguments, and how."""

    context: Any  # what JAX is set to, where a trace has another program with another setting
    types: List[Any]
    shardings: List[Any]  # of JAX's own arrays, and of those under random keys; so is what follows
    committed: List[bool]
    layouts: List[Any]


class _Start(NamedTuple):
    """How a trace was started last."""

    description: _Description
    parameters: Dict[str, Any]  # of the trace
    compiled: "weakref.ref[Any]"  # JAX drops it where its caches are cleared
    are_in_place: bool  # the arguments lay where the program expects them
    others: Tuple[Any, ...]  # what JAX returns behind the results and that

    def is_like(self, description: _Description, parameters: Dict[str, Any]) -> bool:
        return description == self.description and all(parameters.get(name) is each for name, each in self.parameters.items())

    def again(self, compiled: Any, arguments: Sequence[Any]) -> Tuple[Any, ...]:
        execute = compiled.unsafe_call
        if self.are_in_place:
            _thread.in_place = _used(execute, arguments)
        try:
            return (execute(*arguments), compiled, *self.others)
        finally:
            _thread.in_place = None


def _used(execute: Any, arguments: Sequence[Any]) -> List[Any]:
    """Those that the program has not dropped."""
    return [each for index, each in enumerate(arguments) if index in execute.kept_var_idx]


class _Thread(threading.local):
    in_place: Optional[List[Any]] = None  # arguments of which it is known that they lie where the program expects them
    left: Optional[List[Any]] = None  # for a start: its arguments that the program uses, if all lay in their places


_thread = _Thread()

#: By their traces. No value refers to its key, so that they go with the traces.
_starts: "weakref.WeakKeyDictionary[Any, _Start]" = weakref.WeakKeyDictionary()


class _Bring:
    """Brings a program's arguments to where it expects them."""

    def __init__(self, bring: Any) -> None:
        self._bring = bring

    def __call__(self, arguments: Sequence[Any]) -> Any:
        if _thread.in_place is not None and _are_same(arguments, _thread.in_place):
            return arguments
        brought = self._bring(arguments)
        if _thread.left is not None:
            _thread.left[:] = arguments if _are_same(arguments, brought) else ()
        return brought


def _are_same(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return len(one) == len(other) and all(map(is_, one, other))


@functools.lru_cache(maxsize=None)
def install() -> None:
    """Has programs with calls started so. JAX has no public way: where it has changed they start as JAX does it."""
    effect = known_effect()
    try:
        from jax._src import config, dispatch, pjit
        from jax._src.array import ArrayImpl
        from jax._src.interpreters.pxla import ExecuteReplicated

        start, context_of, make = pjit._pjit_call_impl_python, config.trace_context, ExecuteReplicated.__init__
        is_checked, profile, log = dispatch.needs_check_special, config.enable_pgle, config.distributed_debug
        is_checked(), context_of(), profile.value, log.value, ArrayImpl._committed, ArrayImpl._pjrt_layout
    except (ImportError, AttributeError):
        return

    def describe(arguments: Sequence[Any]) -> Optional[_Description]:
        """None: with these, or as JAX is set, a program is started as JAX does it."""
        under = [getattr(each, "_base_array", each) for each in arguments]
        are_known = all(type(each) is ArrayImpl or isinstance(each, _PLAIN) for each in under)
        if not are_known or is_checked() or profile.value or log.value:
            return None
        arrays = [each for each in under if type(each) is ArrayImpl]
        try:
            if any(map(_is_deleted, arrays)):
                return None  # JAX says so
            of_each = [list(map(of, arrays)) for of in (_sharding_of, _committed_of, _layout_of)]
        except Exception:  # a device that knows no layouts, say: JAX goes on without
            return None
        return _Description(context_of(), list(map(type, arguments)), *of_each)

    def keep(description: _Description, parameters: Dict[str, Any], started: Tuple[Any, ...], in_place: bool) -> None:
        # Results, executable, profiler and, since JAX 0.8, constants that come before the arguments.
        if len(started) not in (3, 4) or started[2] is not None or (len(started) > 3 and started[3]):
            return
        execute = getattr(started[1], "unsafe_call", None)
        if (
            not isinstance(execute, ExecuteReplicated) or execute.ordered_effects
            or getattr(execute, "mut", None) is not None or not isinstance(execute.in_handler, _Bring)
        ):
            return
        others = {name: each for name, each in parameters.items() if name != "jaxpr"}
        _starts[parameters["jaxpr"]] = _Start(description, others, weakref.ref(started[1]), in_place, started[2:])

    def are_in_place(compiled: Any, arguments: Sequence[Any], left: Sequence[Any]) -> bool:
        execute = getattr(compiled, "unsafe_call", None)
        return isinstance(execute, ExecuteReplicated) and len(left) > 0 and _are_same(left, _used(execute, arguments))

    @functools.wraps(start)
    def start_or_again(*arguments: Any, **parameters: Any) -> Any:
        trace = parameters.get("jaxpr")
        description = describe(arguments) if effect in getattr(trace, "effects", ()) else None
        if description is None:
            return start(*arguments, **parameters)
        before = _starts.get(trace)
        if before is not None and before.is_like(description, parameters):
            compiled = before.compiled()
            if compiled is not None:
                return before.again(compiled, arguments)
        # A signal handler may start another one, of which this one must not take what it has left.
        left: List[Any] = []
        of_outer, _thread.left = _thread.left, left
        try:
            started = start(*arguments, **parameters)
        finally:
            _thread.left = of_outer
        keep(description, parameters, started, are_in_place(started[1], arguments, left))
        return started

    @functools.wraps(make)
    def make_and_see(self: Any, *arguments: Any, **options: Any) -> None:
        make(self, *arguments, **options)
        if _endings.program_of(self) is not None:
            self.in_handler = _Bring(self.in_handler)

    ExecuteReplicated.__init__ = make_and_see
    pjit._pjit_call_impl_python = start_or_again
