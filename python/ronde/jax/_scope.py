"""Names of calls in a program that JAX traces: the traced function, and which of its calls this is.

Ranks meet by name, and XLA makes independent calls in another order on every rank and run. So each call of a compiled program
has a name of its own, which is the same on every rank that traces the same function, and after another trace of it, for
another batch size say, that only one rank needs.
"""

from __future__ import annotations

import itertools
import re
from typing import Any, Dict, Optional
from weakref import WeakKeyDictionary

from jax.extend import core

#: Where JAX shows no trace, calls are counted: ranks must then trace the same functions in the same order.
_counted = itertools.count()


class _Scope:
    """One trace of a function."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.calls = 0
        self.inner: Dict[str, int] = {}  # traces within, by label


_scopes: "WeakKeyDictionary[Any, _Scope]" = WeakKeyDictionary()


def _current_trace() -> Any:
    """JAX shows it in no public way; None where it has gone elsewhere."""
    try:
        from jax._src.core import trace_ctx

        return trace_ctx.trace
    except (ImportError, AttributeError):
        return None


def _staging(trace: Any) -> Any:
    """The innermost trace that makes a program: derivatives and batches are taken on its way. None: there is none."""
    while trace is not None and not hasattr(trace, "frame"):
        trace = getattr(trace, "parent_trace", None)
    return trace


def is_staged() -> bool:
    """Whether a call made now becomes part of a program, to be run later."""
    trace = _current_trace()
    if trace is None:
        return bool(getattr(core, "unsafe_am_i_under_a_jit_DO_NOT_USE", lambda: False)())
    return _staging(trace) is not None


def _label(trace: Any) -> str:
    """``step@train.py:12``: without the folder, which may be another on other hosts."""
    information = str(getattr(getattr(trace.frame, "debug_info", None), "func_src_info", "") or "program")
    return re.sub(r" at (?:.*[/\\])?", "@", information).replace(" ", "_")


def _scope_of(trace: Any) -> _Scope:
    known = _scopes.get(trace)
    if known is None:
        label = _label(trace)
        outer = _staging(getattr(trace, "parent_trace", None))
        if outer is not None:
            scope = _scope_of(outer)
            number = scope.inner.get(label, 0)
            scope.inner[label] = number + 1
            label = f"{scope.label}/{label}" + (f"#{number}" if number else "")
        known = _scopes[trace] = _Scope(label)
    return known


def name_in_trace() -> str:
    """Of the next call in the function that is traced now."""
    trace: Optional[Any] = _staging(_current_trace())
    if trace is None:
        return f"traced.{next(_counted)}"
    scope = _scope_of(trace)
    number = scope.calls
    scope.calls = number + 1
    return f"{scope.label}.{number}"


def name_in_module(name: str, module_context: Any) -> str:
    """Of a call with this name in the program that JAX writes now, which may have it several times: ``jax.checkpoint`` traces a
    function once and repeats it, for each layer and again in the backward pass, and a loop is unrolled. What is repeated may
    be under way at once. The program is the same on every rank, and so are the numbers."""
    written = getattr(module_context, "cached_primitive_lowerings", None)  # of this program; JAX looks for keys of its own
    if not isinstance(written, dict):
        return name
    key = "ronde.jax", name
    number = written.get(key, 0)
    written[key] = number + 1
    return f"{name}~{number}" if number else name
