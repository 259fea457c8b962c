"""Calls of compiled programs that go through Python, one after the other: with ``RONDE_JAX_FFI=0``, on other devices than CPUs,
and where XLA does not take the library.

All that have no name of the caller's have one name, since each has its result before the next is made. That holds while the
ranks make the same calls: once an execution has failed on a rank, others may have come to another of its calls, and nothing
tells them apart. So that rank makes no more of them until the next ``init()``, and the others' end with their limit.
"""

from __future__ import annotations

from typing import Any, Callable, List, Sequence

from jax.extend.core import Primitive
from jax.interpreters import mlir

from ronde import _abi, _process
from ronde.exceptions import CollectiveError, RondeError
from ronde.jax import _endings, _numbering
from ronde.jax._effect import known_effect

#: The job, as :func:`ronde._process.epoch` counts, in which an execution has failed last. 0: in none.
_failed_in = 0


def make(call: Callable[[], List[Any]]) -> List[Any]:
    """What the call returns, which is one of a compiled program. CollectiveError where an earlier execution has failed."""
    epoch = _epoch()
    if 0 < epoch <= _failed_in:
        raise CollectiveError(
            "an earlier execution of a compiled program has failed on this rank, and calls that go through Python "
            "(RONDE_JAX_FFI=0, or another device than a CPU) cannot tell which of its calls other ranks have made: shutdown() "
            "and init() on all ranks",
            _abi.CANCELLED,
        )
    try:
        return call()
    except BaseException:
        _note_failure(epoch)
        raise


def _epoch() -> int:
    """0: there is no job."""
    try:
        return _process.epoch()
    except RondeError:
        return 0


def _note_failure(epoch: int) -> None:
    global _failed_in
    _failed_in = max(_failed_in, epoch)


class _Program(_endings.Program):
    """One with such calls."""

    has_callbacks = False  # all errors are alike here

    def now(self) -> int:
        return _epoch()

    def failed(self, started: int, error: BaseException, is_of_argument: bool) -> None:
        _note_failure(started)


#: What a program has behind each such call: JAX writes nothing for it, and Ronde learns of the program.
_call_p = Primitive("ronde_call_through_python")
_call_p.multiple_results = True


def noted(results: Sequence[Any]) -> List[Any]:
    """The results of such a call, in the program that is traced."""
    return list(_call_p.bind(*results))


def _lower(context: Any, *operands: Any) -> Sequence[Any]:
    _numbering.expect_program(_Program())
    return operands


_effect = known_effect()
if _effect is None:
    _call_p.def_abstract_eval(lambda *operands: list(operands))
else:
    _call_p.def_effectful_abstract_eval(lambda *operands: (list(operands), {_effect}))
mlir.register_lowering(_call_p, _lower)
